"""Networks that were trained for a second, in folders as runs leave them."""

import json
from pathlib import Path

import torch

from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.vqa import ScenesData, VQATask, write_safetensors

KINDS = ("softmax", "tvmax", "continuous_softmax", "continuous_sparsemax", "multimodal")
SMALL = {"word_dim": 16, "hidden_dim": 16, "heads": 2, "layers": 1, "feedforward_dim": 16, "dropout": 0.0}
CURVE = [{"step": 2, "val_accuracy": 0.25, "val_loss": 1.5}, {"step": 4, "val_accuracy": 0.5, "val_loss": 1.25}]


def scenes(**changes):
    """The embedded set, as small as can be."""
    sizes = {"samples": (32, 12, 20), "image_size": 32, "grid": (4, 4), "batch_size": 8}
    return ScenesData(**{**sizes, **changes})


def trained(kind, data, *, blind=False, seed=0, **network):
    """A network after a few steps, and with answers that differ from question to question."""
    torch.manual_seed(seed)
    output = OutputConfig(kind, selection=0.05)
    task = VQATask(data.vocabulary, MCANConfig.small(**{**SMALL, "output": output, **network}), "softmax", blind=blind)
    task.data_settings = data.settings
    optimiser = torch.optim.Adam(task.parameters(), 0.01)
    for batch in data.train_dataloader():
        optimiser.zero_grad()
        task.loss(task(batch).logits, batch["answers"]).backward()
        optimiser.step()
    with torch.no_grad():
        for weight in [*task.model.output.parameters(), *task.model.classifier.parameters()]:
            weight.mul_(3.0)  # attention is even and answers are all alike until much later
    return task.eval()


def write(task, folder, curve=True):
    """A run's folder."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    write_safetensors(Path(folder) / "model.safetensors", task.record, task.model.state_dict())
    if curve:
        (Path(folder) / "curve.json").write_text(json.dumps(CURVE))
    return Path(folder)


def write_runs(folder, data=None):
    """Runs of all kinds and of a network that sees no picture, by name."""
    data = scenes() if data is None else data
    tasks = {kind: trained(kind, data, grid=data.grid) for kind in KINDS}
    tasks["language_only"] = trained("softmax", data, grid=data.grid, blind=True)
    return {name: write(task, Path(folder) / name) for name, task in tasks.items()}
