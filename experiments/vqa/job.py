"""One row of the tables: a network trained on a set with one kind of attention from one seed, and measured.

It begins with nothing, with its own rate; or with a trained network: softmax of the same set and seed, whose scores are
taken as they are or made as sharp as they were; or softmax of scenes, from which small sets learn to match words with
what is seen.
"""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from measure import MEASURED, PROBES, TEMPLATES, count_probes, measure
from stacked import can_stack, train_stacked
from training import Schedule, accuracy, train

from omegamax.cli.vqa.application import VQA
from omegamax.data import Ready, Scenes, Vocabulary
from omegamax.models.mcan import OutputAttention, OutputConfig
from omegamax.tasks.experiment import name_device, silent_training
from omegamax.tasks.trials import Trials
from omegamax.tasks.vqa import VQAData, VQATask

HERE = Path(__file__).parent
SPLITS = ("train", "val", "test")
SCENES = ("scenes", "crowds")  # the embedded set, twice
RATES = HERE / "results" / "rates.csv"
BLIND = "blind"
# What a run begins with; or the name of a set. After the latter two may come how many steps it goes on: "matched-300".
NOTHING, SOFTMAX, MATCHED = "nothing", "softmax", "matched"
KEYS = ("set", "kind", "begin", "seed", "options")
COLUMNS = (
    *KEYS,
    *MEASURED,
    *PROBES,
    "train_accuracy",
    "val_accuracy",
    "best_step",
    "steps",
    "rate",
    "curve",
    "parameters",
    "seconds",
    "device",
)
BORROWS = {"easy_vqa": "scenes", "shapes": "scenes"}  # whose softmax begins with that of another set
CNN_LEARNT = ("easy_vqa",)  # sets on which the CNN is trained, too: one network at a time
MATCHED_ON = 256  # questions on which sharpness is matched
SEEN = 2000  # questions of the training part that a trained network is measured on
# Trained networks that are measured again with other attention, which has no parameters of its own.
AGAIN = {
    ("scenes", "continuous_softmax"): [
        *(f"test_mca_{x}" for x in ("0.05", "0.5", "2.5", "10")),
        *(f"test_mca_{x}_floor" for x in ("0.625", "10", "100", "500")),
    ],
    ("scenes", "multimodal"): ["multimodal_0.5", "multimodal_2.5", "multimodal_5_floor", "multimodal_0.625_floor"],
}
AGAIN_SEEDS = 3  # the first of the seeds: selecting components takes long


@dataclass(frozen=True)
class Job:
    """What is to be run: a set, a kind of attention, a seed, what to begin with, settings above those of the files."""

    set: str
    kind: str
    seed: int
    begin: str = NOTHING
    options: tuple[str, ...] = ()

    def row(self, kind: str) -> dict[str, Any]:
        """Return the keys of its row, or of that of the same network with another kind of attention."""
        return {
            "set": self.set,
            "kind": kind,
            "begin": self.begin,
            "seed": self.seed,
            "options": " ".join(self.options),
        }

    @property
    def is_trial(self) -> bool:
        """Tell whether it tries a rate."""
        return any("rate.peak" in option for option in self.options)

    @property
    def goes_on(self) -> bool:
        """Tell whether it begins with the weights of its own set."""
        return self.begin.partition("-")[0] in (SOFTMAX, MATCHED)

    @property
    def again(self) -> list[str]:
        """List the attention that the network is tried with besides; none with other settings than the tables'."""
        plain = self.begin == NOTHING and not self.options and self.seed < AGAIN_SEEDS
        return AGAIN.get((self.set, self.kind), []) if plain else []

    @property
    def needs(self) -> Job | None:
        """What it begins with; None: with nothing."""
        if self.begin == NOTHING:
            return None
        if self.goes_on:
            return Job(self.set, "softmax", self.seed, BORROWS.get(self.set, NOTHING), self.options)
        return Job(self.begin, "softmax", self.seed, options=self.options)

    def arguments(self, kind: str | None = None) -> list[str]:
        """Return those of ``omegamax vqa fit``; from nothing, with the rate that was chosen."""
        rate = chosen_rate(self.set, self.kind) if self.begin == NOTHING else None
        files = [HERE / f"{self.set}.yaml", HERE / "attention" / f"{kind or self.kind}.yaml"]
        files += [HERE / "then" / f"{self.set}.yaml"] if self.goes_on else []
        configs = [word for file in files for word in ("--config", str(file))]
        own = [] if rate is None else [f"--model.rate.peak={rate}"]
        steps = self.begin.partition("-")[2]
        own += [f"--trainer.max_steps={steps}"] if steps else []
        return [*configs, f"--seed_everything={self.seed}", f"--data.seed={self.seed}", *own, *self.options]


