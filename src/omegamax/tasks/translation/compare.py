"""Several networks on the same sentences: the numbers of a table, and sentences to look at."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import torch

from omegamax.data.translation import SentencePair
from omegamax.tasks.progress import progress
from omegamax.tasks.report.contenders import Contender, check_vocabulary, move_batch, time_steps
from omegamax.tasks.translation.bleu import compare_bleu
from omegamax.tasks.translation.coverage import WordAligner
from omegamax.tasks.translation.data import TranslationData
from omegamax.tasks.translation.explain import explain
from omegamax.tasks.translation.report import (
    TranslationComparison,
    TranslationExample,
    TranslationLook,
    TranslationRow,
)
from omegamax.tasks.translation.scores import TranslationScores
from omegamax.tasks.translation.search import SearchConfig
from omegamax.tasks.translation.task import TranslationTask

_LONGEST = 60  # subwords of a sentence that is shown


def compare(
    contenders: Mapping[str, Contender[TranslationTask]],
    data: TranslationData,
    *,
    split: str = "test",
    examples: int = 24,
    rounds: int = 10,
    search: SearchConfig = SearchConfig(),  # noqa: B008, frozen
    aligned: int = 50_000,
    title: str = "Where words come from",
    about: str = "",
    settings: Mapping[str, str] | None = None,
) -> TranslationComparison:
    """Measure networks on a split, and collect where each looks.

    Args:
        contenders: by the name of their row.
        data: with the vocabulary that all were trained with.
        split: ``"val"`` or ``"test"``.
        examples: how many sentences to show, the first ones that are not long.
        rounds: training steps of each network to time, in turns, so that all see the same machine; 0: none.
        search: how translations are looked for.
        aligned: training pairs to learn alignments from, for DROP; 0: none.
        title, about, settings: of the page.
    """
    first = next(iter(_loader(data, split)))
    for name, contender in contenders.items():
        check_vocabulary(name, contender.task, data, "subwords")
    tasks = {name: each.task for name, each in contenders.items()}
    times = time_steps(tasks, first, rounds, lambda task, batch: task.model.loss(batch))
    aligner = WordAligner(data.read("train"), data.form, aligned) if aligned else None
    rows: list[TranslationRow] = []
    lines: list[dict[str, tuple[str, str, str]]] = []
    for name, each in contenders.items():
        row, texts = _measure(name, each, data, split, search, aligner)
        lines.append(texts)
        gain, p_value = (None, None) if not rows else compare_bleu(lines[0], texts, data.form)
        rows.append(replace(row, step_ms=times.get(name), gain=gain, p_value=p_value))
    sizes = ((pair, len(data.vocabulary.encode_source(pair.source))) for pair in data.split(split).pairs)
    shown = list(islice((pair for pair, size in sizes if 1 < size <= _LONGEST), examples))
    looks = [_ask(tasks, pair, search) for pair in progress(shown, "explaining")]
    return TranslationComparison(title, about, rows, looks, dict(settings or {}))


@torch.no_grad()
def _measure(
    name: str,
    contender: Contender[TranslationTask],
    data: TranslationData,
    split: str,
    search: SearchConfig,
    aligner: WordAligner | None,
) -> tuple[TranslationRow, dict[str, tuple[str, str, str]]]:
    """Return the row of a network, and its translations."""
    task = contender.task.eval()
    scores = TranslationScores(data.form, aligner).to(task.device)
    for batch in progress(_loader(data, split), name):
        task.score(scores, move_batch(batch, task.device), search)
    found, report = scores.compute()
    parts: dict[str, Any] = {
        name: found.get(name) for name in ("support", "exact", "complete", "empty", "repeated", "rep", "drop")
    }
    row = TranslationRow(
        name,
        task.config.output.transform,
        {"overall": report.score / 100},
        sum(p.numel() for p in task.parameters()),
        curve=[dict(point) for point in contender.curve],
        **parts,
    )
    return row, dict(scores.lines)


def _ask(tasks: Mapping[str, TranslationTask], pair: SentencePair, search: SearchConfig) -> TranslationExample:
    said = {name: explain(task, pair.source, search=search) for name, task in tasks.items()}
    looks = {}
    for name, each in said.items():
        assert each.translation is not None
        best = each.translation.hypotheses[0]
        weights = [[float(f"{value:.4g}") for value in row] for row in each.weights.tolist()]
        proven = each.translation.exact, each.translation.complete
        looks[name] = TranslationLook(
            best.text, list(each.target), weights, each.support.tolist(), math.exp(best.log_prob), *proven
        )
    words = list(next(iter(said.values())).source)
    return TranslationExample(pair.id, pair.source, words, pair.target, looks)


def _loader(data: TranslationData, split: str) -> Iterable[dict[str, Any]]:
    return {"val": data.val_dataloader, "test": data.test_dataloader}[split]()
