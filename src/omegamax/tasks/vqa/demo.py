"""The demonstration: small networks with several kinds of attention, trained on the embedded set in minutes."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import active_children, get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import lightning as L
import torch
from torch.utils.data import DataLoader

from omegamax.data import Ready
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.models.mcan import MCANConfig, OutputConfig
from omegamax.tasks.callbacks import Curve
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import Steps, Tell, make_trainer
from omegamax.tasks.threads import one_thread
from omegamax.tasks.vqa.cells import CellsTask, cells_loader
from omegamax.tasks.vqa.checkpoint import read_checkpoint, write_safetensors
from omegamax.tasks.vqa.sets import ScenesData
from omegamax.tasks.vqa.task import VQATask

BLIND, FEATURES, START = "language_only", "features", "start"
# Lambda of mixtures: of 5, 2, 1, 0.5 and 0.2 the one whose answers to 2000 validation questions were right most often,
# in the mean over networks of the seeds 21, 22 and 23. With the papers' 5 every mixture has one component.
SELECTION = 0.5
# The attention of each network that is trained, by the name of its folder.
PARTS = {
    "softmax": OutputConfig(),
    "tvmax": OutputConfig("tvmax"),
    "continuous_softmax": OutputConfig("continuous_softmax"),
    "combined": OutputConfig("continuous_softmax", combined=True),
    "continuous_sparsemax": OutputConfig("continuous_sparsemax"),
    "multimodal": OutputConfig("multimodal", selection=SELECTION),
}
# Those that take over what another one learnt, and are not trained: their attention, and whose weights.
UNTRAINED = {"test_mca": (OutputConfig("multimodal", components="test", selection=SELECTION), "continuous_softmax")}
ROWS = (*PARTS, *UNTRAINED)
# Longest first, so that no processor is left waiting at the end.
_ORDER = ("tvmax", "multimodal", "continuous_sparsemax", "combined", "continuous_softmax", "softmax")


@dataclass(frozen=True)
class Recipe:
    """Sizes of the demonstration.

    Args:
        samples: for training, validation and test.
        pictures: on which the features are learnt first, in ``feature_steps`` steps of 64.
        start_steps: of 64 questions, with softmax attention: where all networks start from.
        steps: of 64 questions, of each network from there.
        every: steps from one validation to the next.
        image_size, grid: pixels along a side of a picture, and cells.
    """

    samples: tuple[int, int, int] = (8000, 500, 1000)
    pictures: int = 4000
    feature_steps: int = 450
    start_steps: int = 450
    steps: int = 300
    every: int = 50
    image_size: int = 64
    grid: tuple[int, int] = (8, 8)

    def data(self, seed: int, workers: int) -> ScenesData:
        """Return an easier part of the embedded set: five shapes, four colours, and questions of all three kinds."""
        return ScenesData(
            self.samples,
            self.image_size,
            objects=(3, 5),
            shapes=("circle", "triangle", "cross", "ring", "bar"),
            colours=("red", "green", "blue", "yellow"),
            questions=(
                *("exists", "has_colour", "count_shape", "count_colour"),
                *("colour_of", "shape_of", "colour_of_both", "shape_of_same_colour"),
            ),
            scene_seed=seed,
            grid=self.grid,
            workers=workers,
            seed=seed,
        )

    def network(self, output: OutputConfig = OutputConfig()) -> MCANConfig:  # noqa: B008, frozen
        """Return the small network with one layer, and this attention over the image."""
        return MCANConfig.small(layers=1, grid=self.grid, output=output)


def train_features(recipe: Recipe, data: ScenesData, seed: int, tell: Tell) -> GridCNN:
    """Train a network that names what is in each cell: the features that all others start from, and do not change."""
    L.seed_everything(seed, verbose=False)
    scenes = data.scenes(recipe.pictures, seed=seed + 1)
    loader = cells_loader(scenes, recipe.grid, 64, data.workers)
    task = CellsTask(64, recipe.grid, len(data.shapes), len(data.colours))
    with one_thread():
        make_trainer(recipe.feature_steps, [FiniteCheck(), Steps(FEATURES, tell)]).fit(task, loader)
    return task.cnn.eval()


def train_all(recipe: Recipe, data: ScenesData, cnn: GridCNN, out: Path, seed: int, tell: Tell) -> None:
    """Train all networks, several at once if there are processors; each goes to ``out/<kind>/model.safetensors``.

    No kind of attention has parameters of its own, so all can start from one network: with softmax, since densities are
    slow to find things while the scores of all cells are alike.
    """
    with TemporaryDirectory() as folder:
        save_grid_cnn(cnn, f"{folder}/cnn.safetensors", size=data.size)
        for split in ("train", "val"):
            ready = data.split(split)
            assert isinstance(ready, Ready)
            torch.save(ready.batch, f"{folder}/{split}.pt")
        context = get_context("spawn")  # a fork would copy locks of torch's threads
        jobs = min(len(PARTS), processors())
        with (
            context.Manager() as manager,
            ProcessPoolExecutor(jobs, context, initializer=_leave_interrupts) as pool,
            _end_with_block(),
        ):
            told = manager.Queue()

            def train(names: Sequence[str]) -> list[Future[None]]:
                return [pool.submit(_train, recipe, data, name, folder, out, seed, told) for name in names]

            first, blind = train([START, BLIND])
            _follow([first], told, tell)
            _follow([blind, *train(_ORDER)], told, tell)
    for name, (output, source) in UNTRAINED.items():
        take_over(out / source, out / name, recipe.network(output))


def take_over(source: Path, out: Path, network: MCANConfig) -> None:
    """Write what one run has learnt, and its curve, as a run with another attention: test-MCA is so made."""
    record, weights = read_checkpoint(source / "model.safetensors")
    task = VQATask(record.vocabulary, network, record.loss, record.loss_options)
    task.model.load_state_dict(weights)
    task.data_settings = record.data
    out.mkdir(parents=True, exist_ok=True)
    write_safetensors(out / "model.safetensors", task.record, task.model.state_dict())
    shutil.copy(source / "curve.json", out / "curve.json")


def processors() -> int:
    """Count the processors that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def _end_with_block() -> Iterator[None]:
    """End the processes started inside the block if it fails: a pool would wait until they have trained to the end."""
    before = set(active_children())
    try:
        yield
    except BaseException:
        for process in set(active_children()) - before:
            process.terminate()
        raise


