"""The demonstration: language models trained on reviews made on the spot, in two minutes."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import lightning as L

from omegamax.models.language import LanguageConfig, TokenOutputConfig
from omegamax.tasks.language.sets import EmbeddedReviewsData
from omegamax.tasks.language.task import LanguageTask
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import Tell, train_run


def _network(output: TokenOutputConfig) -> LanguageConfig:
    return LanguageConfig.tiny(attention="entmax15", groups=2, sink=True, output=output)


KINDS = {
    "softmax": _network(TokenOutputConfig("softmax", label_smoothing=0.0)),
    "entmax": _network(TokenOutputConfig("entmax15", label_smoothing=0.0)),
    "sparsemax": _network(TokenOutputConfig("sparsemax", label_smoothing=0.0)),
    "learnt": _network(TokenOutputConfig("entmax", learnable=True, label_smoothing=0.01)),
}


@dataclass(frozen=True)
class LanguageRecipe:
    """Sizes of the demonstration.

    Args:
        samples: reviews for training, validation and test.
        steps: of 32 windows of 64 words, of each network.
    """

    samples: tuple[int, int, int] = (6000, 100, 200)
    steps: int = 300

    def data(self, seed: int) -> EmbeddedReviewsData:
        """Return the embedded reviews."""
        return EmbeddedReviewsData(self.samples, review_seed=seed, length=64, batch_size=32, seed=seed)


def train(recipe: LanguageRecipe, data: EmbeddedReviewsData, name: str, out: Path, seed: int, tell: Tell) -> None:
    """Train one network, which goes to ``out/<name>/model.safetensors``."""
    L.seed_everything(seed, verbose=False)
    rate = Rate(3e-3, warmup=max(1, recipe.steps // 10), fall="cosine", interval="step")
    task = LanguageTask(data.vocabulary, KINDS[name], rate=rate)
    train_run(task, data, recipe.steps, out / name, tell, max(1, recipe.steps // 3))
