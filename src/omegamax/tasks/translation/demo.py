"""The demonstration: networks that translate, trained on the embedded pair of languages in two minutes."""

from __future__ import annotations

from contextlib import redirect_stdout
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Any

import lightning as L

from omegamax.models.translation import TokenOutputConfig, TranslatorConfig
from omegamax.tasks.rate import Rate
from omegamax.tasks.steps import Tell, make_trainer, train_run
from omegamax.tasks.translation.search import SearchConfig
from omegamax.tasks.translation.sets import TinyPairsData
from omegamax.tasks.translation.task import TranslationTask

KINDS = {
    "softmax": TranslatorConfig.tiny(attention="softmax", output=TokenOutputConfig("softmax", label_smoothing=0.0)),
    "entmax": TranslatorConfig.tiny(attention="entmax15", output=TokenOutputConfig("entmax15", label_smoothing=0.0)),
    "sparsemax": TranslatorConfig.tiny(
        attention="sparsemax", output=TokenOutputConfig("sparsemax", label_smoothing=0.0)
    ),
}
MEASURES = ("bleu", "support", "exact", "complete")


@dataclass(frozen=True)
class TranslationRecipe:
    """Sizes of the demonstration.

    Args:
        samples: pairs for training, validation and test.
        steps: of some 64 pairs, of each network.
    """

    samples: tuple[int, int, int] = (6000, 100, 200)
    steps: int = 400

    def data(self, seed: int) -> TinyPairsData:
        """Return the embedded pair of languages."""
        return TinyPairsData(self.samples, pair_seed=seed, batch_size=64, seed=seed)


def train(recipe: TranslationRecipe, data: TinyPairsData, name: str, out: Path, seed: int, tell: Tell) -> None:
    """Train one network, which goes to ``out/<name>/model.safetensors``."""
    L.seed_everything(seed, verbose=False)
    rate = Rate(3e-3, warmup=max(1, recipe.steps // 10), fall="cosine", interval="step")
    task = TranslationTask(data.vocabulary, KINDS[name], rate=rate)
    train_run(task, data, recipe.steps, out / name, tell)


def measure(task: TranslationTask, data: TinyPairsData, out: Path) -> dict[str, float]:
    """Return what a test on the embedded pair finds, by name; its files go to a folder."""
    task.search = SearchConfig(max_length=40)
    trainer = make_trainer(1, [], out)
    with redirect_stdout(StringIO()):  # the table says the same
        found: Any = trainer.test(task, datamodule=data, verbose=False)
    return {name: found[0][f"test_{name}"] for name in MEASURES}
