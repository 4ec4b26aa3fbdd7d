"""The task learns what makes a bag positive, and measures it rightly."""

from __future__ import annotations

import lightning as L
import pytest
import torch
from torch.utils.data import DataLoader

from omegamax.data import Bag, collate_bags
from omegamax.tasks.mil import MILTask

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")


def bags(count, seed, positives=1):
    """Instances of noise; a positive bag has ``positives`` of them or more with a large first feature."""
    generator = torch.Generator().manual_seed(seed)
    made = []
    for index in range(count):
        size = int(torch.randint(4, 9, (), generator=generator))
        instances = torch.randn(size, 5, generator=generator)
        positive = torch.zeros(size, dtype=torch.bool)
        positive[: (positives if index % 2 else positives - 1)] = True
        instances[:, 0] = torch.where(positive, 4.0, -1.0)
        made.append(Bag(instances, index % 2, positive))
    return made


def loader(count, seed, shuffle=False):
    return DataLoader(bags(count, seed), 16, shuffle=shuffle, collate_fn=collate_bags)


def trainer(tmp_path, **settings):
    return L.Trainer(
        accelerator="cpu",
        default_root_dir=tmp_path,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
        **settings,
    )


@pytest.mark.parametrize("omega, options", [("softmax", {}), ("sparsemax", {}), ("k_subsets", {"k": 2})])
def test_bags_with_a_telling_instance_are_learnt(tmp_path, omega, options):
    L.seed_everything(0, verbose=False)
    task = MILTask(omega, options, features=5, dim=16, rate=5e-3)
    runner = trainer(tmp_path, max_epochs=15, log_every_n_steps=1, gradient_clip_val=1.0)
    runner.fit(task, loader(128, 0, shuffle=True), loader(64, 1))
    (found,) = runner.test(task, loader(200, 2), verbose=False)
    assert found["test_accuracy"] > 0.95 and found["test_auc"] > 0.98


def test_measures_are_those_of_all_bags_at_once(tmp_path):
    L.seed_everything(1, verbose=False)
    task, data = MILTask("sparsemax", features=5, dim=8), bags(50, 3)
    runner = trainer(tmp_path)
    (found,) = runner.test(task, DataLoader(data, 7, collate_fn=collate_bags), verbose=False)
    batch = collate_bags(data)
    with torch.no_grad():
        logits, weights = task.eval()(batch)
    label = batch["label"]
    right = ((logits > 0) == (label > 0)).double().mean()
    ranks = logits[label == 1][:, None] - logits[label == 0]
    auc = ((ranks > 0).double() + 0.5 * (ranks == 0)).mean()
    inside = (weights.mean(1) * batch["positive"])[label == 1].sum(-1) / weights.mean(1)[label == 1].sum(-1)
    assert found["test_accuracy"] == pytest.approx(float(right), abs=1e-6)
    assert found["test_auc"] == pytest.approx(float(auc), abs=1e-5)
    assert found["test_inside"] == pytest.approx(float(inside.mean()), abs=1e-5)


def test_rate_decays_after_each_epoch(tmp_path):
    task = MILTask("softmax", features=5, dim=8, rate=1e-3, decay=0.5)
    runner = trainer(tmp_path, max_epochs=2, log_every_n_steps=1)
    runner.fit(task, loader(32, 0), loader(32, 1))
    assert runner.optimizers[0].param_groups[0]["lr"] == pytest.approx(2.5e-4)
