"""The demonstration: small networks that write captions of the embedded scenes, trained in a minute or two."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import lightning as L

from omegamax.data.scenes import Scenes
from omegamax.models import GridCNN
from omegamax.models.captioning import CaptionConfig
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.captioning.sets import SceneCaptionsData
from omegamax.tasks.captioning.task import CaptionTask
from omegamax.tasks.finite import FiniteCheck
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import Steps, Tell, make_trainer, train_run
from omegamax.tasks.vqa.cells import CellsTask, cells_loader

FEATURES = "features"
KINDS = {
    "softmax": OutputConfig("softmax"),
    "sparsemax": OutputConfig("sparsemax"),
    "tvmax": OutputConfig("tvmax", strength=0.1),
    "continuous_sparsemax": OutputConfig("continuous_sparsemax", functions=5, variance=0.01),
}
MEASURES = ("bleu1", "bleu4", "objects", "inside", "zero", "js")


@dataclass(frozen=True)
class CaptionRecipe:
    """Sizes of the demonstration.

    Args:
        samples: pictures for training, validation and test.
        pictures: on which the features are learnt first, in ``feature_steps`` steps of 64.
        steps: of 64 captions, of each network.
        image_size, grid: pixels along a side of a picture, and cells.
    """

    samples: tuple[int, int, int] = (1600, 50, 150)
    pictures: int = 1200
    feature_steps: int = 200
    steps: int = 210
    image_size: int = 64
    grid: tuple[int, int] = (8, 8)
    shapes: tuple[str, ...] = ("circle", "triangle", "cross", "ring", "bar")
    colours: tuple[str, ...] = ("red", "green", "blue", "yellow")

    def data(self, seed: int) -> SceneCaptionsData:
        """Return an easier part of the embedded set: five shapes, four colours."""
        return SceneCaptionsData(
            self.samples,
            self.image_size,
            shapes=self.shapes,
            colours=self.colours,
            scene_seed=seed,
            grid=self.grid,
            batch_size=64,
            seed=seed,
        )

    def scenes(self, seed: int) -> Scenes:
        """Return the pictures, of things alike, on which features are learnt."""
        return Scenes(
            self.pictures,
            seed,
            image_size=self.image_size,
            objects=(2, 4),
            shapes=self.shapes,
            colours=self.colours,
            questions=("exists", "has_colour"),
        )


def train_features(recipe: CaptionRecipe, cnn: Path, seed: int, tell: Tell) -> GridCNN:
    """Train a network that names what is in each cell: the features that all others look at, and do not change.

    It goes to the file ``cnn``.
    """
    L.seed_everything(seed, verbose=False)
    loader = cells_loader(recipe.scenes(seed + 1), recipe.grid, 64)
    task = CellsTask(64, recipe.grid, len(recipe.shapes), len(recipe.colours))
    make_trainer(recipe.feature_steps, [FiniteCheck(), Steps(FEATURES, tell)]).fit(task, loader)
    cnn.parent.mkdir(parents=True, exist_ok=True)
    save_grid_cnn(task.cnn, cnn, size=(recipe.image_size, recipe.image_size))
    return task.cnn.eval()


def train(
    recipe: CaptionRecipe, data: SceneCaptionsData, name: str, cnn: Path, out: Path, seed: int, tell: Tell
) -> None:
    """Train one network on the features of ``cnn``, which goes to ``out/<name>/model.safetensors``."""
    L.seed_everything(seed, verbose=False)
    task = CaptionTask(
        data.vocabulary,
        CaptionConfig.small(attention=KINDS[name], grid=recipe.grid),
        rate=Rate(4e-3, warmup=20, fall="cosine", interval="step"),
        cnn=str(cnn),
        freeze_cnn=True,
    )
    train_run(task, data, recipe.steps, out / name, tell, recipe.steps)


def measure(task: CaptionTask, data: SceneCaptionsData) -> dict[str, float]:
    """Return what a test on the embedded set finds, by name."""
    found: Any = make_trainer(1, []).test(task, datamodule=data, verbose=False)
    return {name: found[0][f"test_{name}"] for name in MEASURES}