def _leave_interrupts() -> None:
    """Let Ctrl-C, which a terminal sends to all processes of a command, be handled by the first of them alone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _follow(futures: Sequence[Future[None]], told: Any, tell: Tell) -> None:
    """Pass on what is told, until all is done."""
    while not all(future.done() for future in futures) or not told.empty():
        while not told.empty():
            tell(*told.get())
        for future in futures:
            if future.done():
                future.result()  # what failed is not waited for by the others
        time.sleep(0.1)
    for future in futures:
        future.result()


def _train(recipe: Recipe, data: ScenesData, name: str, folder: str, out: Path, seed: int, told: Any) -> None:
    """Train one network, in a process of its own."""
    torch.set_num_threads(1)
    L.seed_everything(seed, verbose=False)
    goes_on = name in PARTS
    task = VQATask(
        data.vocabulary,
        recipe.network(PARTS[name]) if goes_on else recipe.network(),
        "softmax",
        rate=Rate(2e-3 if goes_on else 3e-3, warmup=20 if goes_on else 100, fall="cosine", interval="step"),
        cnn=f"{folder}/cnn.safetensors",
        freeze_cnn=True,
        blind=name == BLIND,
        start=str(out / START / "model.safetensors") if goes_on else None,
    )
    task.data_settings = data.settings
    train, val = (Ready(torch.load(f"{folder}/{split}.pt", mmap=True)) for split in ("train", "val"))
    steps = recipe.steps if goes_on else recipe.start_steps
    callbacks = [FiniteCheck(), Steps(name, lambda part, done: told.put((part, done))), Curve()]
    make_trainer(steps, callbacks, out / name, min(recipe.every, steps)).fit(
        task,
        DataLoader(train, 64, shuffle=True, drop_last=True, collate_fn=Ready.collate),
        DataLoader(val, 250, collate_fn=Ready.collate),
    )
    write_safetensors(out / name / "model.safetensors", task.record, task.model.state_dict())
