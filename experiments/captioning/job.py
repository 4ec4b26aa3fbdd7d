"""One row of the tables: a network with a kind of attention, trained on Flickr8k and measured on its test part."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import lightning as L
from lightning.pytorch.callbacks import ModelCheckpoint

from omegamax.models.captioning import CaptionConfig
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning import CaptionTask, Flickr8kData
from omegamax.tasks.experiment import name_device, silent_training
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.rate import Rate

HERE = Path(__file__).parent
KINDS = {
    "softmax": OutputConfig(),
    "sparsemax": OutputConfig("sparsemax"),
    "tvmax": OutputConfig("tvmax"),
    "entmax15": OutputConfig("entmax"),
    "continuous_softmax": OutputConfig("continuous_softmax"),
    "continuous_sparsemax": OutputConfig("continuous_sparsemax"),
    "multimodal": OutputConfig("multimodal", components="fixed", max_components=2),
}
SCORES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "SPICE")
MEASURED = ("bleu1", "bleu4", *SCORES, "rep", "js", "zero", "words", "loss", "rate")
# The paper's rate after its tenth epoch; its height and the dropout are ours, for a set a fourteenth as large.
FALL = {"fall": "steps", "milestones": tuple(range(10, 50)), "factor": 0.99}


class Place(NamedTuple):
    """Where the set and its features are, and how long to train."""

    folder: str
    features: str
    device: str
    epochs: int
    precision: str


def run(job: Mapping[str, Any], place: Place, out: Path) -> dict[str, Any]:
    """Train a network, measure the one with the best BLEU-4 of the validation part, and return its row."""
    start = time.perf_counter()
    kind, seed = str(job["kind"]), int(job["seed"])
    with silent_training(single=place.device == "cpu"):
        L.seed_everything(seed, verbose=False)
        data = Flickr8kData(place.folder, features=place.features, batch_size=80, seed=seed)
        dim = int(data.split("val")[0][0].features.shape[-1])  # type: ignore[union-attr]
        network = CaptionConfig(image_dim=dim, attention=KINDS[kind], dropout=float(job["dropout"]))
        task = CaptionTask(data.vocabulary, network, Rate(float(job["peak"]), 0, **FALL))  # type: ignore[arg-type]
        folder = out / f"{kind}-{seed}"
        best = ModelCheckpoint(folder, "best", monitor="val_bleu4", mode="max", enable_version_counter=False)
        trainer = L.Trainer(
            accelerator="gpu" if place.device.startswith("cuda") else "cpu",
            devices=1,
            precision=place.precision,  # type: ignore[arg-type]
            max_epochs=place.epochs,
            gradient_clip_val=5.0,
            callbacks=[FiniteCheck(), best],
            default_root_dir=folder,
            enable_progress_bar=False,
            enable_model_summary=False,
            logger=False,
        )
        trainer.fit(task, datamodule=data)
        trained = CaptionTask.load(best.best_model_path)
        (found,) = trainer.test(trained, datamodule=data, verbose=False)
    row = {name: found.get(f"test_{name}", "") for name in MEASURED}
    about = {"val_bleu4": float(best.best_model_score or 0), "epochs": place.epochs}
    seconds = round(time.perf_counter() - start, 1)
    count = sum(p.numel() for p in task.parameters())
    return {**job, **row, **about, "parameters": count, "seconds": seconds, "device": name_device(place.device)}
