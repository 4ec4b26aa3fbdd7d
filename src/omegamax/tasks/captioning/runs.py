"""Captions of runs, and the photographs they are of: from the files of a run, or written anew by its network."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from omegamax.data import DataError
from omegamax.data.captions import CaptionedPictures
from omegamax.tasks.captioning.data import CaptionData
from omegamax.tasks.captioning.predictions import CAPTIONS, CaptionPrediction, CaptionPredictions
from omegamax.tasks.captioning.sets import FileCaptionsData
from omegamax.tasks.captioning.task import CaptionTask
from omegamax.tasks.progress import progress
from omegamax.tasks.report.contenders import move_batch
from omegamax.tasks.weights_file import find_weights

Reader = Callable[[str], Tensor]


def load_network(run: Path) -> CaptionTask | None:
    """Load the network of a run; None for one that has captions only."""
    try:
        path = find_weights(run.parent if run.suffix == ".jsonl" else run, CaptionTask.kind)
    except DataError:
        if run.suffix == ".jsonl" or (run / CAPTIONS).is_file():
            return None
        raise
    return CaptionTask.load(path)


def find_captions(run: Path) -> CaptionPredictions | None:
    """Return the captions that lie in the folder of a run; None if there are none, or they are older than its network.

    A file of captions may be given in place of a folder; it is taken as it is.
    """
    if run.suffix == ".jsonl":
        return CaptionPredictions.load(run)
    path = (run if run.is_dir() else run.parent) / CAPTIONS
    network = path.with_name("model.safetensors")
    if not path.is_file() or (network.is_file() and network.stat().st_mtime > path.stat().st_mtime):
        return None
    return CaptionPredictions.load(path)


@torch.no_grad()
def write_captions(task: CaptionTask, data: CaptionData, split: str, what: str) -> tuple[CaptionPredictions, float]:
    """Let a network write captions of all pictures of a split; return them, and how many words it wrote in a second.

    The first batch is written twice, and timed the second time only.
    """
    task.eval()
    loader: Any = {"val": data.val_dataloader, "test": data.test_dataloader}[split]()
    found, words, seconds = [], 0, 0.0
    for index, batch in enumerate(progress(loader, what)):
        batch = move_batch(batch, task.device)
        if index == 0:
            task.write(batch)
        start = time.perf_counter()
        written = task.write(batch)
        seconds += time.perf_counter() - start
        for image, each, references in zip(batch["id"], written, batch["references"], strict=True):
            words += len(each.tokens) + 1  # its end is written too
            text = " ".join(each.tokens)
            said = CaptionPrediction(image, text, each.tokens, each.log_probability, tuple(references), each.maps)
            found.append(said)
    return CaptionPredictions(found), words / max(seconds, 1e-9)


def find_reader(data: CaptionData | None, split: str, pictures: Sequence[Path] = ()) -> Reader:
    """Return a function that reads a photograph by its name.

    Args:
        data: that the captions are of; None where it is not known.
        split: the part of them.
        pictures: folders and zip archives to look in, in place of those of the data.
    """
    if pictures:
        return CaptionedPictures([], list(pictures)).read_picture
    if data is None:
        raise DataError("it is not known where the photographs are; give folders or zip archives, --pictures")
    if isinstance(data, FileCaptionsData):
        return CaptionedPictures([], data.sources).read_picture
    samples: Any = data.read(split)
    places = {samples[index].id: index for index in range(len(samples))}

    def read(image: str) -> Tensor:
        if image not in places:
            raise DataError(f"there is no picture {image} in the {split} part of the data; give another, --split")
        found = samples[places[image]].image
        assert isinstance(found, Tensor)
        return found

    return read


def list_objects(data: CaptionData | None, split: str) -> dict[str, Sequence[str]]:
    """Return the names of what is marked in each photograph, by its name; empty where nothing is known."""
    if data is None:
        return {}
    if isinstance(data, FileCaptionsData):
        return {entry.image: entry.objects for entry in data.entries(split) if entry.objects}
    samples: Any = data.read(split)
    return {each.id: each.objects for each in (samples[index] for index in range(len(samples))) if each.objects}
