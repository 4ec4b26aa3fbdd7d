"""Training and evaluation of a network that answers questions about pictures."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from os import PathLike
from typing import Any

import torch
from torch import Tensor
from torchmetrics import MeanMetric

from omegamax.data import DataError, Vocabulary
from omegamax.models.attention_kind import say_kind
from omegamax.models.grid_cnn import GridCNN
from omegamax.models.mcan import MCAN, Answer, AnswerLoss, MCANConfig, OutputAttention, OutputConfig
from omegamax.tasks.answers import tell_best
from omegamax.tasks.embedding import load_embedding
from omegamax.tasks.picture_input import check_grid, refuse_without_features, settle_cnn
from omegamax.tasks.rate import Rate
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.vqa.checkpoint import KIND, Record, check_same, check_start, read_checkpoint
from omegamax.tasks.vqa.data import VQAData
from omegamax.tasks.vqa.scores import Scores

Batch = dict[str, Any]
BLIND = "language only"  # what a network is called that sees no picture


class VQATask(RunTask):
    """An :class:`~omegamax.models.mcan.MCAN`, its loss, its optimiser, and what is measured of its answers and maps.

    Logged are the ``loss`` of a batch and, at each validation, ``train_loss``, its mean since the last one,
    ``val_loss`` and, with ``val_`` before their names, all that :class:`~omegamax.tasks.vqa.Scores` measures; in a
    test, the same with ``test_``. All are means over the samples of all processes.

    Args:
        vocabulary: numbers of words and answers; on the command line, that of the data.
        network: sizes, small ones by default, and the attention over the image; its ``words`` and ``answers`` are set
            from the vocabulary.
        loss: ``"bce"``, ``"softmax"``, ``"sparsemax"``, ``"entmax15"``, ``"entmax"`` or ``"normmax"``.
        loss_options: parameters of its map, such as ``{"alpha": 1.25}``.
        rate: learning rate over time.
        betas: of the optimiser, Adam.
        weight_decay: of the optimiser, decoupled from the rate.
        cnn: file of a :class:`~omegamax.models.GridCNN` to start from, as ``omegamax vqa pretrain`` writes it.
        freeze_cnn: leave the CNN as it is; data kept in memory then holds its features, which are made once.
        blind: hide the image, all of it: what the words alone are good for.
        start: file of a trained network to start from, whatever its attention: none has parameters of its own.
        match: if the start has another attention, scale the scores once, on the first batch of training, so that the
            weights are as sharp as they were: see :func:`omegamax.match_sharpness`. No parameter is added.
        word_vectors: file of GloVe or word2vec that the embedding of the words starts from, see
            :func:`~omegamax.data.read_word_vectors`, or ``"wordllama"``; its vectors must have ``network.word_dim``
            numbers.
        freeze_words: leave the embedding of the words as it is.

    Example:
        >>> task = VQATask(Vocabulary(["red"], ["yes", "no"]), MCANConfig.small())
        >>> task.network.answers, task.parameters_learnt
        (2, 333028)

    Reference: the optimiser's settings are those of Yu et al. (CVPR 2019), Sec. 4.2.
    """

    kind = KIND
    data_type = VQAData
    model: MCAN
    network: MCANConfig

    def __init__(
        self,
        vocabulary: Vocabulary,
        network: MCANConfig = MCANConfig.small(),  # noqa: B008, frozen
        loss: str = "bce",
        loss_options: dict[str, Any] | None = None,
        rate: Rate = Rate(),  # noqa: B008, frozen
        betas: tuple[float, float] = (0.9, 0.98),
        weight_decay: float = 0.0,
        cnn: str | None = None,
        freeze_cnn: bool = False,
        blind: bool = False,
        start: str | None = None,
        match: bool = True,
        word_vectors: str | None = None,
        freeze_words: bool = False,
    ) -> None:
        super().__init__()
        if len(betas) != 2 or not all(0 <= beta < 1 for beta in betas) or not weight_decay >= 0:
            given = f"{tuple(betas)} and {weight_decay}"
            raise ValueError(f"VQATask: betas must be two numbers in [0, 1), and weight_decay >= 0, got {given}")
        self.vocabulary = vocabulary
        self.network = network.replace(words=vocabulary.num_words, answers=vocabulary.num_answers)
        if word_vectors is not None and start is not None:
            raise ValueError("VQATask: give word_vectors or start, which has an embedding of its own, and not both")
        self.model = MCAN(self.network, load_embedding(word_vectors, vocabulary, network.word_dim))
        self.model.question.embedding.requires_grad_(not freeze_words)
        self.loss_name, self.loss_options = loss, dict(loss_options or {})
        self.loss = AnswerLoss(loss, **self.loss_options)
        self.rate, self.betas, self.weight_decay = rate, (betas[0], betas[1]), weight_decay
        self.freeze_cnn, self.blind = freeze_cnn, blind
        settle_cnn("VQATask", self.model.cnn, cnn, freeze_cnn)
        if blind and self.model.cnn is not None:
            self.model.cnn.requires_grad_(False)
        self.matches = match
        self._source: tuple[OutputAttention, ...] = ()  # no part of the network, and so in a tuple
        if start is not None:
            record, weights = read_checkpoint(start)
            check_start(self.model, vocabulary, start, record, weights)
            self.take(weights, record.network.output)
        # Random weights that would never be trained, unless others take their place before training.
        random = freeze_cnn and not blind and cnn is None and start is None and self.model.cnn is not None
        self._random = _fingerprint(self.model.cnn) if random and self.model.cnn is not None else None

    @classmethod
    def load(cls, path: str | PathLike[str]) -> VQATask:
        """Return the task of a ``.ckpt`` or ``.safetensors`` file, in evaluation mode."""
        record, weights = read_checkpoint(path)
        try:
            task = cls(record.vocabulary, record.network, record.loss, record.loss_options, blind=record.blind)
            task.model.load_state_dict(weights)
        except (RuntimeError, TypeError, ValueError) as error:
            raise DataError(f"{path} has weights that do not fit its own settings ({error}); get it again") from error
        task.data_settings = record.data
        return task.eval()

    def take(self, weights: Mapping[str, Tensor], output: OutputConfig) -> None:
        """Go on from the weights of a network with attention ``output``, whose sharpness is matched if it is another.

        Parameters that only one of the two has, such as a learnt alpha, are left as they are.
        """
        own = self.model.state_dict()
        self.model.load_state_dict({name: value for name, value in weights.items() if name in own}, strict=False)
        self._source = ()
        weighs = output.source == self.network.output.source == "weights"  # else there are no scores to scale
        if self.matches and weighs and not self.blind and output != self.network.output:
            source = OutputAttention(self.network.hidden_dim, self.network.flat_dim, output)
            prefix = "output."
            theirs = {name.removeprefix(prefix): value for name, value in weights.items() if name.startswith(prefix)}
            source.load_state_dict(theirs)
            self._source = (source.eval(),)

    @property
    def label(self) -> str:
        """Return the name of the attention, in words; of a network that sees no picture, :data:`BLIND`.

        Mixtures of K components are K-MCA, and those that were trained with one are test-MCA, as in the thesis.

        >>> VQATask(Vocabulary(["red"], ["yes"]), MCANConfig.small()).label
        'softmax'
        """
        output = self.network.output
        name = say_kind(output.kind)
        if output.kind == "multimodal" and output.components in ("fixed", "test"):
            name = "test-MCA" if output.components == "test" else f"{output.max_components}-MCA"
        more = [", combined"] * output.combined + [", density features"] * output.density_features
        return BLIND if self.blind else name + "".join(more)

    @property
    def record(self) -> Record:
        """Return the record that a file of the task has beside its weights."""
        return Record(self.network, self.vocabulary, self.loss_name, self.loss_options, self.blind, self.data_settings)

    @property
    def parameters_learnt(self) -> int:
        """Count the numbers that training changes."""
        return sum(p.numel() for p in self.parameters() if p.requires_grad)

    def forward(self, batch: Batch) -> Answer:
        return self.model(self._hide_image(batch) if self.blind else batch)

    def _hide_image(self, batch: Batch) -> Batch:
        """Return the question alone, with one empty cell in place of the image."""
        question = batch["question"]
        dtype = next(self.parameters()).dtype
        empty = torch.zeros(len(question), 1, self.network.image_dim, dtype=dtype, device=question.device)
        return {"question": question, "features": empty, "grid": (1, 1)}

    def setup(self, stage: str) -> None:
        # Only a trainer measures: a network that is asked has none of these. The trainer moves them to its device.
        self.scores = torch.nn.ModuleDict({"val_": Scores(), "test_": Scores()})
        self.losses = torch.nn.ModuleDict({name: MeanMetric() for name in ("train_", "val_", "test_")})
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        if data is None or self.blind:
            return
        if self.network.pixels:
            check_grid("VQATask", data, self.network.grid)
        elif getattr(data, "features", "elsewhere") is None:
            refuse_without_features("VQATask", data)
        if self.freeze_cnn and self.model.cnn is not None:
            data.featurise(self.model.cnn)

    def on_fit_start(self) -> None:
        if self._random is not None and torch.equal(self._random, _fingerprint(self.model.cnn)):
            warnings.warn(
                "VQATask: freeze_cnn leaves a CNN of random weights as it is, and little of a picture can be seen "
                "through it; give cnn, a file that `omegamax vqa pretrain` writes, or start",
                RuntimeWarning,
                stacklevel=1,  # of this package, which a command shows without its place
            )

    def on_train_batch_start(self, batch: Batch, index: int) -> None:
        if self._source:
            try:
                scale = self.model.match(batch, self._source[0].to(self.device))
            except ValueError as error:
                raise ValueError(f"{error}; give match=False to leave the scores as they are") from error
            # All processes look alike, whatever their first batch is.
            self.model.output.score_scale.fill_(self.trainer.strategy.broadcast(scale))
            self._source = ()

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.loss(self(batch).logits, batch["answers"])
        self.log("loss", loss, prog_bar=True, batch_size=len(batch["answers"]), sync_dist=True)
        self._loss("train_").update(loss.detach(), len(batch["answers"]))
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self._score("val_", batch)

    def test_step(self, batch: Batch, index: int) -> None:
        self._score("test_", batch)

    def predict_step(self, batch: Batch, index: int) -> list[dict[str, Any]]:
        p = self.loss.probabilities(self(batch).logits)
        return tell_best(p, self.vocabulary.answers, batch["id"])

    def on_validation_epoch_end(self) -> None:
        if self.trainer.state.fn == "fit" and not self.trainer.sanity_checking:
            self._mean_loss("train_")
        self._report("val_")

    def on_test_epoch_end(self) -> None:
        self._report("test_")

    def _score(self, prefix: str, batch: Batch) -> None:
        answer = self(batch)
        loss = self.loss(answer.logits, batch["answers"])
        self._loss(prefix).update(loss, len(batch["answers"]))
        self._scores(prefix).update(answer, batch, maps=not self.blind)

    def _report(self, prefix: str) -> None:
        self._mean_loss(prefix)
        self.report_scores(prefix, self._scores(prefix), "accuracy")

    def _mean_loss(self, prefix: str) -> None:
        mean = self._loss(prefix)
        self.log(f"{prefix}loss", float(mean.compute()), sync_dist=True)
        mean.reset()

    def _loss(self, prefix: str) -> MeanMetric:
        mean = self.losses[prefix]
        assert isinstance(mean, MeanMetric)
        return mean

    def _scores(self, prefix: str) -> Scores:
        scores = self.scores[prefix]
        assert isinstance(scores, Scores)
        return scores

    def configure_optimizers(self) -> Any:
        learnt = [p for p in self.parameters() if p.requires_grad]
        optimiser = torch.optim.AdamW(learnt, self.rate.peak, self.betas, weight_decay=self.weight_decay)
        return self.rate.schedule(optimiser, self.trainer)

    def describe(self) -> dict[str, Any]:
        return self.record.to_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        check_same(checkpoint.get(self.kind), self.record)
        self._source = ()  # the weights of the checkpoint have their scale


def _fingerprint(cnn: GridCNN | None) -> Tensor:
    """Return a copy of a few of its weights."""
    assert cnn is not None
    return cnn.project.weight.detach().cpu().clone()
