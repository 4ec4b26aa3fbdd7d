"""Training and evaluation of a network that writes captions."""

from __future__ import annotations

import time
from typing import Any, NamedTuple

import torch
from lightning.pytorch.utilities import rank_zero_info
from torch import Tensor

from omegamax._arguments import check_integer, check_interval, check_number, is_integer, is_number
from omegamax.data import DataError
from omegamax.data.captions import CaptionVocabulary
from omegamax.data.captions.vocabulary import START
from omegamax.data.files import short
from omegamax.data.vocabulary import PADDING
from omegamax.metrics import missing_scores
from omegamax.models.attention_kind import say_kind
from omegamax.models.captioning import CaptionConfig, Captioner
from omegamax.tasks.captioning.data import CaptionData
from omegamax.tasks.captioning.measures import CaptionMeasures, gather_reasons
from omegamax.tasks.picture_input import check_grid, refuse_without_features, settle_cnn
from omegamax.tasks.rate import Rate
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.weights_file import reading_record, remedy

Batch = dict[str, Any]
# What a file may ask for that none of its weights shows.
_LIMITS = {"functions": 256, "max_components": 1000, "restarts": 1000, "k": 1_000_000}
_WRITING = {"beam": (1, 10_000), "max_length": (1, 10_000), "length_penalty": (0, 100)}
PAPER_RATE = Rate(1e-4, warmup=0, fall="steps", milestones=tuple(range(10, 50)), factor=0.99)


class Written(NamedTuple):
    """A caption that a network wrote by itself.

    Attributes:
        tokens: its T words.
        log_probability: with its end.
        maps: attention of each word, ``[T, h, w]``.
        exact: whether no caption is likelier, as far as the search can prove it.
    """

    tokens: tuple[str, ...]
    log_probability: float
    maps: Tensor
    exact: bool


