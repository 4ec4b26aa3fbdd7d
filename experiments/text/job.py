"""Rows of the tables: a network with one attention, trained on one set from one seed, and measured."""

from __future__ import annotations

import base64
import time
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from human import agree
from pretraining import pretrain
from sets import HUMAN, Part, TextSet, folds_of, load
from torch import Tensor
from training import Loop, Training, summarise

from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.experiment import name_device
from omegamax.tasks.text import TextTask

HERE = Path(__file__).parent
FUNCTIONS = (32, 64, 128)
TRIED_FUNCTIONS = 64  # with which settings of continuous attention are chosen
DISCRETE: dict[str, dict[str, Any]] = {
    "softmax": {"kind": "softmax"},
    "sparsemax": {"kind": "sparsemax"},
    "entmax": {"kind": "entmax", "learnable": True},
    "fusedmax": {"kind": "fusedmax"},
    "k_subsets": {"kind": "k_subsets", "k": 5},
}
CONTINUOUS: dict[str, dict[str, Any]] = {}
for _name in ("softmax", "sparsemax"):
    for _count in FUNCTIONS:
        _same = {"kind": f"continuous_{_name}", "functions": _count}
        CONTINUOUS[f"continuous_{_name}_{_count}"] = {**_same, "source": "cnn"}
        CONTINUOUS[f"combined_{_name}_{_count}"] = {**_same, "combined": True}
KINDS = {**DISCRETE, **CONTINUOUS}
# Networks whose encoder is a transformer: with an alpha learnt by each head, and with softmax in all of them.
TRANSFORMERS: dict[str, dict[str, Any]] = {
    "transformer": {"encoder": "transformer"},
    "transformer_softmax": {"encoder": "transformer", "alpha": 1.0, "learn_alpha": False},
}
PAPER = ("softmax", "sparsemax", *CONTINUOUS)  # the rows of Table 1
SHORT = (*DISCRETE, *(kind for kind in CONTINUOUS if kind.endswith("_32")), *TRANSFORMERS)  # for sentences
SIZES: dict[str, Any] = {"word_dim": 256, "hidden_dim": 128, "score_dim": 128}
CHOSEN = ("start", "rate", "dropout", "freeze")
KEYS = ("set", "kind", "seed")
FOUND = ("val_accuracy", "val_loss", "best_epoch", "epochs", "seconds", "curve")
COLUMNS = (*KEYS, *CHOSEN, "accuracy", "loss", "zero", "alpha", *FOUND, "parameters", "precision", "device")
TRIAL_KEYS = ("set", "kind", *CHOSEN)
TRIAL_COLUMNS = (*TRIAL_KEYS, *FOUND, "precision", "device")
RIGHT_COLUMNS = (*KEYS, "right")
ALPHA_KEYS = ("set", "kind", "seed", "layer", "head")
ALPHA_COLUMNS = (*ALPHA_KEYS, "alpha")
VECTORS, LANGUAGE_MODEL = "vectors", "language_model"
LM_FILE = "language_model.pt"


@dataclass(frozen=True)
class Place:
    """Where the packed sets are, what to compute on, how exactly, and how much of the data (None: all)."""

    cache: str
    device: str
    half: bool = False
    texts: int | None = None
    epochs: int | None = None


@dataclass(frozen=True)
class Settings:
    """What is chosen by validation: weights to start from, rate, dropout, whether vectors of words stay as they are."""

    start: str = VECTORS
    rate: float = 1e-3
    dropout: float = 0.5
    freeze: bool = False

    @property
    def columns(self) -> dict[str, Any]:
        return {"start": self.start, "rate": self.rate, "dropout": self.dropout, "freeze": int(self.freeze)}

    @classmethod
    def of(cls, row: Mapping[str, Any]) -> Settings:
        return cls(row["start"], float(row["rate"]), float(row["dropout"]), bool(int(row["freeze"])))


def grid(name: str, kind: str) -> list[Settings]:
    """List what is tried on a set."""
    if name == "imdb":
        tried = [Settings(start, rate, 0.3) for start in (VECTORS, LANGUAGE_MODEL) for rate in (1e-3, 2e-3, 4e-3, 8e-3)]
        more = [Settings(start, rate, 0.5) for start in (VECTORS, LANGUAGE_MODEL) for rate in (1e-3, 2e-3)]
        return [*tried, *more] if kind == "softmax" else tried
    rates = (3e-4, 1e-3) if kind in TRANSFORMERS else (1e-3, 3e-3)
    return [Settings(VECTORS, rate, 0.5, freeze) for rate in rates for freeze in (False, True)]


def training(name: str, settings: Settings, place: Place) -> Training:
    """Return how networks are trained on a set."""
    same: dict[str, Any] = {"rate": settings.rate, "dropout": settings.dropout, "word_dropout": 0.1}
    if name == "imdb":
        return Training(**same, batch_size=128, epochs=place.epochs or 6, patience=2)
    return Training(**same, batch_size=64, epochs=place.epochs or 8, patience=3)