def parent(kind: str) -> str:
    """Return the name of a kind, with that of what it is a variety of in front."""
    if kind.startswith("combined_"):
        rest = kind.removeprefix("combined_")
        return rest if rest.startswith("multimodal") else f"continuous_{rest}"
    return f"multimodal_{kind}" if kind.endswith("_mca") else kind


def chosen_rate(name: str, kind: str, rates: Path = RATES) -> str | None:
    """Return the rate with the best mean validation accuracy in trials of a kind, or of what it is a variety of.

    None where nothing was tried, as with other scales of the scores: then it is that of the set's file. Of equals the
    lower is taken.
    """
    if kind.startswith(("sparsemax_", "tvmax_")):
        return None
    found: dict[str, dict[str, list[float]]] = {}
    for row in Trials(rates, COLUMNS, KEYS).rows():
        if row["set"] == name and row["begin"] == NOTHING:
            found.setdefault(row["kind"], {}).setdefault(row["rate"], []).append(float(row["val_accuracy"]))
    tried = max((each for each in found if parent(kind).startswith(each)), key=len, default=None)
    if tried is None:
        return None
    return min(found[tried], key=lambda rate: (-statistics.mean(found[tried][rate]), float(rate)))


@dataclass(frozen=True)
class Place:
    """Where things are: CNNs by set, the sets, splits that are ready, trained weights, and what to compute on."""

    cnn: str
    data: str | None
    ready: str
    starts: str
    device: str
    captured: str = ""  # file of kinds whose steps can be captured as CUDA graphs, as capture.py writes it

    uncaptured_are_refused: bool = False  # mixtures that would take too long

    def captures(self, kind: str) -> bool:
        """Tell whether steps of a kind, or else of what it is a variety of, are captured."""
        if not self.captured:
            return False
        while not Path(self.captured).exists():  # capture.py may still be at it
            time.sleep(1)
        tried: dict[str, bool] = json.loads(Path(self.captured).read_text(encoding="utf-8"))
        same = max((each for each in tried if parent(kind).startswith(each)), key=len, default="")
        return tried.get(kind, tried.get(same, False))

    def arguments(self, name: str) -> list[str]:
        """Return the settings that say where the files of a set are."""
        cnn = f"--model.cnn={Path(self.cnn) / ('crowds.safetensors' if name == 'crowds' else 'cells.safetensors')}"
        if name in SCENES:
            return [cnn]
        if self.data is None:
            raise SystemExit(f"{name}: give the folder with the sets, --data or the variable OMEGAMAX_DATA")
        folder = Path(self.data)
        given = [f"--data.folder={folder / name}"]
        if name == "daquar":
            return [*given, f"--data.features={folder / 'daquar_features'}"]
        return [*given, cnn]


def build(arguments: list[str], place: Place, name: str, out: str) -> Any:
    """Make trainer, network and data of the command line."""
    off = ("enable_progress_bar", "enable_model_summary", "logger")
    accelerator = "gpu" if place.device.startswith("cuda") else "cpu"
    trainer = [*(f"--trainer.{each}=false" for each in off), "--trainer.num_sanity_val_steps=0"]
    trainer += [f"--trainer.accelerator={accelerator}", f"--out={out}"]
    return VQA.build([*arguments, *place.arguments(name), *trainer])


