"""Several networks on the same texts: the numbers of a table, and texts to look at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch

from omegamax.data import DataError
from omegamax.data.text import NO_LABEL, TextSample
from omegamax.tasks.progress import progress
from omegamax.tasks.report.contenders import (
    SAME_DATA,
    Contender,
    check_vocabulary,
    compare_paired,
    move_batch,
    time_steps,
)
from omegamax.tasks.text.data import TextData
from omegamax.tasks.text.explain import explain_words
from omegamax.tasks.text.explain_pair import explain_word_pair
from omegamax.tasks.text.outcomes import TextOutcomes, pick_texts
from omegamax.tasks.text.report import TextComparison, TextExample, TextRow
from omegamax.tasks.text.report.looks import make_example
from omegamax.tasks.text.scores import TextScores
from omegamax.tasks.text.task import TextTask

_SEARCHED = 2000  # texts among which the first of each class are found


def compare(
    contenders: Mapping[str, Contender[TextTask]],
    data: TextData,
    *,
    split: str = "test",
    examples: int = 24,
    themed: int = 6,
    rounds: int = 10,
    title: str = "Which words networks look at",
    about: str = "",
    settings: Mapping[str, str] | None = None,
) -> TextComparison:
    """Measure networks on a split, and collect which words each looks at.

    Args:
        contenders: by the name of their row; either all read single texts or all align two sentences.
        data: with the vocabulary that all were trained with.
        examples: how many texts to show, the first of each class in turn.
        themed: how many to show beside them on which networks disagree, and how many that all get wrong; none without
            ``examples``.
        rounds: training steps of each network to time, in turns, so that all see the same machine; 0: none.
        title, about, settings: of the page.
    """
    first = next(iter(data.loader(split)))
    for name, contender in contenders.items():
        _check(name, contender.task, data, first)
    if any(bool((batch["label"] == NO_LABEL).any()) for batch in data.loader(split)):
        raise DataError(f"there are texts without a class in the {split} part; take another part, --split val")
    tasks = {name: each.task for name, each in contenders.items()}
    times = time_steps(tasks, first, rounds, lambda task, batch: task.training_loss(batch))
    outcomes = {name: TextOutcomes() for name in contenders}
    rows = {name: _row(name, each, data, split, times.get(name), outcomes[name]) for name, each in contenders.items()}
    ahead = next(iter(contenders))
    for name in list(contenders)[1:]:
        difference = compare_paired(outcomes[name].right, outcomes[ahead].right)
        rows[name] = replace(rows[name], difference=difference)
    shown: list[TextExample] = []
    if examples:
        picked = pick_texts(outcomes, data.split(split).ids, themed)
        shown = find_examples(tasks, data, split, examples, picked)
    return TextComparison(title, about, list(rows.values()), shown, dict(settings or {}))


def find_examples(
    tasks: Mapping[str, TextTask], data: TextData, split: str, count: int, picked: Mapping[str, str]
) -> list[TextExample]:
    """Ask all networks about the first texts of each class in turn, ``count`` of them, and about those picked by id."""
    groups: dict[str | None, list[TextSample]] = {}
    chosen: dict[str, TextSample] = {}
    for place, sample in enumerate(data.read(split)):
        if sample.id in picked:
            chosen[sample.id] = sample
        elif place < _SEARCHED:
            groups.setdefault(sample.label, []).append(sample)
        elif len(chosen) == len(picked):
            break
    longest = max(map(len, groups.values()), default=0)
    turns = [queue[turn] for turn in range(longest) for queue in groups.values() if turn < len(queue)]
    samples = [*turns[:count], *(chosen[name] for name in picked if name in chosen)]
    return [_ask(tasks, sample, data.length, picked.get(sample.id)) for sample in progress(samples, "explaining")]


def _ask(tasks: Mapping[str, TextTask], sample: TextSample, length: int, theme: str | None) -> TextExample:
    words = sample.words[:length]
    if sample.second is None:
        said = {name: explain_words(task, words) for name, task in tasks.items()}
        return make_example(sample.id, said, sample.label, sample.marks, theme)
    second = sample.second[:length]
    pairs = {name: explain_word_pair(task, words, second) for name, task in tasks.items()}
    return make_example(sample.id, pairs, sample.label, None, theme)


def _check(name: str, task: TextTask, data: TextData, batch: Mapping[str, Any]) -> None:
    """Refuse a network that the data are not for, by its name."""
    check_vocabulary(name, task, data, "classes")
    if (task.config.alignment is not None) != ("second" in batch):
        reads = "single texts" if task.config.alignment is None else "pairs of sentences"
        have = "pairs" if "second" in batch else "none"
        raise DataError(f"{name} reads {reads}, and the data have {have}; {SAME_DATA}")


@torch.no_grad()
def _row(
    name: str,
    contender: Contender[TextTask],
    data: TextData,
    split: str,
    milliseconds: float | None,
    outcomes: TextOutcomes,
) -> TextRow:
    task = contender.task.eval()
    scores = TextScores(len(task.vocabulary.answers), support=True).to(task.device)
    for batch in progress(data.loader(split), name):
        batch = move_batch(batch, task.device)
        answer = task(batch)
        scores.update(answer, task.label_loss(answer.logits, batch), batch)
        outcomes.update(answer.logits.argmax(-1), batch)
    found = scores.compute()
    return TextRow(
        name,
        name_kind(task),
        outcomes.accuracy(tuple(task.vocabulary.answers)),
        sum(p.numel() for p in task.parameters()),
        milliseconds,
        found.get("zero"),
        found.get("inside"),
        found.get("token_f1"),
        [dict(point) for point in contender.curve],
    )


def name_kind(task: TextTask) -> str:
    """Return the kind of the attention, the alignment, or what chooses the rationale: it has one colour everywhere."""
    if task.config.alignment is not None:
        return task.config.alignment
    return task.config.attention.kind if task.config.rationale is None else task.config.rationale.selector
