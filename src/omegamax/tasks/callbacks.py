"""What happens beside the training loop: curves that survive a restart, files of answers and weights."""

from __future__ import annotations

import json
import math
from itertools import zip_longest
from math import isfinite
from pathlib import Path
from typing import Any

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, Checkpoint, ModelCheckpoint

from omegamax.data import DataError
from omegamax.data.files import parse_json, read_text
from omegamax.data.unpack import MIB
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.weights_file import write_weights
from omegamax.tasks.whole import whole_file

MOST_CURVE = 64 * MIB  # bytes of a file of points; a point has some hundred


class Curve(Callback):
    """What was logged at each validation, as ``curve.json`` in the run's folder.

    It is part of a checkpoint: a run that goes on after a stop has all of it.
    """

    def __init__(self, file: str = "curve.json") -> None:
        self.file = file
        self.points: list[dict[str, float]] = []

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.sanity_checking or trainer.state.fn != "fit":
            return
        logged = sorted(trainer.callback_metrics.items())
        values = {name: float(value) for name, value in logged if name.startswith(("train_", "val_"))}
        self.points.append({"step": trainer.global_step, "epoch": trainer.current_epoch, **values})
        if trainer.is_global_zero:
            with whole_file(Path(trainer.default_root_dir) / self.file) as place:
                points = [{k: v if isfinite(v) else None for k, v in point.items()} for point in self.points]
                place.write_text(json.dumps(points, indent=1) + "\n", encoding="utf-8")  # JSON has no NaN

    def state_dict(self) -> dict[str, Any]:
        return {"points": self.points}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.points = list(state["points"])


def read_curve(path: Path) -> list[dict[str, float]]:
    """Read the ``curve.json`` of a run, by its folder or the file of its network; empty where there is none."""
    folders = (path,) if path.is_dir() else (path.parent, path.parent.parent)
    files = [folder / "curve.json" for folder in folders if (folder / "curve.json").is_file()]
    if not files:
        return []
    advice = "remove it, and the report goes without the curve"
    try:
        points = parse_json(read_text(files[0], MOST_CURVE), finite=False)  # a loss can be NaN
    except ValueError as error:
        raise DataError(f"{files[0]} is damaged ({error}); {advice}") from error
    if not isinstance(points, list) or not all(map(_is_point, points)):
        raise DataError(f"{files[0]} must be a list of points, a number or null by name, each with a step; {advice}")
    return points


def _is_point(point: object) -> bool:
    """Tell whether this is what was logged at a step, numbers by name."""
    if not isinstance(point, dict) or point.get("step") is None:
        return False
    return all(value is None or type(value) in (int, float) for value in point.values())


class Draws(Callback):
    """Random numbers of training that depend on seed, step and process alone.

    They start anew with each validation, so that a run that goes on from there draws what it would have drawn; and
    processes draw each their own.
    """

    def setup(self, trainer: L.Trainer, module: L.LightningModule, stage: str) -> None:
        self.seed = torch.initial_seed()

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        self._start(trainer)

    def on_validation_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if trainer.state.fn == "fit" and not trainer.sanity_checking:
            self._start(trainer)

    def _start(self, trainer: L.Trainer) -> None:
        mixed = np.random.SeedSequence([self.seed, trainer.global_step, trainer.global_rank]).generate_state(1)
        torch.manual_seed(int(mixed[0]))


class LastCheckpoint(Checkpoint):
    """A checkpoint after the last step, ``last.ckpt``, for ``max_steps`` need not end with a validation.

    A ``Checkpoint`` comes after all other callbacks, whose states it saves: a mean of weights has this step in it.
    """

    def on_train_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, index: int
    ) -> None:
        if trainer.global_step == trainer.max_steps and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            path = Path(trainer.default_root_dir) / "checkpoints" / "last.ckpt"
            trainer.save_checkpoint(path, weights_only=False)  # the state of training too


class BestCheckpoint(ModelCheckpoint):
    """The checkpoint with the highest value of ``monitor``; of equal ones the last.

    On a small set BLEU-4 is 0 for many epochs: the first of them has learnt least.
    """

    def check_monitor_top_k(self, trainer: L.Trainer, current: torch.Tensor | None = None) -> bool:
        if super().check_monitor_top_k(trainer, current):
            return True
        return current is not None and trainer.strategy.reduce_boolean_decision(bool(current == self.best_model_score))


class Epochs(Callback):
    """The number of epochs that ``max_steps`` comes to, for bars to say how many there are."""

    def on_train_start(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        batches = trainer.num_training_batches
        if trainer.max_epochs == -1 and trainer.max_steps > 0 and 0 < batches < math.inf:
            trainer.fit_loop.max_epochs = math.ceil(trainer.max_steps * trainer.accumulate_grad_batches / batches)


class WeightsWriter(Callback):
    """The trained network as ``model.safetensors`` in the run's folder, written at the end: the best that there was.

    Best is what the run's checkpoints say; without any, the last.
    """

    def on_fit_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        if not trainer.is_global_zero or not isinstance(module, RunTask):
            return
        best = getattr(trainer.checkpoint_callback, "best_model_path", "")
        task = type(module).load(best) if best else module
        path = Path(trainer.default_root_dir) / "model.safetensors"
        write_weights(path, task.kind, task.describe(), task.model.state_dict())


class Answers(Callback):
    """Predictions as ``answers.json`` in the run's folder: a list of objects, each with its ``id``.

    Args:
        file: its name.
        asked: what was to be answered, in the plural.
    """

    noun = "answers"

    def __init__(self, file: str = "answers.json", asked: str = "questions") -> None:
        self.file, self.asked = file, asked
        self.found: dict[str, dict[str, Any]] = {}

    def on_predict_batch_end(
        self, trainer: L.Trainer, module: L.LightningModule, outputs: Any, batch: Any, index: int, loader: int = 0
    ) -> None:
        self.found |= {entry["id"]: entry for entry in outputs}

    def on_predict_end(self, trainer: L.Trainer, module: L.LightningModule) -> None:
        found = self.found
        if trainer.world_size > 1:
            parts: list[Any] = [None] * trainer.world_size
            torch.distributed.all_gather_object(parts, found)
            turns = zip_longest(*(part.items() for part in parts))  # as the samples were dealt out
            found = dict(item for turn in turns for item in turn if item is not None)
        if not trainer.is_global_zero:
            return
        samples: Any = getattr(getattr(trainer.predict_dataloaders, "loader", None), "dataset", None)
        if samples is not None and hasattr(samples, "ids"):  # they were not asked for in their order
            found = {name: found[name] for name in samples.ids if name in found}
        path = Path(trainer.default_root_dir) / self.file
        self.save(path, found, trainer)
        count = getattr(getattr(trainer.predict_dataloaders, "sampler", None), "count", len(found))
        short = f" (of {count} {self.asked}; the others were passed over)" if len(found) < count else ""
        print(f"{len(found)} {self.noun}{short}: {path}")

    def save(self, path: Path, found: dict[str, dict[str, Any]], trainer: L.Trainer) -> None:
        """Write the file of all predictions, by their ids, whole or not at all."""
        with whole_file(path) as place:
            self.write(place, found, trainer)

    def write(self, path: Path, found: dict[str, dict[str, Any]], trainer: L.Trainer) -> None:
        """Write the file of all predictions, by their ids."""
        text = json.dumps(list(found.values()), ensure_ascii=False, indent=1)
        path.write_text(text + "\n", encoding="utf-8")