def prepare(name: str, place: Place, options: tuple[str, ...], workers: int) -> None:
    """Make the splits of a set, with the features of a frozen CNN, and write them for all processes."""
    job = Job(name, "softmax", 0, options=(*options, f"--data.workers={workers}"))
    with TemporaryDirectory() as out:
        cli = build(job.arguments(), place, name, out)
    data, task = cli.datamodule, cli.model
    # Readers that are spawned, as this process was, would import all of it anew for each split. Forks are safe as long
    # as the GPU is not touched.
    multiprocessing.set_start_method("fork", force=True)
    for split in SPLITS:
        data.split(split)
    templates = _templates(data, max(1, workers)) if name in SCENES else None
    if task.freeze_cnn:
        data.featurise(task.model.cnn.to(place.device))
    for split in SPLITS:
        whole = data.split(split).batch
        left_out = ["id", "region"]
        if "feature_mask" in whole and bool(whole["feature_mask"].all()):
            left_out += ["feature_mask", "sizes"]  # all images fill the grid: nothing to be masked
        batch = {key: value for key, value in whole.items() if key not in left_out}
        if split == "test" and templates is not None:
            batch["template"] = templates
        torch.save(batch, Path(place.ready) / f"{name}-{split}.pt")


def _templates(data: VQAData, workers: int) -> torch.Tensor:
    """Return which question each test sample asks, as indices into the names of all."""
    scenes = data.read("test")
    assert isinstance(scenes, Scenes)
    with multiprocessing.get_context("fork").Pool(workers) as pool:
        return torch.tensor(pool.map(_Template(scenes), range(len(scenes)), 50))


@dataclass(frozen=True)
class _Template:
    scenes: Scenes

    def __call__(self, index: int) -> int:
        return TEMPLATES.index(self.scenes.ask(index).template)


_READY: dict[str, dict[str, Ready]] = {}


def ready(name: str, place: Place) -> dict[str, Ready]:
    """Return the splits on the device, read once by each process, the last set alone."""
    if name not in _READY:
        _READY.clear()
        _READY[name] = {}
        for split in SPLITS:
            batch = torch.load(Path(place.ready) / f"{name}-{split}.pt", weights_only=True, mmap=True)
            on_device = {k: v.to(place.device) if isinstance(v, torch.Tensor) else v for k, v in batch.items()}
            _READY[name][split] = Ready(on_device)
    return _READY[name]


@dataclass(frozen=True)
class Stack:
    """Runs that are trained side by side: all but seed, rate, start and scale of the scores is the same."""

    jobs: tuple[Job, ...]

    @property
    def first(self) -> Job:
        """Return one that stands for all."""
        return self.jobs[0]


