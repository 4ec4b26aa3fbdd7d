"""One row of the tables: a network with a kind of attention, trained on Flickr8k and measured on its test part."""

from __future__ import annotations

import functools
import json
import lzma
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
import torch
from torchmetrics.text import BLEUScore
from training import Part, Schedule, look, train

from omegamax.models.captioning import CaptionConfig
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning import CaptionTask, Flickr8kData
from omegamax.tasks.captioning.measures import CaptionMeasures
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions
from omegamax.tasks.captioning.task import Written
from omegamax.tasks.experiment import name_device, silent_training
from omegamax.tasks.rate import Rate
from omegamax.tasks.weights_file import write_weights
from omegamax.tasks.whole import whole_file

HERE = Path(__file__).parent
KINDS = {
    "softmax": OutputConfig(),
    "sparsemax": OutputConfig("sparsemax"),
    "tvmax": OutputConfig("tvmax"),
    "entmax15": OutputConfig("entmax"),
    "continuous_softmax": OutputConfig("continuous_softmax", functions=7),
    "continuous_sparsemax": OutputConfig("continuous_sparsemax", functions=7),
    "multimodal": OutputConfig("multimodal", components="fixed", max_components=2, functions=7),
}
KEYS = ("kind", "seed", "peak", "dropout", "smoothing")
MEASURED = ("bleu1", "bleu2", "bleu3", "bleu4", "rep", "js", "zero", "words")
COLUMNS = (*KEYS, *MEASURED, "val_bleu4", "best_epoch", "epochs", "parameters", "seconds", "device")
SMALL = {"word_dim": 128, "hidden_dim": 256, "feature_dim": 256, "score_dim": 128}  # for a CPU
BATCH, CLIP = 128, 5.0
FIRST = 3  # epochs after which captions of the validation part begin to mean something


class Place(NamedTuple):
    """Where the set and its features are, how long to train, and where captions and networks go."""

    folder: str
    features: str
    device: str
    epochs: int
    captions: str
    networks: str
    plain: bool = False  # no CUDA graphs
    small: bool = False  # networks of a size that a CPU trains in twenty minutes


def name(job: Mapping[str, Any]) -> str:
    """Return the name of the files of a job.

    >>> name({"kind": "tvmax", "seed": 0, "peak": 0.001, "dropout": 0.5, "smoothing": 0.1})
    'tvmax-0-0.001-0.5-0.1'
    """
    return "-".join(str(job[key]) for key in KEYS)


@functools.lru_cache(1)
def read(place: Place) -> tuple[Flickr8kData, dict[str, Part]]:
    """Read the set, once for all jobs of a process."""
    data = Flickr8kData(place.folder, features=place.features)
    return data, {split: Part.of(data, split, place.device) for split in ("train", "val", "test")}


def run(job: Mapping[str, Any], place: Place) -> dict[str, Any]:
    """Train a network, measure the one with the best BLEU-4 of the validation part, and return its row."""
    kind, seed, cuda = str(job["kind"]), int(job["seed"]), place.device.startswith("cuda")
    with silent_training(single=not cuda):
        torch.set_float32_matmul_precision("high")
        data, parts = read(place)
        L.seed_everything(seed, verbose=False)
        network = CaptionConfig(
            image_dim=parts["val"].features.shape[-1],
            attention=KINDS[kind],
            dropout=float(job["dropout"]),
            label_smoothing=float(job["smoothing"]),
            **(SMALL if place.small else {}),
        )
        rate = Rate(float(job["peak"]), 0, "cosine", interval="step")
        task = CaptionTask(data.vocabulary, network, rate).to(place.device)
        schedule = Schedule(place.epochs, FIRST, CLIP, BATCH, seed)
        trained = train(task, parts, schedule, graph=cuda and not place.plain)
        written = look(task, parts["test"])
    save_captions(Path(place.captions, "captions", f"{name(job)}.jsonl.xz"), written, parts["test"])
    if seed == 0:
        task.data_settings = data.settings
        save_network(Path(place.networks, name(job)), task, written, parts["test"])
    about = {"val_bleu4": trained.val_bleu4, "best_epoch": trained.best_epoch, "epochs": place.epochs}
    count = sum(p.numel() for p in task.parameters())
    row = {**job, **measure(written, parts["test"]), **about, "parameters": count}
    return {**row, "seconds": round(trained.seconds, 1), "device": name_device(place.device)}


def measure(written: list[Written], part: Part) -> dict[str, Any]:
    """Measure captions, over words in lower case, and their maps."""
    measures = CaptionMeasures()
    measures.add_captions([each.tokens for each in written], part.references, [[]] * len(written))
    measures.add_maps([each.maps for each in written])
    texts = [" ".join(each.tokens) for each in written]
    more = {f"bleu{n}": float(BLEUScore(n)(texts, part.references)) for n in (2, 3)}
    found = {**measures.compute(), **more}
    return {key: found.get(key, "") for key in MEASURED}  # captions of one word have nothing between words


def save_captions(path: Path, written: list[Written], part: Part) -> None:
    """Keep captions as JSON lines, compressed."""
    with whole_file(path) as place, lzma.open(place, "wt", encoding="utf-8") as file:
        for image, each in zip(part.names, written, strict=True):
            file.write(json.dumps({"image": image, "caption": " ".join(each.tokens)}) + "\n")


def save_network(folder: Path, task: CaptionTask, written: list[Written], part: Part) -> None:
    """Keep a network, in half precision, and what it wrote with its maps, as ``omegamax caption predict`` does."""
    half = {key: value.half() for key, value in task.model.state_dict().items()}
    write_weights(folder / "model.safetensors", task.kind, task.describe(), half)
    CaptionPredictions(
        CaptionPrediction(image, " ".join(e.tokens), e.tokens, e.log_probability, tuple(texts), e.maps)
        for image, e, texts in zip(part.names, written, part.texts, strict=True)
    ).save(folder)