class CaptionTask(RunTask):
    """A :class:`~omegamax.models.captioning.Captioner`, its loss, its optimiser, and what is measured of its captions.

    Logged are ``train_loss`` and, of the validation part with ``val_`` and of the test part with ``test_``, the
    measures of :class:`~omegamax.tasks.captioning.measures.CaptionMeasures`. Captions of the validation part are
    written word by word with the likeliest one, those of the test part by beam search.

    Args:
        vocabulary: numbers of words; on the command line, that of the data.
        network: sizes, small ones by default, and the attention over the picture; its ``words`` is set from the
            vocabulary.
        rate: learning rate over time; by default that of the paper, constant for ten epochs and then multiplied by 0.99
            in each.
        betas: of Adam, as in the paper.
        weight_decay: of Adam.
        beam: captions that go on at each word, in a test and in predictions.
        max_length: words after which a caption is cut.
        length_penalty: of beam search, see :func:`~omegamax.generation.beam_search`.
        cnn: file with a :class:`~omegamax.models.GridCNN` to start from, as ``omegamax vqa pretrain`` writes it.
        freeze_cnn: leave it as it is; kept pictures then become features once.

    Example:
        >>> task = CaptionTask(CaptionVocabulary(["a", "dog"]), CaptionConfig.small(grid=(4, 4))).eval()
        >>> (caption,) = task.write({"image": torch.rand(1, 3, 32, 32)}, beam=2)
        >>> caption.maps.shape == (len(caption.tokens), 4, 4)
        True

    Reference: Martins et al. (ICIP 2021), Sec. 4, for the optimiser's settings.
    """

    kind = "caption"
    data_type = CaptionData
    model: Captioner
    network: dict[str, Any]

    def __init__(
        self,
        vocabulary: CaptionVocabulary,
        network: CaptionConfig = CaptionConfig.small(),  # noqa: B008, frozen
        rate: Rate = PAPER_RATE,
        betas: tuple[float, float] = (0.8, 0.999),
        weight_decay: float = 0.0,
        beam: int = 5,
        max_length: int = 20,
        length_penalty: float = 0.0,
        cnn: str | None = None,
        freeze_cnn: bool = False,
    ) -> None:
        super().__init__()
        name = "CaptionTask"
        check_number(name, "weight_decay", weight_decay, least=0)
        check_number(name, "length_penalty", length_penalty, least=0)
        for beta in betas:
            check_interval(name, "betas", beta, "[0, 1)")
        check_integer(name, "beam", beam, least=1)
        check_integer(name, "max_length", max_length, least=1)
        self.vocabulary = vocabulary
        self.config = network.replace(words=vocabulary.size)
        self.network = {"vocabulary": vocabulary, "network": self.config}
        self.model = Captioner(self.config)
        self.rate, self.betas, self.weight_decay = rate, (betas[0], betas[1]), weight_decay
        self.beam, self.max_length, self.length_penalty = beam, max_length, length_penalty
        self.freeze_cnn = freeze_cnn
        settle_cnn(name, self.model.encoder.cnn, cnn, freeze_cnn)

    @property
    def label(self) -> str:
        """Return the name of the attention in words.

        >>> from omegamax.models.mcan import OutputConfig
        >>> kind = OutputConfig("continuous_sparsemax", combined=True)
        >>> network = CaptionConfig.small(attention=kind, decoder="transformer", output="sparsemax")
        >>> CaptionTask(CaptionVocabulary(["a"]), network).label
        'softmax + continuous sparsemax, transformer, sparsemax words'
        """
        config, look = self.config, self.config.attention
        name = say_kind(look.kind)
        name = f"{look.discrete} + {name}" if look.combined else name
        parts = [name, *([config.decoder] if config.decoder != "lstm" else [])]
        return ", ".join([*parts, *([f"{config.output} words"] if config.output != "softmax" else [])])

    def describe(self) -> dict[str, Any]:
        plain = {"vocabulary": list(self.vocabulary.words), "network": self.config.to_dict()}
        # Beside the network, which is the same however it writes.
        writing = {"beam": self.beam, "max_length": self.max_length, "length_penalty": self.length_penalty}
        return {**super().describe(), "network": plain, "writing": writing}

    @classmethod
    def check_network(cls, record: Any, path: Any) -> dict[str, Any]:
        given = super().check_network(record, path)
        with reading_record(path, cls.kind):
            vocabulary = CaptionVocabulary(given["vocabulary"])
            config = CaptionConfig.from_dict(given["network"])
        sizes = {"layers": (config.layers, 1000), "grid": (max(config.grid), 1024)}
        for look in (config.attention, config.input_attention):
            iterations = max(look.iterations)
            limits = {key: (getattr(look, key), most) for key, most in _LIMITS.items()}
            for key, (value, most) in {**sizes, **limits, "iterations": (iterations, 100_000)}.items():
                whole = is_integer(value) or (key == "k" and isinstance(value, float))
                if not whole or value > most:
                    raise DataError(f"{path}: {key} must be at most {most:,}, got {short(value)}; {remedy(cls.kind)}")
        return {"vocabulary": vocabulary, "network": config, **_check_writing(record.get("writing", {}), path)}

    def forward(self, batch: Batch) -> Any:
        return self.model(batch)

    def setup(self, stage: str) -> None:
        # Only a trainer measures: a network that is asked has none of these. The trainer moves them to its device.
        self.measures = torch.nn.ModuleDict({"val_": CaptionMeasures(), "test_": CaptionMeasures(full=True)})
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        if data is None:
            return
        if data.settings.get("features") is None:
            if not self.config.pixels:
                refuse_without_features("CaptionTask", data)
            check_grid("CaptionTask", data, self.config.grid)
        if self.freeze_cnn and self.model.encoder.cnn is not None:
            data.featurise(self.model.encoder.cnn)

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.model.loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["caption"]), sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self._measure("val_", batch, beam=1)

    def test_step(self, batch: Batch, index: int) -> None:
        self._measure("test_", batch, beam=self.beam)

    def on_test_start(self) -> None:
        for names, reason in gather_reasons(missing_scores()).items():
            rank_zero_info(f"no {names}: {reason}")

    def on_validation_epoch_end(self) -> None:
        self.report_scores("val_", self._measures("val_"), "bleu4")

    def on_test_epoch_end(self) -> None:
        self.report_scores("test_", self._measures("test_"), "bleu4")

    def predict_step(self, batch: Batch, index: int) -> list[dict[str, Any]]:
        """Return ``id``, ``tokens``, ``log_probability``, ``references`` and ``maps`` of each picture."""
        found = zip(batch["id"], self.write(batch), batch["references"], strict=True)
        return [
            {
                "id": name,
                "tokens": list(written.tokens),
                "log_probability": written.log_probability,
                "references": references,
                "maps": written.maps,
            }
            for name, written, references in found
        ]

    def configure_optimizers(self) -> Any:
        learnt = [p for p in self.parameters() if p.requires_grad]
        optimiser = torch.optim.Adam(learnt, self.rate.peak, betas=self.betas, weight_decay=self.weight_decay)
        return self.rate.schedule(optimiser, self.trainer)

    @torch.no_grad()
    def write(self, batch: Batch, beam: int | None = None) -> list[Written]:
        """Write a caption of each picture of a batch, and tell where the network looked for each word."""
        found = self.model.write(
            batch, beam=beam or self.beam, max_length=self.max_length + 1, length_penalty=self.length_penalty
        )
        tokens = found.tokens[:, 0]
        start = torch.full_like(tokens[:, :1], START)
        caption = torch.cat([start, tokens.masked_fill(tokens == PADDING, START)], 1)  # padding is written by nobody
        maps = self.model({**batch, "caption": caption}).maps().float().cpu()
        written = []
        for row, numbers in enumerate(tokens.tolist()):
            words = tuple(self.vocabulary.decode(numbers))[: self.max_length]
            log_probability = min(float(found.log_probs[row, 0]), 0.0)
            written.append(Written(words, log_probability, maps[row, : len(words)], bool(found.exact[row])))
        return written

    def _measure(self, prefix: str, batch: Batch, beam: int) -> None:
        measures = self._measures(prefix)
        start = time.perf_counter()
        written = self.write(batch, beam)
        if prefix == "test_":  # elsewhere a run that was stopped and goes on would differ from one that was not
            measures.rate.update(sum(len(each.tokens) + 1 for each in written), time.perf_counter() - start)
        measures.add_captions([each.tokens for each in written], batch["references"], batch["objects"])
        measures.add_maps([each.maps.to(self.device) for each in written])
        measures.exact.update(torch.tensor([float(each.exact) for each in written], device=self.device))
        writing = self.model(batch)
        measures.loss.update(self.model.loss(batch, writing), int((batch["caption"][:, 1:] != PADDING).sum()))
        if "regions" in batch:
            measures.add_regions(writing.maps(), batch["regions"])

    def _measures(self, prefix: str) -> CaptionMeasures:
        measures = self.measures[prefix]
        assert isinstance(measures, CaptionMeasures)
        return measures


def _check_writing(record: Any, path: Any) -> dict[str, Any]:
    """Return how captions are written from the record of a file, which may say nothing of it."""
    if not isinstance(record, dict) or set(record) - set(_WRITING):
        raise DataError(f"{path} has a record of writing that cannot be read ({short(record)}); {remedy('caption')}")
    for key, value in record.items():
        least, most = _WRITING[key]
        right = is_number(value) if key == "length_penalty" else is_integer(value)
        if not right or not least <= value <= most:
            raise DataError(f"{path}: {key} must be from {least} to {most:,}, got {short(value)}; {remedy('caption')}")
    return dict(record)