def stack_jobs(jobs: Sequence[Job], most: int) -> list[Stack]:
    """Put jobs together that can be trained side by side, as evenly as can be in stacks of at most so many."""
    found: dict[tuple[str, ...], list[Job]] = {}
    for job in jobs:
        kind, _, scale = job.kind.rpartition("_")
        scaled = scale.startswith("0.") and kind in ("sparsemax", "tvmax")
        options = [option for option in job.options if "rate.peak" not in option]
        alone = [str(job.seed)] if job.set in CNN_LEARNT else []
        found.setdefault((job.set, kind if scaled else job.kind, job.begin, *options, *alone), []).append(job)
    stacks = []
    for same in found.values():
        parts = -(-len(same) // most)
        cuts = [round(len(same) * part / parts) for part in range(parts + 1)]
        stacks += [Stack(tuple(same[low:high])) for low, high in pairwise(cuts)]
    return stacks


def train_jobs(stack: Stack, place: Place) -> None:
    """Train the networks of some jobs, and write what :func:`run` measures."""
    torch.set_float32_matmul_precision("high")
    splits, tasks, schedules = ready(stack.first.set, place), [], []
    with TemporaryDirectory() as out, silent_training():
        for job in stack.jobs:
            cli = build(job.arguments(), place, job.set, out)
            tasks.append(cli.model.to(place.device))
            begin(tasks[-1], job, place, splits["train"])
            length, every, clip = (
                getattr(cli.trainer, name) for name in ("max_steps", "val_check_interval", "gradient_clip_val")
            )
            schedules.append(Schedule(length, every, clip, cli.datamodule.batch_size, job.seed))
    graph = place.captures(stack.first.kind)
    if not graph and place.uncaptured_are_refused and parent(stack.first.kind).startswith("multimodal"):
        raise RuntimeError(f"{stack.first.kind} cannot be captured, and would take too long")
    if len(tasks) > 1 and all(can_stack(task) for task in tasks):
        trained = train_stacked(tasks, splits, schedules, graph)
    else:
        trained = [train(task, splits, each, graph) for task, each in zip(tasks, schedules, strict=True)]
    Path(place.starts).mkdir(parents=True, exist_ok=True)
    for job, task, schedule, outcome in zip(stack.jobs, tasks, schedules, trained, strict=True):
        weights = task.model.state_dict()
        if job.kind == "softmax" and not job.goes_on:
            torch.save(weights, weights_file(job, place))
        said = {
            "val_accuracy": round(outcome.val_accuracy, 6),
            "best_step": outcome.best_step,
            "steps": schedule.steps,
            "rate": task.rate.peak,
            "curve": json.dumps([[step, round(value, 4)] for step, value in outcome.curve]),
            "parameters": task.parameters_learnt,
            "seconds": round(outcome.seconds, 1),
        }
        torch.save({"weights": weights, "said": said}, trained_file(job, place))


def run(job: Job, place: Place) -> list[dict[str, Any]]:
    """Test the network that :func:`train_jobs` made: one row, and one for each attention that is tried again."""
    torch.set_float32_matmul_precision("high")
    made = torch.load(trained_file(job, place), map_location=place.device, weights_only=True)
    with TemporaryDirectory() as out, silent_training():
        task = build(job.arguments(), place, job.set, out).model.to(place.device)
        task.model.load_state_dict(made["weights"])
        splits = ready(job.set, place)
        same: dict[str, Any] = {
            "train_accuracy": round(accuracy(task, _seen(splits["train"])), 6),
            **made["said"],
            "device": name_device(place.device),
        }
        rows = [{**job.row(job.kind), **measure(task, splits["test"])}]
        rows[0] |= count_probes(task, splits) if job.begin == NOTHING else {}
        for kind in job.again:
            other = build(job.arguments(kind), place, job.set, out).model.to(place.device)
            other.model.load_state_dict(task.model.state_dict())
            rows.append({**job.row(kind), **measure(other, splits["test"])})
    return [{**row, **same} for row in rows]


def trained_file(job: Job, place: Place) -> Path:
    """Return where a trained network waits to be measured."""
    name = hashlib.sha256(" ".join(str(value) for value in job.row(job.kind).values()).encode()).hexdigest()[:16]
    return Path(place.ready) / f"trained-{name}.pt"


def _seen(whole: Ready) -> Ready:
    """Return some of the training part, evenly spread."""
    return Ready(whole.__getitems__(range(0, len(whole), max(1, len(whole) // SEEN))))


def weights_file(start: Job, place: Place) -> Path:
    """Return where the weights of a start are."""
    return Path(place.starts) / f"{start.set}-{start.begin}-{start.seed}.pt"


def begin(task: VQATask, job: Job, place: Place, seen: Ready) -> None:
    """Take the weights that a run begins with; what only this attention has besides stays as it is.

    Matched, scores are scaled so that weights are as sharp as they were, on the first questions of ``seen``.
    """
    if job.needs is None:
        return
    device = next(task.parameters()).device
    weights = torch.load(weights_file(job.needs, place), map_location=device, weights_only=True)
    if job.needs.set != job.set:
        weights = translate(weights, task, Scenes(1).vocabulary)
    found = task.model.load_state_dict(weights, strict=False)
    own = ("output.transform.", "output.numbers")
    if found.unexpected_keys or any(not key.startswith(own) for key in found.missing_keys):
        raise ValueError(f"{job.needs} does not fit: {found}")
    if job.begin.startswith(MATCHED):
        source = OutputAttention(task.network.hidden_dim, task.network.flat_dim, OutputConfig("softmax")).to(device)
        prefix = "output."
        theirs = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
        source.load_state_dict(theirs)
        task.model.match(seen.__getitems__(range(min(len(seen), MATCHED_ON))), source.eval())


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
