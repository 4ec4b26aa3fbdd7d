"""Rows of the tables: networks with one distribution of codes, trained side by side, and measured."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch

from omegamax.data.mnist import MNIST
from omegamax.models.latents import latent
from omegamax.models.vae import VAE
from omegamax.tasks.experiment import name_device
from omegamax.tasks.vae import PictureData, VAECopies

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
RATES = (5e-4, 1e-3, 2e-3, 4e-3)
BEYOND = (8e-3, 1.6e-2)  # were tried too, and are no choice: what starts well there may collapse, see README.md
TEMPERATURES = (0.5, 1.0, 2.0)
WITH_TEMPERATURE = ("gumbel_softmax", "straight_through", "hard_concrete")
MEASURED = ("bound", "weighted", "reconstruction", "divergence", "corner", "zero", "nonzeros", "faces")
KEYS = ("set", "codes", "kind", "size", "seed", "rate", "temperature")
COLUMNS = (*KEYS, *MEASURED, "val_bound", "epochs", "samples", "parameters", "seconds", "device")
TRIAL_KEYS = ("set", "codes", "kind", "size", "rate", "temperature")
TRIAL_COLUMNS = (*TRIAL_KEYS, "val_bound", "epochs", "seconds", "device")
SHOWN = 8  # pictures of a set that are drawn
TRIAL_SEED = 1000  # of no row


def settings_of(kind: str) -> list[dict[str, Any]]:
    """List what is tried for a distribution: rates, the same for all, and temperatures where it has one."""
    temperatures = TEMPERATURES if kind in WITH_TEMPERATURE else ("",)
    return [{"rate": rate, "temperature": each} for each in temperatures for rate in RATES]


def rows_of(rows: Sequence[Mapping[str, str]], job: Mapping[str, Any]) -> list[Mapping[str, str]]:
    """Those of one set, distribution and size."""
    return [row for row in rows if all(row[key] == job[key] for key in ("set", "codes", "kind", "size"))]


def best_settings(trials: Sequence[Mapping[str, str]], job: Mapping[str, Any]) -> dict[str, Any]:
    """Those with the highest bound of the validation part, of all that are to be tried."""
    mine = [row for row in rows_of(trials, job) if float(row["rate"]) in RATES]
    if len(mine) != len(settings_of(job["kind"])):
        what = f"{job['kind']} ({job['codes']}, {job['size']}) on {job['set']}"
        raise LookupError(f"{what} has {len(mine)} trials; run.py --trials makes all")
    best = max(mine, key=lambda row: (float(row["val_bound"]) > -math.inf, float(row["val_bound"])))  # NaN comes last
    return {"rate": float(best["rate"]), "temperature": float(best["temperature"]) if best["temperature"] else ""}


@dataclass(frozen=True)
class Size:
    """How much is done: width of the networks, training pictures, epochs, samples of the weighted bound."""

    hidden: int = 500
    train_size: int | None = None  # all
    epochs: int = 25
    trial_epochs: int = 10
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
    graph: bool = False  # capture steps as CUDA graphs


def trial(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Rows of the trials of a distribution: all settings and sets of the job, side by side."""
    epochs = place.sizes[job["size"]].trial_epochs
    trained = _Trained(place, job, [{**each, "seed": TRIAL_SEED} for each in job["variants"]], epochs)
    return [
        {**each, "val_bound": bound, **trained.about}
        for each, bound in zip(job["variants"], trained.val_bounds, strict=True)
    ]


def measure(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Rows of the results of a distribution: all seeds and sets of the job, side by side."""
    size, variants = place.sizes[job["size"]], job["variants"]
    trained = _Trained(place, job, variants, size.epochs)
    rows = []
    for number, found in enumerate(trained.test()):
        row = {**variants[number], **{name: found.get(name, "") for name in MEASURED}, **trained.about}
        if row["kind"] == "gaussian":  # real numbers are on no simplex
            row |= dict.fromkeys(("corner", "zero", "nonzeros", "faces"), "")
        row |= {"val_bound": trained.val_bounds[number], "samples": size.samples}
        row["parameters"] = sum(each.numel() for each in trained.networks[number].parameters())
        if place.pictures is not None and variants[number]["seed"] == place.shown:
            trained.keep(number, Path(place.pictures))
        rows.append(row)
    return rows


class _Trained:
    """Networks of one distribution of codes, each with its set, seed and settings."""

    def __init__(self, place: Place, job: Mapping[str, Any], variants: Sequence[Mapping[str, Any]], epochs: int):
        torch.set_num_threads(1 if place.single else torch.get_num_threads())
        # torch's relaxed categorical distribution looks at its values whatever it is told, which no graph can hold.
        torch.distributions.Distribution.set_default_validate_args(not place.graph)
        self.size, self.variants, self.folder = place.sizes[job["size"]], variants, Path(place.data)
        numbers, vertices, draws = CODES[job["codes"]]
        if job["kind"] == "gaussian":  # as many numbers as a decoder reads of the other distributions
            numbers, vertices = numbers * (1 if vertices == 2 else vertices), 1
        self.networks = []
        for each in variants:
            torch.manual_seed(int(np.random.SeedSequence([each["seed"]]).generate_state(1)[0]))
            options = {"temperature": float(each["temperature"])} if each["temperature"] else {}
            code = latent(job["kind"], numbers, vertices, **options)
            self.networks.append(VAE(code, hidden=self.size.hidden, draws=draws))
        sets = {name: PictureData(Path(place.data, name), train_size=self.size.train_size) for name in SETS}
        self.parts = {
            split: {name: sets[name].split(split) for name in {each["set"] for each in variants}}
            for split in ("train", "val", "test")
        }
        began = time.perf_counter()
        self.copies = VAECopies(self.networks, place.device)
        torch.set_float32_matmul_precision("high")  # in training alone; only a GPU minds
        rates = [float(each["rate"]) for each in variants]
        self.copies.train(self._pictures("train"), rates, epochs, seed=variants[0]["seed"], graph=place.graph)
        torch.set_float32_matmul_precision("highest")
        torch.manual_seed(0)
        self.val_bounds = [round(found["bound"], 4) for found in self.copies.measure_bound(self._pictures("val"))]
        seconds = round((time.perf_counter() - began) / len(variants), 1)
        self.about = {"epochs": epochs, "seconds": seconds, "device": name_device(place.device)}

    def test(self) -> list[dict[str, float]]:
        """Return what is measured on the test part."""
        torch.manual_seed(0)
        found = self.copies.measure(self._pictures("test"), self.size.samples)
        return [{name: round(value, 5) for name, value in row.items()} for row in found]

    def keep(self, number: int, folder: Path) -> None:
        """Write the first test picture of some classes, what becomes of them, and their codes."""
        job = self.variants[number]
        labels = MNIST(self.folder / job["set"], "test").labels
        chosen = [int((labels == label).nonzero()[0]) for label in range(SHOWN)]
        pictures = self.parts["test"][job["set"]][chosen].float()
        torch.manual_seed(0)
        shown, codes = self.networks[number].reconstruct(pictures)
        folder.mkdir(parents=True, exist_ok=True)
        name = "-".join((job["set"], job["codes"], job["kind"], job["size"]))
        np.savez_compressed(
            folder / f"{name}.npz",
            pictures=pictures.bool().numpy(),
            shown=(255 * shown).round().byte().numpy(),
            codes=codes.half().numpy(),
            face=(codes > 0).numpy(),
        )

    def _pictures(self, split: str) -> list[torch.Tensor]:
        return [self.parts[split][each["set"]] for each in self.variants]
