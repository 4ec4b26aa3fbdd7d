"""Training and evaluation of a language model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax.data.subwords import Subwords
from omegamax.generation import Truncation
from omegamax.models.language import LanguageConfig, make_language_model
from omegamax.models.language.network import LanguageModel
from omegamax.tasks.language.data import LanguageData
from omegamax.tasks.language.scores import LanguageScores, known_epsilon
from omegamax.tasks.rate import Rate
from omegamax.tasks.sequence_task import SequenceTask

Batch = dict[str, Any]


class LanguageTask(SequenceTask):
    """A :class:`~omegamax.models.language.LanguageModel`, its loss, its optimiser, and what is measured of it.

    Logged are ``train_loss``; ``val_loss``, ``val_sparsemax_score`` and the other measures of
    :class:`~omegamax.tasks.language.scores.LanguageScores`; in a test, the same with ``test_``. Validation finds the
    epsilon with which its perplexity is the least; a test uses it, and finds one of its own only where there is none.

    Args:
        vocabulary: tokens; on the command line, those of the data.
        network: sizes, attention and output; its ``vocabulary`` is set from the tokens.
        rate: learning rate over time.
        weight_decay: of the optimiser, AdamW.
        betas: of the optimiser.
        average: decay of a running mean of the weights, from one step to the next, that stands in for them in
            validation, test and files; 0: the weights themselves.
        truncation: what predictions lose before they are measured, top-k and its kin.

    Example:
        >>> from omegamax.data.language import EmbeddedReviews
        >>> task = LanguageTask(Subwords.learn(EmbeddedReviews(20), kind="words"), LanguageConfig.tiny())
        >>> task.label
        'softmax attention, softmax output'
    """

    kind = "lm"
    data_type = LanguageData
    vocabulary_type, config_type = Subwords, LanguageConfig
    limits: ClassVar[Mapping[str, int]] = {"layers": 1000, "heads": 1 << 16}
    vocabulary: Subwords
    config: LanguageConfig
    model: LanguageModel
    network: dict[str, Any]

    def __init__(
        self,
        vocabulary: Subwords,
        network: LanguageConfig = LanguageConfig(),  # noqa: B008, frozen
        rate: Rate = Rate(1e-3, warmup=500, fall="cosine", interval="step"),  # noqa: B008, frozen
        weight_decay: float = 0.01,
        betas: tuple[float, float] = (0.9, 0.98),
        average: float = 0.0,
        truncation: Truncation = Truncation(),  # noqa: B008, frozen
    ) -> None:
        super().__init__(rate, weight_decay, betas, average)
        self.vocabulary = vocabulary
        self.config = network.replace(vocabulary=len(vocabulary))
        self.network = {"vocabulary": vocabulary, "network": self.config}
        self.model = make_language_model(self.config)
        self.truncation = truncation

    @property
    def label(self) -> str:
        """Return attention, memory and output in words, and what is cut."""
        cut = self.truncation.label
        return self.config.label + (f", {cut}" if cut else "")

    def forward(self, batch: Batch) -> Tensor:
        return self.model(batch["tokens"][:, :-1])

    def training_loss(self, batch: Batch) -> Tensor:
        """Return the loss of a batch."""
        return self.model.loss(batch["tokens"])

    def setup(self, stage: str) -> None:
        # Only a trainer measures: a network that is asked has none of these. The trainer moves them to its device.
        test = LanguageScores(known_epsilon(self.model), self.truncation)
        self.scores = torch.nn.ModuleDict({"val_": LanguageScores(None, self.truncation), "test_": test})
        super().setup(stage)

    def on_test_start(self) -> None:
        # The checkpoint that is tested is restored after the set-up.
        self.scores["test_"] = LanguageScores(known_epsilon(self.model), self.truncation).to(self.device)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.training_loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["tokens"]), sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self._scores("val_").update(self.model, batch["tokens"])

    def test_step(self, batch: Batch, index: int) -> None:
        self._scores("test_").update(self.model, batch["tokens"])

    def on_validation_epoch_end(self) -> None:
        self.model.epsilon.fill_(self._scores("val_").find_epsilon())
        self.report_scores("val_", self._scores("val_"), "sparsemax_score")

    def on_test_epoch_end(self) -> None:
        self.report_scores("test_", self._scores("test_"), "sparsemax_score")

    def _scores(self, prefix: str) -> LanguageScores:
        scores = self.scores[prefix]
        assert isinstance(scores, LanguageScores)
        return scores
