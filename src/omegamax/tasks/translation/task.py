"""Training and evaluation of a network that translates."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data.translation import Lexicon, PackedPairs, PairVocabulary
from omegamax.models.translation import RecurrentTranslator, TranslatorConfig, make_translator
from omegamax.models.translation.translator import Translator
from omegamax.tasks.rate import Rate
from omegamax.tasks.sequence_task import SequenceTask
from omegamax.tasks.translation.bleu import BLEUReport
from omegamax.tasks.translation.coverage import WordAligner
from omegamax.tasks.translation.data import TranslationData
from omegamax.tasks.translation.scores import Line, TranslationScores
from omegamax.tasks.translation.search import SearchConfig, translate_rows
from omegamax.tasks.whole import whole_file

Batch = dict[str, Any]
PREFIXES = ("val_", "test_")
_LENGTH = 256  # tokens of a line that are read, where the data does not say


class TranslationTask(SequenceTask):
    """A :class:`~omegamax.models.translation.Translator`, its loss, its optimiser, and what is measured of it.

    Logged are ``train_loss``; ``val_loss``, ``val_bleu`` and the other measures of
    :class:`~omegamax.tasks.translation.scores.TranslationScores`; in a test, the same with ``test_``. Validation looks
    for one translation of each sentence greedily, a test as ``search`` says; a test also writes ``test.hyp``,
    ``test.ref`` and ``test_bleu.json``, with the signature of the score, into the run's folder.

    Args:
        vocabulary: subwords of both languages; on the command line, those of the data.
        network: sizes, small ones by default, attention and output; its ``source``, ``target`` and ``joint`` are set
            from the vocabulary.
        rate: learning rate over time.
        weight_decay: of the optimiser, AdamW.
        betas: of the optimiser.
        average: decay of a running mean of the weights, from one step to the next, that stands in for them in
            validation, test and files; 0: the weights themselves.
        search: how a test looks for translations.
        aligned: training pairs from which a test learns which words belong together, to tell how many source words
            translations leave out (``test_drop``); 0: it does not.
        average_epochs: in place of ``average``, the mean of the weights at the ends of so many last epochs; 0: without.

    Example:
        >>> from omegamax.data.translation import TinyPairs
        >>> task = TranslationTask(PairVocabulary.learn(TinyPairs(20), kind="words"), TranslatorConfig.tiny())
        >>> task.label
        'softmax attention, softmax output'
    """

    kind = "translate"
    data_type = TranslationData
    vocabulary_type, config_type = PairVocabulary, TranslatorConfig
    limits: ClassVar[Mapping[str, int]] = {"layers": 1000, "functions": 1 << 16, "heads": 1 << 16}
    vocabulary: PairVocabulary
    config: TranslatorConfig
    model: Translator
    network: dict[str, Any]

    def __init__(
        self,
        vocabulary: PairVocabulary,
        network: TranslatorConfig = TranslatorConfig(),  # noqa: B008, frozen
        rate: Rate = Rate(1e-3, warmup=2000, fall="inverse_sqrt", interval="step"),  # noqa: B008, frozen
        weight_decay: float = 0.0,
        betas: tuple[float, float] = (0.9, 0.98),
        average: float = 0.0,
        search: SearchConfig = SearchConfig(),  # noqa: B008, frozen
        aligned: int = 50_000,
        average_epochs: int = 0,
    ) -> None:
        super().__init__(rate, weight_decay, betas, average, average_epochs)
        self.vocabulary = vocabulary
        sizes = {"source": len(vocabulary.source), "target": len(vocabulary.target), "joint": vocabulary.joint}
        self.config = network.replace(**sizes)
        self.network = {"vocabulary": vocabulary, "network": self.config}
        self.model = make_translator(self.config)
        self.search = search
        self.aligned = check_integer("TranslationTask", "aligned", aligned, least=0)

    @property
    def label(self) -> str:
        """Return attention and output in words."""
        config = self.config
        attention = config.attention if not config.learn_alpha else "learnt entmax"
        if config.density is not None:
            attention = f"{attention} + {config.density}"
        kind = "" if config.architecture == "transformer" else f", {config.architecture}"
        return f"{attention} attention, {config.output.label} output{kind}".replace("_", " ")

    @property
    def length(self) -> int:
        """Return how many tokens of a line are read."""
        return int(self.data_settings.get("length", _LENGTH))

    def forward(self, batch: Batch) -> Tensor:
        return self.model(batch)

    def setup(self, stage: str) -> None:
        # Only a trainer measures: a network that is asked has none of these. The trainer moves them to its device.
        self.scores = torch.nn.ModuleDict({name: TranslationScores(self.vocabulary.form) for name in PREFIXES})
        super().setup(stage)
        data = getattr(self.trainer, "datamodule", None)
        if stage == "test" and data is not None and self.aligned:
            self._scores("test_").aligner = WordAligner(data.read("train"), self.vocabulary.form, self.aligned)
        if stage == "fit" and data is not None and self.config.fertility is not None:
            if self.config.fertility.kind == "table":
                self._fill_table(data.split("train"))

    def _fill_table(self, pairs: PackedPairs) -> None:
        """Count the fertilities of the source's tokens; a checkpoint that is restored later has the same."""
        assert isinstance(self.model, RecurrentTranslator) and self.model.look.fertility is not None
        lexicon = Lexicon(pairs.rows(), self.config.target)
        fertility = self.model.look.fertility
        found = lexicon.fertilities(pairs.rows(), self.config.source, fertility.config.value)
        fertility.table.copy_(found.clamp(min=1.0))  # a word that was never aligned may be looked at once

    def training_step(self, batch: Batch, index: int) -> Tensor:
        loss = self.model.loss(batch)
        self.log("train_loss", loss, prog_bar=True, batch_size=len(batch["source"]), sync_dist=True)
        return loss

    def validation_step(self, batch: Batch, index: int) -> None:
        self.score(self._scores("val_"), batch, SearchConfig(beam=1, max_length=self.search.max_length))

    def test_step(self, batch: Batch, index: int) -> None:
        self.score(self._scores("test_"), batch, self.search)

    def on_validation_epoch_end(self) -> None:
        self._report("val_")

    def on_test_epoch_end(self) -> None:
        lines = self._scores("test_").gather()
        report = self._report("test_")
        if self.trainer.is_global_zero:
            self._write(lines, report)

    def score(self, scores: TranslationScores, batch: Batch, search: SearchConfig) -> None:
        """Translate a batch, and add what is measured of it to scores."""
        support = self.model.count_support(batch)
        found = translate_rows(self.model, self.vocabulary.decode, batch["source"], search)
        loss = self.model.loss(batch)
        scores.update(batch["id"], loss, support, batch["target"], found, batch["reference"], batch["text"])

    def _report(self, prefix: str) -> BLEUReport:
        scores = self._scores(prefix)
        values, report = scores.compute()
        for name, value in values.items():  # all processes have the same, and each needs to know it
            self.log(prefix + name, value, prog_bar=name == "bleu", sync_dist=True)
        scores.reset()
        return report

    def _write(self, lines: dict[str, Line], report: BLEUReport) -> None:
        """Write translations, references and the score, in the order of the corpus."""
        folder = Path(self.trainer.default_root_dir)
        samples: Any = getattr(getattr(self.trainer.test_dataloaders, "loader", None), "dataset", None)
        order = [pair.id for pair in samples.pairs if pair.id in lines] if samples is not None else list(lines)
        for index, name in enumerate(("test.hyp", "test.ref")):
            with whole_file(folder / name) as place:
                text = "".join(f"{' '.join(lines[id][index].splitlines())}\n" for id in order)
                place.write_text(text, encoding="utf-8")
        with whole_file(folder / "test_bleu.json") as place:
            place.write_text(json.dumps(report.to_dict(), ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
        print(f"{report}\ntranslations and references: {folder / 'test.hyp'}, {folder / 'test.ref'}")

    def _scores(self, prefix: str) -> TranslationScores:
        scores = self.scores[prefix]
        assert isinstance(scores, TranslationScores)
        return scores
