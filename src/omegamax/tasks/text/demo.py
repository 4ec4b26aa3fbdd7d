"""The demonstration: small networks with several kinds of attention, trained on the embedded reviews in a minute."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lightning as L

from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import Tell, train_run
from omegamax.tasks.text.sets import ReviewsData
from omegamax.tasks.text.task import TextTask

KINDS = {
    "softmax": WordsConfig("softmax"),
    "sparsemax": WordsConfig("sparsemax"),
    "fusedmax": WordsConfig("fusedmax"),
    "k_subsets": WordsConfig("k_subsets", k=3),
    "continuous_sparsemax": WordsConfig("continuous_sparsemax", functions=32),
    "combined": WordsConfig("continuous_sparsemax", combined=True, functions=32),
}


@dataclass(frozen=True)
class TextRecipe:
    """Sizes of the demonstration.

    Args:
        samples: reviews for training, validation and test.
        steps: of 32 reviews, of each network.
        every: steps from one validation to the next.
    """

    samples: tuple[int, int, int] = (1200, 300, 1000)
    steps: int = 500
    every: int = 100

    def data(self, seed: int) -> ReviewsData:
        """Return the embedded set."""
        return ReviewsData(self.samples, review_seed=seed, batch_size=32, seed=seed)


def train(recipe: TextRecipe, data: ReviewsData, name: str, out: Path, seed: int, tell: Tell) -> None:
    """Train one network, which goes to ``out/<name>/model.safetensors``."""
    L.seed_everything(seed, verbose=False)
    task = TextTask(data.vocabulary, TextConfig.small(attention=KINDS[name]), rate=Rate(3e-3, 0, "constant"))
    train_run(task, data, recipe.steps, out / name, tell, min(recipe.every, recipe.steps))
