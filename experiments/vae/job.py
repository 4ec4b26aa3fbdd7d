"""One row of the tables: a network trained on a set with one distribution of codes, and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch

from omegamax.data.mnist import MNIST
from omegamax.tasks.experiment import name_device, silent_training
from omegamax.tasks.vae import PictureData, VAETask

SETS = ("mnist", "fashion_mnist")
# Variables and vertices of a code, and draws for each picture in training.
CODES = {"bits": (128, 2, 1), "simplex": (1, 10, 4)}
KINDS = {
    "bits": ("gaussian", "gumbel_softmax", "straight_through", "hard_concrete", "gaussian_sparsemax"),
    "simplex": (
        "gaussian",
        "gumbel_softmax",
        "straight_through",
        "hard_concrete",
        "gaussian_sparsemax",
        "mixed_dirichlet",
    ),
}
WITH_TEMPERATURE = ("gumbel_softmax", "straight_through", "hard_concrete")
MEASURED = ("bound", "weighted", "reconstruction", "divergence", "corner", "zero", "nonzeros", "faces")
KEYS = ("set", "codes", "kind", "size", "seed", "rate", "temperature")
COLUMNS = (*KEYS, *MEASURED, "val_bound", "epochs", "samples", "parameters", "seconds", "device")
TRIAL_KEYS = ("set", "codes", "kind", "size", "rate", "temperature")
TRIAL_COLUMNS = (*TRIAL_KEYS, "val_bound", "epochs", "seconds", "device")
SHOWN = 8  # pictures of a set that are drawn
TRIAL_SEED = 1000  # of no row


def settings_of(kind: str) -> list[dict[str, Any]]:
    """List what is tried for a distribution, four settings each; a temperature that it does not have is empty."""
    if kind in WITH_TEMPERATURE:
        return [{"rate": rate, "temperature": each} for each in (0.5, 1.0) for rate in (1e-3, 2e-3)]
    return [{"rate": rate, "temperature": ""} for rate in (5e-4, 1e-3, 2e-3, 4e-3)]


def rows_of(rows: Sequence[Mapping[str, str]], job: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Those of one set, distribution and size."""
    return [row for row in rows if all(row[key] == job[key] for key in ("set", "codes", "kind", "size"))]


def best_settings(trials: Sequence[Mapping[str, str]], job: Mapping[str, Any]) -> dict[str, Any]:
    """Those with the highest bound of the validation part, of as many trials as any other distribution has."""
    mine = rows_of(trials, job)
    if len(mine) != len(settings_of(job["kind"])):
        what = f"{job['kind']} ({job['codes']}, {job['size']}) on {job['set']}"
        raise LookupError(f"{what} has {len(mine)} trials; run.py --trials makes all")
    best = max(mine, key=lambda row: (float(row["val_bound"]) > -math.inf, float(row["val_bound"])))  # NaN comes last
    return {"rate": float(best["rate"]), "temperature": float(best["temperature"]) if best["temperature"] else ""}


def with_best_settings(
    rows: Sequence[Mapping[str, str]], trials: Sequence[Mapping[str, str]]
) -> list[Mapping[str, str]]:
    """The rows whose settings are those that the trials chose."""

    def chosen(row: Mapping[str, str]) -> bool:
        best = best_settings(trials, row)
        return {name: row[name] for name in best} == {name: str(value) for name, value in best.items()}

    return [row for row in rows if chosen(row)]


@dataclass(frozen=True)
class Size:
    """How much is done: width of the networks, training pictures, epochs, samples of the weighted bound."""

    hidden: int = 500
    train_size: int | None = None  # all
    epochs: int = 25
    trial_epochs: int = 8
    samples: int = 100


SIZES = {"full": Size(), "small": Size(200, 20_000, 8, 4, 20)}


@dataclass(frozen=True)
class Place:
    """Where the sets are, what to compute on, and where what is drawn goes."""

    data: str
    device: str
    sizes: Mapping[str, Size]
    pictures: str | None = None
    shown: int = 0  # seed of the networks whose pictures are kept
    single: bool = False  # one thread


def trial(place: Place, job: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the trials."""
    epochs = place.sizes[job["size"]].trial_epochs
    run = _Run(place, {**job, "seed": TRIAL_SEED}, epochs)
    return {**job, "val_bound": run.val_bound, "epochs": epochs, "seconds": run.seconds, "device": run.device}


def measure(place: Place, job: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the results."""
    size = place.sizes[job["size"]]
    run = _Run(place, job, size.epochs)
    with silent_training(place.single):
        (found,) = run.trainer.test(run.task, run.data, verbose=False)
    if place.pictures is not None and job["seed"] == place.shown:
        run.keep(Path(place.pictures))
    return {
        **job,
        **{name: found.get(f"test_{name}", "") for name in MEASURED},
        "val_bound": run.val_bound,
        "epochs": size.epochs,
        "samples": size.samples,
        "parameters": sum(each.numel() for each in run.task.parameters()),
        "seconds": run.seconds,
        "device": run.device,
    }


class _Run:
    """A network, trained."""

    def __init__(self, place: Place, job: Mapping[str, Any], epochs: int) -> None:
        self.job, size = job, place.sizes[job["size"]]
        variables, vertices, draws = CODES[job["codes"]]
        if job["kind"] == "gaussian":  # as many numbers as a decoder reads of the other distributions
            variables, vertices = variables * (1 if vertices == 2 else vertices), 1
        options = {"temperature": job["temperature"]} if job["temperature"] else {}
        cuda = place.device.startswith("cuda")
        began = time.perf_counter()
        with silent_training(place.single):
            L.seed_everything(job["seed"], verbose=False)
            self.task = VAETask(
                job["kind"],
                variables,
                vertices,
                options,
                hidden=size.hidden,
                draws=draws,
                rate=job["rate"],
                samples=size.samples,
            )
            self.data = PictureData(Path(place.data, job["set"]), train_size=size.train_size, seed=job["seed"])
            self.trainer = L.Trainer(
                accelerator="gpu" if cuda else "cpu",
                devices=1,
                max_epochs=epochs,
                check_val_every_n_epoch=epochs,
                num_sanity_val_steps=0,
                logger=False,
                enable_checkpointing=False,
                enable_progress_bar=False,
                enable_model_summary=False,
            )
            self.trainer.fit(self.task, self.data)
        self.val_bound = float(self.trainer.callback_metrics["val_bound"])
        self.seconds = round(time.perf_counter() - began, 1)
        self.device = name_device(place.device)

    def keep(self, folder: Path) -> None:
        """Write the first test picture of some classes, what becomes of them, and their codes."""
        labels = MNIST(self.data.folder, "test").labels
        chosen = [int((labels == label).nonzero()[0]) for label in range(SHOWN)]
        pictures = self.data.split("test")[chosen].float()
        torch.manual_seed(0)
        shown, codes = self.task.to("cpu").model.reconstruct(pictures)
        folder.mkdir(parents=True, exist_ok=True)
        name = "-".join((self.job["set"], self.job["codes"], self.job["kind"], self.job["size"]))
        np.savez_compressed(
            folder / f"{name}.npz",
            pictures=pictures.bool().numpy(),
            shown=(255 * shown).round().byte().numpy(),
            codes=codes.half().numpy(),
            face=(codes > 0).numpy(),
        )
