"""The task: players learn to understand each other, it is measured rightly, and a run can be stopped."""

from __future__ import annotations

import lightning as L
import pytest
import torch
import torch.nn.functional as F
from lightning.pytorch.callbacks import ModelCheckpoint
from tests.tasks.communication.pictures import bright_spots

from omegamax.models.signals import DISTRIBUTIONS, Play
from omegamax.tasks.callbacks import Draws
from omegamax.tasks.communication import CommunicationData, CommunicationTask, GameScores

pytestmark = pytest.mark.filterwarnings(
    "ignore:.*LeafSpec.*deprecated", "ignore:.*does not have many workers", "ignore:Checkpoint directory .* exists"
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return str(bright_spots(tmp_path_factory.mktemp("pictures")))


def data(folder, seed=0):
    return CommunicationData(folder, candidates=8, batch_size=64, eval_batch_size=50, held_out=80, seed=seed)


def small(distribution="gaussian_sparsemax", options=None, rate=1e-2):
    torch.manual_seed(0)
    return CommunicationTask(distribution, options, features=16, words=32, hidden=32, dim=16, rate=rate)


def trainer(tmp_path, epochs=1, callbacks=()):
    return L.Trainer(
        accelerator="cpu",
        max_epochs=epochs,
        default_root_dir=tmp_path,
        callbacks=[Draws(), *callbacks],
        enable_checkpointing=bool(callbacks),
        enable_progress_bar=False,
        enable_model_summary=False,
        logger=False,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
    )


def measured(found):
    return {name.removeprefix("test_"): value for name, value in found.items()}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_players_come_to_understand_each_other(tmp_path, folder, distribution):
    """Chance is 1 in 8; a word for each place of the bright pixel would win almost always."""
    task, games = small(distribution, {"scale": 0.5} if distribution == "gaussian_sparsemax" else None), data(folder)
    runner = trainer(tmp_path, epochs=30)
    runner.fit(task, datamodule=games)
    (found,) = runner.test(task, datamodule=games, verbose=False)
    found = measured(found)
    assert found["success"] > 0.4
    wanted = {"gumbel_softmax": (32, 32), "logistic_normal": (32, 32), "gumbel_softmax_st": (1, 1)}.get(
        distribution, (1, 31.9)
    )
    assert wanted[0] <= found["nonzeros"] <= wanted[1]
    assert 2 <= found["words"] <= 32


def test_oracle_always_succeeds(tmp_path, folder):
    """A sender that says the picture itself, to a receiver that looks for what it heard."""
    games = data(folder)
    task = CommunicationTask(features=16, words=16, hidden=16, dim=16)
    task.model.sender = _Says()
    task.model.receiver = _LooksFor()
    (found,) = trainer(tmp_path).test(task, datamodule=games, verbose=False)
    assert measured(found)["success"] == 1.0


class _Says(torch.nn.Module):
    def forward(self, images):
        return _Certain(images)


class _Certain:
    def __init__(self, value):
        self.value = value

    def rsample(self):
        return self.value


class _LooksFor(torch.nn.Module):
    def forward(self, symbols, images, candidates):
        return -(images[candidates] - symbols[:, None]).square().sum(-1)


def test_untrained_players_succeed_by_chance(tmp_path, folder):
    (found,) = trainer(tmp_path).test(small(), datamodule=data(folder), verbose=False)
    assert measured(found)["success"] < 0.3  # 1 in 8, and three deviations


def test_measures_are_those_of_all_games_at_once(tmp_path, folder):
    task, games = small(options={"scale": 0.5}), data(folder)
    (found,) = trainer(tmp_path).test(task, datamodule=games, verbose=False)
    success, nonzeros, rounded, loss, used = [], [], [], [], set()
    for index, batch in enumerate(games.test_dataloader()):
        torch.manual_seed(index)
        with torch.no_grad():
            symbols = task.model.sender(batch["images"][batch["shown"]]).rsample()
            scores = task.model.receiver(symbols, batch["images"], batch["candidates"])
            words = symbols.argmax(-1)
            largest = task.model.receiver(torch.eye(32)[words], batch["images"], batch["candidates"])
        success += (scores.argmax(-1) == batch["target"]).tolist()
        rounded += (largest.argmax(-1) == batch["target"]).tolist()
        nonzeros += [sum(entry > 0 for entry in symbol) for symbol in symbols.tolist()]
        loss += F.cross_entropy(scores, batch["target"], reduction="none").tolist()
        used |= set(words.tolist())
    wanted = {"success": success, "rounded": rounded, "nonzeros": nonzeros, "loss": loss}
    assert len(success) == 100
    for name, values in wanted.items():
        assert measured(found)[name] == pytest.approx(sum(values) / 100, abs=1e-5), name
    assert measured(found)["words"] == len(used)


def test_scores_begin_anew():
    scores, play = GameScores(3), Play(torch.eye(3)[:2], torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
    scores.update(play, torch.tensor([0, 1]), rounded=play)
    assert scores.compute() == {"success": 0.5, "nonzeros": 1.0, "rounded": 0.5, "words": 2}
    scores.reset()
    scores.update(play, torch.tensor([0, 0]))
    assert scores.compute() == {"success": 1.0, "nonzeros": 1.0, "words": 2}


def weights(task):
    return torch.cat([parameter.detach().flatten() for parameter in task.parameters()])


def test_run_is_a_function_of_its_seed(tmp_path, folder):
    made = []
    for seed in (1, 1, 2):
        task = small()
        torch.manual_seed(seed)
        trainer(tmp_path, epochs=2).fit(task, datamodule=data(folder, seed))
        made.append(weights(task))
    assert torch.equal(made[0], made[1]) and not torch.equal(made[0], made[2])


def test_validation_leaves_the_draws_of_training_alone(folder):
    task = small()
    batch = next(iter(data(folder).val_dataloader()))
    torch.manual_seed(5)
    wanted = torch.rand(3)
    torch.manual_seed(5)
    task.log = lambda *given, **named: None
    task.validation_step(batch, 0)
    assert torch.equal(torch.rand(3), wanted)


class _Stop(Exception):
    pass


@pytest.mark.parametrize("distribution", ["gumbel_softmax_st", "gaussian_sparsemax"])
def test_run_goes_on_as_if_it_had_not_stopped(tmp_path, monkeypatch, folder, distribution):
    def keep(name):
        return ModelCheckpoint(tmp_path / name, "last", save_on_train_epoch_end=False)

    whole = small(distribution)
    torch.manual_seed(3)
    trainer(tmp_path, 4, [keep("whole")]).fit(whole, datamodule=data(folder))
    before, steps = CommunicationTask.training_step, []

    def training_step(self, batch, index):
        steps.append(index)
        if len(steps) == 13:  # 5 batches in an epoch
            raise _Stop
        return before(self, batch, index)

    stopped = small(distribution)
    torch.manual_seed(3)
    with monkeypatch.context() as patch, pytest.raises(_Stop):
        patch.setattr(CommunicationTask, "training_step", training_step)
        trainer(tmp_path, 4, [keep("stopped")]).fit(stopped, datamodule=data(folder))
    again = small(distribution)
    torch.manual_seed(3)
    last = tmp_path / "stopped" / "last.ckpt"
    trainer(tmp_path, 4, [keep("stopped")]).fit(again, datamodule=data(folder), ckpt_path=str(last))
    assert torch.equal(weights(again), weights(whole))
