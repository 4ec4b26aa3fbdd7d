"""One row of the tables: two networks trained with one distribution of symbols from one seed, and measured."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch
import torch.nn.functional as F
from settings import CLASSES, SET, option

from omegamax.tasks.callbacks import Curve, Draws
from omegamax.tasks.communication import CommunicationData, CommunicationTask
from omegamax.tasks.experiment import name_device, silent_training

_LEAST = 0.02  # share of a class's symbols from which on a word is written down


@lru_cache(maxsize=1)
def pictures(folder: str) -> CommunicationData:
    """The set, read once by each process."""
    return CommunicationData(folder)


def prepare(job: Mapping[str, Any], data: str, device: str, epochs: int, out: str) -> tuple[Any, Any, L.Trainer]:
    """Data, task and trainer of a job."""
    seed = int(job.get("seed", 0))
    games = pictures(str(Path(data) / SET))
    games.seed = seed
    torch.manual_seed(seed)
    task = CommunicationTask(
        job["kind"], {option(job["kind"]): float(job["parameter"])}, games.features, rate=float(job["rate"])
    )
    trainer = L.Trainer(
        accelerator="gpu" if device.startswith("cuda") else "cpu",
        devices=1,
        max_epochs=epochs,
        default_root_dir=out,
        callbacks=[Curve(), Draws()],
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
    )
    return games, task, trainer


def trial(job: Mapping[str, Any], data: str, device: str, epochs: int) -> dict[str, Any]:
    """Train with these settings, and measure on validation games alone."""
    with TemporaryDirectory() as out, silent_training():
        games, task, trainer = prepare(job, data, device, epochs, out)
        start = time.perf_counter()
        trainer.fit(task, datamodule=games)
        seconds = time.perf_counter() - start
        last = json.loads((Path(out) / "curve.json").read_text())[-1]
    found = {f"val_{name}": round(last[f"val_{name}"], 5) for name in ("success", "nonzeros")}
    about = {"epochs": epochs, "seconds": round(seconds, 1), "device": name_device(device)}
    return {**job, **found, "val_words": int(last["val_words"]), **about}


def run(job: Mapping[str, Any], data: str, device: str, epochs: int) -> dict[str, Any]:
    """Train with the settings that were chosen, and measure on test games."""
    with TemporaryDirectory() as out, silent_training():
        games, task, trainer = prepare(job, data, device, epochs, out)
        start = time.perf_counter()
        trainer.fit(task, datamodule=games)
        seconds = time.perf_counter() - start
        curve = json.loads((Path(out) / "curve.json").read_text())
        (test,) = trainer.test(task, datamodule=games, verbose=False)
    found = {name: round(test[f"test_{name}"], 5) for name in ("success", "nonzeros", "rounded")}
    found |= {f"val_{name}": round(curve[-1][f"val_{name}"], 5) for name in ("success", "nonzeros")}
    points = [[point["step"], round(point["val_success"], 4), round(point["val_nonzeros"], 3)] for point in curve]
    about = {"epochs": epochs, "seconds": round(seconds, 1), "device": name_device(device)}
    said = json.dumps(meanings(task.to(device), games), separators=(",", ":"))
    return {
        **job,
        **found,
        "words": int(test["test_words"]),
        **about,
        "curve": json.dumps(points, separators=(",", ":")),
        "meanings": said,
    }


@torch.no_grad()
def meanings(task: CommunicationTask, games: CommunicationData) -> list[dict[int, float]]:
    """For each class of validation pictures, how much its symbols have of each word, if it is not next to nothing."""
    torch.manual_seed(0)
    total: Any = 0
    for batch in games.val_dataloader():
        said = task.model.sender(batch["images"][batch["shown"]].to(task.device)).rsample()
        total = total + F.one_hot(batch["label"], CLASSES).to(said).T @ said
    shares = (total / total.sum(-1, keepdim=True)).tolist()
    return [{word: round(share, 3) for word, share in enumerate(row) if share >= _LEAST} for row in shares]
