"""The mean of the weights at the ends of the last epochs: against the weights themselves, in a run and after a stop."""

import lightning as L
import pytest
import torch
from lightning.pytorch.callbacks import Callback

from omegamax.tasks.epoch_average import EpochAverage, EpochEnds

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")
BATCHES, EPOCHS = 3, 4


class Line(L.LightningModule):
    """One weight, one buffer that changes with each step, and what validation saw of both."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))
        self.register_buffer("steps", torch.zeros((), dtype=torch.long))
        self.seen = []

    def training_step(self, batch, index):
        self.steps += 1
        return ((self.weight - batch.mean() * torch.tensor([1.0, -2.0])) ** 2).sum()

    def validation_step(self, batch, index):
        if not self.trainer.sanity_checking:
            self.seen.append((self.trainer.global_step, self.weight.detach().clone(), int(self.steps)))

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), 0.1)


class Weights(Callback):
    """The weights after each step."""

    def __init__(self):
        self.after = {}

    def on_train_batch_end(self, trainer, module, *unused):
        self.after[trainer.global_step] = module.weight.detach().clone()


def fit(folder, average, start=None, **length):
    data = [torch.utils.data.DataLoader(torch.arange(2.0 * BATCHES), batch_size=2), [torch.zeros(1)]]
    task, weights = Line(), Weights()
    quiet = {"enable_progress_bar": False, "enable_model_summary": False, "enable_checkpointing": False}
    callbacks = [weights, EpochAverage(average)]
    settings = {"val_check_interval": 1, "num_sanity_val_steps": 1, "logger": False}
    trainer = L.Trainer(accelerator="cpu", default_root_dir=folder, callbacks=callbacks, **quiet, **settings, **length)
    trainer.fit(task, *data, ckpt_path=start, weights_only=True)
    trainer.save_checkpoint(folder / "last.ckpt")
    return task, weights.after


def expected(after, step, average):
    """By hand: the weights of a step, and of the last steps of the epochs before the one that it is in."""
    now = (step - 1) // BATCHES
    ends = [after[BATCHES * (epoch + 1)] for epoch in range(max(0, now - average + 1), now)]
    return sum([*ends, after[step]]) / (len(ends) + 1)


@pytest.mark.parametrize("average", [1, 2, 3, 9])
def test_validation_and_files_have_the_mean_and_training_has_not(tmp_path, average):
    task, after = fit(tmp_path, average, max_epochs=EPOCHS)
    assert [step for step, *_ in task.seen] == list(range(1, BATCHES * EPOCHS + 1))
    for step, weight, steps in task.seen:
        torch.testing.assert_close(weight, expected(after, step, average), rtol=1e-14, atol=1e-14)
        assert steps == step  # buffers are those of now
    assert task.weight.equal(task.seen[-1][1])
    saved = torch.load(tmp_path / "last.ckpt", weights_only=True)
    assert saved["state_dict"]["weight"].equal(task.weight)
    alone, _ = fit(tmp_path, 1, max_epochs=EPOCHS)
    assert alone.weight.equal(after[BATCHES * EPOCHS])  # steps are taken from the weights, not from their mean
    assert average == 1 or not alone.weight.equal(task.weight)


def test_mean_on_the_way_has_the_ends_of_epochs_and_the_weights_of_now(tmp_path):
    task, after = fit(tmp_path, 3, max_steps=8)  # two epochs, and two steps
    torch.testing.assert_close(task.weight, (after[3] + after[6] + after[8]) / 3, rtol=1e-14, atol=1e-14)


def test_kept_weights_are_copies_and_as_many_as_asked_for():
    ends, weight = EpochEnds(2), torch.zeros(1)
    for step in range(1, 6):
        weight += 1
        ends.keep(step, [weight])
    assert [(step, kept[0].item()) for step, kept in ends.kept] == [(4, 4.0), (5, 5.0)]
    with pytest.raises(ValueError, match="EpochEnds: epochs must be"):
        EpochEnds(0)
