"""One row of the tables: a network trained on a set with one kind of attention from one seed, and measured.

All kinds of a set and seed start from one network, trained with softmax: no kind has parameters of its own, and
densities are slow to find things while the scores of all cells are alike. Small sets teach it slowly, or not at all, to
match words with what is seen; there, it begins in turn with the network of scenes and the same seed, which can.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch

from omegamax.cli.vqa.application import VQA
from omegamax.data import Ready, Scenes, Vocabulary
from omegamax.tasks.batches import Batches, Order
from omegamax.tasks.experiment import name_device, silent_training
from omegamax.tasks.vqa import VQAData, VQATask

HERE = Path(__file__).parent
SPLITS = ("train", "val", "test")
START, BLIND = "start", "blind"  # trained from nothing
MEASURED = ("accuracy", "accuracy_yes_no", "accuracy_number", "accuracy_other", "divergence", "inside", "zero")
KEYS = ("set", "kind", "seed", "options")
COLUMNS = (
    *KEYS,
    *MEASURED,
    "components",
    "train_accuracy",
    "val_accuracy",
    "best_step",
    "steps",
    "parameters",
    "seconds",
    "device",
)
BORROWS = {"easy_vqa": "scenes", "shapes": "scenes"}  # whose start begins with the start of another set
SEEN = 2000  # questions of the training part that a trained network is measured on
# Trained networks that are measured again with other attention, which has no parameters of its own.
AGAIN = {
    ("scenes", "continuous_softmax"): [f"test_mca_{x}" for x in ("0.05", "0.5", "2.5", "10", "100", "500")],
    ("scenes", "multimodal"): ["multimodal_0.5", "multimodal_2.5"],
}


@dataclass(frozen=True)
class Job:
    """What is to be run: a set, a kind of attention, a seed, and settings that go above those of their files."""

    set: str
    kind: str
    seed: int
    options: tuple[str, ...] = ()

    def row(self, kind: str) -> dict[str, Any]:
        """Return the keys of its row, or of that of the same network with another kind of attention."""
        return {"set": self.set, "kind": kind, "seed": self.seed, "options": " ".join(self.options)}

    @property
    def goes_on(self) -> bool:
        """Whether it begins with the weights of the start."""
        return self.kind not in (START, BLIND)

    @property
    def start(self) -> Job:
        """What all kinds of its set and seed begin with."""
        return Job(self.set, START, self.seed, self.options)

    @property
    def needs(self) -> Job | None:
        """What it begins with; None: with nothing."""
        if self.kind == START and self.set in BORROWS:
            return Job(BORROWS[self.set], START, self.seed, self.options)
        return self.start if self.goes_on else None

    def arguments(self, kind: str | None = None) -> list[str]:
        """Those of ``omegamax vqa fit``."""
        name = kind or ("softmax" if self.kind == START else self.kind)
        files = [HERE / f"{self.set}.yaml", HERE / "attention" / f"{name}.yaml"]
        files += [HERE / "then" / f"{self.set}.yaml"] if self.goes_on else []
        configs = [word for file in files for word in ("--config", str(file))]
        return [*configs, f"--seed_everything={self.seed}", f"--data.seed={self.seed}", *self.options]


@dataclass(frozen=True)
class Place:
    """Where things are: the CNN, the sets, splits that are ready, weights of the starts, and what to compute on."""

    cnn: str
    data: str | None
    ready: str
    starts: str
    device: str

    def arguments(self, name: str) -> list[str]:
        """Settings that say where the files of a set are."""
        if name == "scenes":
            return [f"--model.cnn={self.cnn}"]
        if self.data is None:
            raise SystemExit(f"{name}: give the folder with the sets, --data or the variable OMEGAMAX_DATA")
        folder = Path(self.data)
        given = [f"--data.folder={folder / name}"]
        if name == "daquar":
            return [*given, f"--data.features={folder / 'daquar_features'}"]
        return [*given, f"--model.cnn={self.cnn}"]


def build(arguments: list[str], place: Place, name: str, out: str) -> Any:
    """Trainer, network and data of the command line."""
    off = ("enable_progress_bar", "enable_model_summary", "logger")
    accelerator = "gpu" if place.device.startswith("cuda") else "cpu"
    trainer = [*(f"--trainer.{each}=false" for each in off), "--trainer.num_sanity_val_steps=0"]
    trainer += [f"--trainer.accelerator={accelerator}", f"--out={out}"]
    return VQA.build([*arguments, *place.arguments(name), *trainer])


class Prepared(L.LightningDataModule):
    """Splits that were made before, in place of those that a data module would make anew for each run."""

    def __init__(self, data: VQAData, splits: dict[str, Ready]) -> None:
        super().__init__()
        self.settings, self.batch_size, self.seed, self.splits = data.settings, data.batch_size, data.seed, splits

    def featurise(self, cnn: torch.nn.Module) -> None:
        """Nothing: the features of a frozen network are there."""

    def train_dataloader(self) -> Batches:
        return self._batches("train", self.batch_size, self.seed)  # in the order that VQAData has

    def val_dataloader(self) -> Batches:
        return self._batches("val", 500)

    def test_dataloader(self) -> Batches:
        return self._batches("test", 500)

    def seen(self) -> Batches:
        """Some of the training part, evenly spread, for a test."""
        whole = self.splits["train"]
        some = Ready(whole.__getitems__(range(0, len(whole), max(1, len(whole) // SEEN))))
        return Batches(some, Order(len(some), 500), Ready.collate)

    def _batches(self, split: str, size: int, seed: int | None = None) -> Batches:
        ready = self.splits[split]
        return Batches(ready, Order(len(ready), size, seed), Ready.collate)


def prepare(name: str, place: Place, options: tuple[str, ...], workers: int) -> None:
    """Make the splits of a set, with the features of a frozen CNN, and write them for all processes."""
    job = Job(name, "softmax", 0, (*options, f"--data.workers={workers}"))
    with TemporaryDirectory() as out:
        cli = build(job.arguments(), place, name, out)
    data, task = cli.datamodule, cli.model
    # Readers that are spawned, as this process was, would import all of it anew for each split. Forks are safe as long
    # as the GPU is not touched.
    multiprocessing.set_start_method("fork", force=True)
    for split in SPLITS:
        data.split(split)
    if task.freeze_cnn:
        data.featurise(task.model.cnn.to(place.device))
    for split in SPLITS:
        whole = data.split(split).batch
        left_out = ["id", "region"]
        if "feature_mask" in whole and bool(whole["feature_mask"].all()):
            left_out += ["feature_mask", "sizes"]  # all images fill the grid: nothing to be masked
        batch = {key: value for key, value in whole.items() if key not in left_out}
        torch.save(batch, Path(place.ready) / f"{name}-{split}.pt")


_READY: dict[str, dict[str, Ready]] = {}


def ready(name: str, place: Place) -> dict[str, Ready]:
    """The splits on the device, read once by each process."""
    if name not in _READY:
        _READY[name] = {}
        for split in SPLITS:
            batch = torch.load(Path(place.ready) / f"{name}-{split}.pt", weights_only=True, mmap=True)
            on_device = {k: v.to(place.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
            _READY[name][split] = Ready(on_device)
    return _READY[name]


def run(job: Job, place: Place) -> list[dict[str, Any]]:
    """Train, take the best of the validations, and test: one row, and one for each attention that is tried again."""
    with TemporaryDirectory() as out, silent_training():
        cli = build(job.arguments(), place, job.set, out)
        data = Prepared(cli.datamodule, ready(job.set, place))
        begin(cli.model, job, place)
        start = time.perf_counter()
        cli.trainer.fit(cli.model, datamodule=data)
        seconds = time.perf_counter() - start
        kept: Any = cli.trainer.checkpoint_callback  # the first of them, which keeps the best
        best = torch.load(kept.best_model_path, map_location="cpu", weights_only=True)
        cli.model.load_state_dict(best["state_dict"])
        if job.kind == START:
            Path(place.starts).mkdir(parents=True, exist_ok=True)
            torch.save(cli.model.model.state_dict(), weights_file(job, place))
        rows = [_row(job, job.kind, cli, data)]
        seen = cli.trainer.test(cli.model, dataloaders=data.seen(), verbose=False)[0]
        same: dict[str, Any] = {
            "train_accuracy": round(seen["test_accuracy"], 6),
            "val_accuracy": float(kept.best_model_score),
            "best_step": best["global_step"],
            "steps": cli.trainer.global_step,
            "parameters": cli.model.parameters_learnt,
            "seconds": round(seconds, 1),
            "device": name_device(place.device),
        }
        for kind in AGAIN.get((job.set, job.kind), []):
            other = build(job.arguments(kind), place, job.set, out)
            other.model.load_state_dict(best["state_dict"])
            rows.append(_row(job, kind, other, data))
    return [{**row, **same} for row in rows]


def weights_file(start: Job, place: Place) -> Path:
    """Where the weights of a start are."""
    return Path(place.starts) / f"{start.set}-{start.seed}.pt"


def begin(task: VQATask, job: Job, place: Place) -> None:
    """Take the weights that a run begins with; the number that learnable attention has besides stays as it is."""
    if job.needs is None:
        return
    weights = torch.load(weights_file(job.needs, place), map_location="cpu", weights_only=True)
    if job.needs.set != job.set:
        weights = translate(weights, task, Scenes(1).vocabulary)
    found = task.model.load_state_dict(weights, strict=False)
    if found.unexpected_keys or any(not key.startswith("output.transform.") for key in found.missing_keys):
        raise ValueError(f"{job.needs} does not fit: {found}")


def translate(weights: dict[str, torch.Tensor], task: VQATask, known: Vocabulary) -> dict[str, torch.Tensor]:
    """Return weights of a network with another vocabulary: what only the new one has is as it was in the task."""
    own, new = {name: value.clone() for name, value in task.model.state_dict().items()}, task.vocabulary
    words = [(int(known.encode(word)), int(new.encode(word))) for word in known.words if word in new.words]
    answers = [(known.answers.index(a), new.answers.index(a)) for a in known.answers if a in new.answers]
    rows = {name: answers for name in own if name.startswith("classifier.answer.")}
    rows["question.embedding.weight"] = words
    for name, pairs in rows.items():
        for there, here in pairs:
            own[name][here] = weights[name][there]
    return {**weights, **{name: own[name] for name in rows}}


class _Components(L.Callback):
    """Keep how many examples had k components, which the task forgets at the end of a test."""

    counted: dict[int, int]

    def on_test_epoch_end(self, trainer: L.Trainer, task: L.LightningModule) -> None:
        assert isinstance(task, VQATask)
        self.counted = task.scores["test_"].components()


def _row(job: Job, kind: str, cli: Any, data: Prepared) -> dict[str, Any]:
    components = _Components()
    cli.trainer.callbacks.append(components)
    cli.model.eval()
    found = cli.trainer.test(cli.model, datamodule=data, verbose=False)[0]
    cli.trainer.callbacks.remove(components)
    counted = components.counted
    measured = {name: round(found[f"test_{name}"], 6) for name in MEASURED if f"test_{name}" in found}
    return {**job.row(kind), **measured, "components": json.dumps(counted) if counted else ""}