def network(data: TextSet, kind: str, settings: Settings, seed: int, place: Place) -> TextTask:
    """Make a network: the seed draws what nothing is given for, the same for all attentions where shapes are."""
    torch.manual_seed(seed)
    changes = TRANSFORMERS.get(kind, {})
    attention = WordsConfig(**KINDS.get(kind, {"kind": "softmax"}))
    config = TextConfig(**SIZES, dropout=settings.dropout, attention=attention, **changes)
    task = TextTask(data.vocabulary, config)
    with torch.no_grad():
        if data.vectors is not None:
            task.model.embedding.weight.copy_(data.vectors)
        if settings.start == LANGUAGE_MODEL:
            saved = torch.load(Path(place.cache, LM_FILE), weights_only=True)
            task.model.load_state_dict(saved, strict=False)
    task.model.embedding.requires_grad_(not settings.freeze)
    return task


def read(name: str, seed: int, place: Place) -> TextSet:
    """Return a set, or the first texts of its parts after shuffling, all on the device."""
    data = load(place.cache, name, folds_of(name, seed))
    parts = {key: cut(part, place.texts).to(place.device) for key, part in data.parts.items()}
    return TextSet(data.vocabulary, parts, data.vectors)


def cut(part: Part, count: int | None) -> Part:
    """Return so many texts of a part, drawn at random; all of them with None."""
    if count is None or count >= len(part):
        return part
    rows = torch.randperm(len(part), generator=torch.Generator().manual_seed(0))[:count]
    index = torch.cat([torch.arange(int(part.ends[i]), int(part.ends[i + 1])) for i in rows.tolist()])
    ends = torch.cat([torch.zeros(1, dtype=torch.long), part.lengths[rows].cumsum(0)])
    marks = None if part.marks is None else part.marks[index]
    return Part(part.words[index], ends, part.label[rows], marks)


def train(job: Mapping[str, Any], place: Place) -> tuple[Loop, TextSet, dict[str, Any]]:
    """Train the network of a job; return it, its set, and what validation found."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")  # as cuDNN has it; only a GPU minds
    settings, name = Settings.of(job), job["set"]
    data = read(name, job["seed"], place)
    task = network(data, job["kind"], settings, job["seed"], place)
    loop = Loop(task, place.device, training(name, settings, place), place.half)
    torch.manual_seed(job["seed"])
    found = loop.fit(data.parts["train"], data.parts["val"], job["seed"])
    about = {"precision": "half" if loop.half else "single", "device": name_device(place.device)}
    return loop, data, {**found, **about}


def try_out(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return the row of a trial: the validation of one setting."""
    _, _, found = train({**job, "seed": 0}, place)
    return {"trial": {**{key: job[key] for key in TRIAL_KEYS}, **found}}


def run(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Return what goes into the files: a row, which test texts it got right, alphas, agreement with people."""
    loop, data, found = train(job, place)
    keys = {key: job[key] for key in KEYS}
    test, model = data.parts["test"], loop.task.classifier
    probability, zero = loop.answer(test, zeros=True)
    measured = {**summarise(probability, test.label), "zero": zero}
    measured = {key: round(value, 6) for key, value in measured.items()}
    alpha = getattr(getattr(model.attention.transform, "alpha", None), "value", None)
    row = {**keys, **{key: job[key] for key in CHOSEN}, **measured, **found}
    row["alpha"] = "" if job["kind"] != "entmax" or alpha is None else round(float(alpha.detach()), 4)
    row["parameters"] = sum(p.numel() for p in loop.task.parameters())
    out: dict[str, Any] = {"run": row, "right": [{**keys, "right": pack_bits(probability.argmax(-1) == test.label)}]}
    if job["kind"] == "transformer" and model.alphas is not None:
        alphas = model.alphas.detach().cpu().tolist()
        out["alphas"] = [
            {**keys, "layer": layer, "head": head, "alpha": round(value, 4)}
            for layer, heads in enumerate(alphas)
            for head, value in enumerate(heads)
        ]
    if job["set"] == "imdb":
        out["human"] = [{**agree(loop, read(each, 0, place).parts["test"], job), "subset": each} for each in HUMAN]
    return out


def pack_bits(right: Tensor) -> str:
    """Return truth values as text: how many, and their bits.

    >>> unpack_bits(pack_bits(torch.tensor([True, False, True]))).tolist()
    [True, False, True]
    """
    bits = base64.b64encode(zlib.compress(np.packbits(right.cpu().numpy()).tobytes(), 9)).decode()
    return f"{len(right)} {bits}"


def unpack_bits(text: str) -> np.ndarray[Any, Any]:
    """Return the truth values that :func:`pack_bits` wrote."""
    count, bits = text.split()
    return np.unpackbits(np.frombuffer(zlib.decompress(base64.b64decode(bits)), np.uint8), count=int(count)).astype(
        bool
    )


def prepare_start(place: Place) -> float:
    """Train the language model that networks of IMDB can start from, unless it is there; return the seconds."""
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("high")
    start = time.perf_counter()
    if not Path(place.cache, LM_FILE).exists():
        data = read("imdb", 0, place)
        task = network(data, "softmax", Settings(), 0, place)
        saved = pretrain(task.model, data.parts["train"], place.device, epochs=place.epochs or 6)
        torch.save(saved, Path(place.cache, f"{LM_FILE}.new"))
        Path(place.cache, f"{LM_FILE}.new").rename(Path(place.cache, LM_FILE))
    return time.perf_counter() - start
