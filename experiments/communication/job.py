"""Rows of the tables: pairs of networks with one distribution of symbols, trained side by side, and measured."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from concepts import FILE, read_concepts
from settings import BATCH, CLASSES, SET, SETTINGS, STEPS, TRIAL_STEPS, option
from torch import Tensor

from omegamax.models.bag_classifier import VectorEncoder
from omegamax.models.signals import Receiver, Sender, SignalGame
from omegamax.tasks.communication import CommunicationData, GameCopies
from omegamax.tasks.communication.copies import play_games
from omegamax.tasks.experiment import name_device

WORDS, HIDDEN, DIM = 256, 512, 256
POINTS = 10  # of a curve
_LEAST = 0.02  # share of a class's symbols from which on a word is written down


@dataclass(frozen=True)
class Place:
    """Where the sets are, what to compute on, and for how long."""

    data: str
    device: str
    steps: int | None = None  # None: those of the settings
    batch_size: int = BATCH
    concepts: Path = FILE
    held_out: int = 10_000


@lru_cache(maxsize=1)
def pictures(place: Place) -> CommunicationData:
    """The set, read once by each process."""
    return CommunicationData(
        str(Path(place.data) / SET), held_out=place.held_out, concepts=read_concepts(place.concepts)
    )


def make_game(kind: str, settings: Mapping[str, Any], features: int, seed: int) -> SignalGame:
    """Two players with weights drawn from the seed."""
    torch.manual_seed(int(np.random.SeedSequence([seed]).generate_state(1)[0]))
    about = {option(kind): float(settings["parameter"])}
    sender = Sender(VectorEncoder(features, HIDDEN, layers=1), WORDS, kind, about, float(settings["tempering"]))
    return SignalGame(sender, Receiver(VectorEncoder(features, HIDDEN, layers=1), WORDS, DIM))


def train(
    kind: str, variants: Sequence[Mapping[str, Any]], place: Place, steps: int
) -> tuple[list[SignalGame], list[list[list[float]]], dict[str, Any]]:
    """Train a pair for each of the variants (settings and a seed); return them, their curves, and what all share."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # only a GPU minds
    data = pictures(place)
    split = data.split("train")
    images = (split.images.float() / 255 - split.mean) / split.deviation
    concepts = data.concepts_of("train", len(split))
    assert concepts is not None
    games = [make_game(kind, each, data.features, each["seed"]) for each in variants]
    copies, val = GameCopies(games, place.device), validation(place)
    curves: list[list[list[float]]] = [[] for _ in games]

    def watch(step: int) -> None:
        for curve, game in zip(curves, games, strict=True):
            found = play_games(game, val)
            curve.append([step, round(found["success"], 4), round(found["nonzeros"], 3), found["words"]])

    start = time.perf_counter()
    rates = [float(each["rate"]) for each in variants]
    seed = int(np.random.SeedSequence([each["seed"] for each in variants]).generate_state(1)[0])
    every = max(1, steps // POINTS)
    copies.train(images, concepts, rates, steps, place.batch_size, data.candidates, seed, watch, every)
    seconds = (time.perf_counter() - start) / len(games)
    return games, curves, {"steps": steps, "seconds": round(seconds, 1), "device": name_device(place.device)}


def validation(place: Place) -> dict[str, Tensor]:
    """Return the validation games, in one batch on the device."""
    split = pictures(place).split("val")
    return {name: value.to(place.device) for name, value in split.batch(range(len(split))).items()}


def try_out(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Train with several settings, and measure on validation games alone: a row for each."""
    variants = [{**each, "seed": 0} for each in job["variants"]]
    _, curves, about = train(job["kind"], variants, place, place.steps or TRIAL_STEPS)
    rows = []
    for each, curve in zip(job["variants"], curves, strict=True):
        _, success, nonzeros, words = curve[-1]
        found = {"val_success": success, "val_nonzeros": nonzeros, "val_words": words}
        rows.append({"kind": job["kind"], **each, **found, **about})
    return rows


def run(job: Mapping[str, Any], place: Place) -> list[dict[str, Any]]:
    """Train with the settings that were chosen, and measure on test games: a row for each choice and seed."""
    kind, variants = job["kind"], job["variants"]
    games, curves, about = train(kind, variants, place, place.steps or STEPS)
    test = pictures(place).split("test")
    batch, rows = test.batch(range(len(test))), []
    for each, game, curve in zip(variants, games, curves, strict=True):
        found = play_games(game, batch, rounded=True)
        row = {"kind": kind, **{name: each[name] for name in ("choice", "seed", *SETTINGS)}, **about}
        row |= {name: round(found[name], 5) for name in ("success", "nonzeros", "rounded")}
        row |= {"words": found["words"], "val_success": curve[-1][1], "val_nonzeros": curve[-1][2]}
        row["curve"] = json.dumps([point[:3] for point in curve], separators=(",", ":"))
        row["meanings"] = json.dumps(meanings(game, place), separators=(",", ":"))
        rows.append(row)
    return rows


@torch.no_grad()
def meanings(game: SignalGame, place: Place) -> list[dict[int, float]]:
    """For each class of validation pictures, how much its symbols have of each word, if it is not next to nothing."""
    torch.manual_seed(0)
    batch = validation(place)
    said = game.sender(batch["images"][batch["shown"]]).rsample()
    total = F.one_hot(batch["label"], CLASSES).to(said).T @ said
    shares = (total / total.sum(-1, keepdim=True)).tolist()
    return [{word: round(share, 3) for word, share in enumerate(row) if share >= _LEAST} for row in shares]
