"""Training and evaluation of a network that tells the class of a text."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_number
from omegamax.data import DataError, Vocabulary
from omegamax.data.text import NO_LABEL
from omegamax.models.attention_kind import say_kind
from omegamax.models.mcan import AnswerLoss
from omegamax.models.text import (
    EntailmentAnswer,
    EntailmentClassifier,
    RationaleClassifier,
    TextAnswer,
    TextClassifier,
    TextConfig,
)
from omegamax.tasks.answers import tell_best
from omegamax.tasks.embedding import load_embedding
from omegamax.tasks.rate import Rate
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.text.data import TextData
from omegamax.tasks.text.scores import TextScores
from omegamax.tasks.weights_file import check_limits, reading_record

Batch = dict[str, Any]
PREFIXES = ("val_", "test_")
# What a file may ask for that none of its weights shows.
_LIMITS = {"functions": 1 << 16, "max_components": 1000, "filters": 1 << 20, "k": 1_000_000}


class TextTask(RunTask):
    """A :class:`~omegamax.models.text.TextClassifier`, its loss, its optimiser, and what is measured of its answers.

    Logged are ``train_loss``; ``val_loss``, ``val_accuracy``, ``val_zero`` (the share of words with exactly no
    attention) and, where words are marked, the share ``val_inside`` of the attention on those that at least half of the
    people marked; in a test, the same with ``test_``. All are means over the texts of all processes. With
    ``network.alignment`` set, for pairs of sentences, the network is an
    :class:`~omegamax.models.text.EntailmentClassifier`, and ``val_zero`` the share of pairs of words that are not
    aligned at all. With ``network.rationale`` it is a :class:`~omegamax.models.text.RationaleClassifier`, whose
    attention is that of the generator: ``val_zero`` is the share of words not chosen, and ``val_token_f1`` is the F1
    score of those chosen against those marked.

    Args:
        vocabulary: numbers of words and classes; on the command line, that of the data.
        network: sizes, small ones by default, and the attention over the words; its ``words`` and ``classes`` are set
            from the vocabulary.
        loss: ``"softmax"`` (cross-entropy), ``"sparsemax"``, ``"entmax15"``, ``"entmax"`` or ``"normmax"``.
        loss_options: parameters of its map, such as ``{"alpha": 1.25}``.
        rate: learning rate over time; that of the paper by default.
        weight_decay: of the optimiser, Adam; added to the gradient, as the paper does.
        word_vectors: file of GloVe or word2vec that the embedding of the words starts from, see
            :func:`~omegamax.data.read_word_vectors`, or ``"wordllama"``; its vectors must have ``network.word_dim``
            numbers.
        freeze_words: leave the embedding as it is, as the paper does with GloVe.

    Example:
        >>> task = TextTask(Vocabulary(["good", "bad"], ["negative", "positive"]))
        >>> task({"words": torch.tensor([[2, 1], [3, 0]])}).logits.shape
        torch.Size([2, 2])

    Reference: Martins et al. (NeurIPS 2020), Table 3, for the optimiser's settings.
    """

    kind = "text"
    data_type = TextData
    model: TextClassifier | EntailmentClassifier
    network: dict[str, Any]

    def __init__(
        self,
        vocabulary: Vocabulary,
        network: TextConfig = TextConfig.small(),  # noqa: B008, frozen
        loss: str = "softmax",
        loss_options: dict[str, Any] | None = None,
        rate: Rate = Rate(1e-3, warmup=0, fall="constant"),  # noqa: B008, frozen
        weight_decay: float = 1e-4,
        word_vectors: str | None = None,
        freeze_words: bool = False,
    ) -> None:
        super().__init__()
        check_number("TextTask", "weight_decay", weight_decay, least=0)
        self.vocabulary = vocabulary
        self.config = network.replace(words=vocabulary.num_words, classes=vocabulary.num_answers)
        options = dict(loss_options or {})
        self.network = {"vocabulary": vocabulary, "network": self.config, "loss": loss, "loss_options": options}
        build: type[TextClassifier | EntailmentClassifier] = TextClassifier
        if network.alignment is not None:
            build = EntailmentClassifier
        elif network.rationale is not None:
            build = RationaleClassifier
        self.model = build(self.config, load_embedding(word_vectors, vocabulary, network.word_dim))
        self.model.embedding.requires_grad_(not freeze_words)
        self.loss = AnswerLoss(loss, **options)
        self.rate, self.weight_decay = rate, weight_decay

    @property
    def label(self) -> str:
        """Return the name of the attention, or the alignment, in words.

        >>> from omegamax.models.text import WordsConfig
        >>> kind = WordsConfig("continuous_sparsemax", combined=True)
        >>> TextTask(Vocabulary(["a"], ["0", "1"]), TextConfig.small(attention=kind)).label
        'softmax + continuous sparsemax'
        """
        attention, rationale = self.config.attention, self.config.rationale
        kind = attention.kind if rationale is None else f"rationale by {rationale.selector}"
        name = say_kind(kind)
        name = f"{attention.discrete} + {name}" if attention.combined else name
        name = name if self.config.alignment is None else f"{self.config.alignment} alignment"
        return f"{name}, {self.config.encoder}" if self.config.encoder != "bilstm" else name

    @property
    def classifier(self) -> TextClassifier:
        """Return the network if it reads single texts; refuse one that aligns two."""
        if not isinstance(self.model, TextClassifier):
            raise ValueError(f"{self.label}: the network must read single texts, got one that aligns two sentences")
        return self.model

    def describe(self) -> dict[str, Any]:
        words = {"words": list(self.vocabulary.words), "answers": list(self.vocabulary.answers)}
        plain = {**self.network, "vocabulary": words, "network": self.config.to_dict()}
        return {**super().describe(), "network": plain}

    @classmethod
    def check_network(cls, record: Any, path: Any) -> dict[str, Any]:
        given = super().check_network(record, path)
        with reading_record(path, cls.kind):
            vocabulary = Vocabulary(given["vocabulary"]["words"], given["vocabulary"]["answers"])
            config = TextConfig.from_dict(given["network"])
            rest = {"loss": given["loss"], "loss_options": dict(given["loss_options"])}
        check_limits(path, config.attention, _LIMITS, cls.kind)
        check_limits(path, config, {"layers": 1000}, cls.kind)
        return {"vocabulary": vocabulary, "network": config, **rest}

    def forward(self, batch: Batch) -> TextAnswer | EntailmentAnswer:
        return self.model(batch)

    def setup(self, stage: str) -> None:
        # Only a trainer measures: a network that is asked has none of these. The trainer moves them to its device.
        self.scores = torch.nn.ModuleDict({name: TextScores(len(self.vocabulary.answers)) for name in PREFIXES})
        super().setup(stage)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.training_loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["label"]), sync_dist=True)
        return loss

    def training_loss(self, batch: Batch) -> Tensor:
        """Return what training makes small: the loss, and the penalty of a network that has one."""
        answer = self(batch)
        loss = self.label_loss(answer.logits, batch)
        return loss if not isinstance(answer, TextAnswer) or answer.penalty is None else loss + answer.penalty

    def validation_step(self, batch: Batch, index: int) -> None:
        self._score("val_", batch)

    def test_step(self, batch: Batch, index: int) -> None:
        self._score("test_", batch)

    def on_validation_epoch_end(self) -> None:
        self.report_scores("val_", self._scores("val_"), "accuracy")

    def on_test_epoch_end(self) -> None:
        self.report_scores("test_", self._scores("test_"), "accuracy")

    def predict_step(self, batch: Batch, index: int) -> list[dict[str, Any]]:
        """Return ``id``, ``answer`` and ``probability`` of each text."""
        p = self.loss.probabilities(self(batch).logits)
        return tell_best(p, self.vocabulary.answers, batch["id"])

    def configure_optimizers(self) -> Any:
        learnt = [p for p in self.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(learnt, self.rate.peak, weight_decay=self.weight_decay)
        return self.rate.schedule(optimiser, self.trainer)

    def label_loss(self, logits: Tensor, batch: Batch) -> Tensor:
        """Return the loss of ``logits [B, C]`` against the classes of a batch; refuse texts without a class."""
        label = batch["label"]
        if label.device.type == "cpu" and bool((label == NO_LABEL).any()):
            raise DataError("there are texts without a class, which can be predicted and not measured on")
        return self.loss(logits, F.one_hot(label, logits.shape[-1]).to(logits.dtype))

    def _score(self, prefix: str, batch: Batch) -> None:
        answer = self(batch)
        self._scores(prefix).update(answer, self.label_loss(answer.logits, batch), batch)

    def _scores(self, prefix: str) -> TextScores:
        scores = self.scores[prefix]
        assert isinstance(scores, TextScores)
        return scores
