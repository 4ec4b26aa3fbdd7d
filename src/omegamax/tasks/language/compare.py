"""Several language models on the same text: the numbers of a table, and what they write."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch

from omegamax.data.subwords import EOS
from omegamax.generation import log_probabilities
from omegamax.metrics import distinct
from omegamax.models.decoding import forbid_marks
from omegamax.tasks.language.data import LanguageData
from omegamax.tasks.language.report import LanguageComparison, LanguageExample, LanguageRow, WrittenText
from omegamax.tasks.language.scores import LanguageScores, known_epsilon
from omegamax.tasks.language.task import LanguageTask
from omegamax.tasks.language.write import Continuation, WriteConfig, split_pieces, write
from omegamax.tasks.progress import progress
from omegamax.tasks.report.contenders import Contender, check_vocabulary, move_batch, time_steps

_NGRAMS = (1, 2, 4)


def compare(
    contenders: Mapping[str, Contender[LanguageTask]],
    data: LanguageData,
    *,
    split: str = "test",
    examples: int = 24,
    prompt: int = 8,
    config: WriteConfig | None = None,
    seed: int = 0,
    rounds: int = 10,
    title: str = "What language models write",
    about: str = "",
    settings: Mapping[str, str] | None = None,
) -> LanguageComparison:
    """Measure networks on a split, and let each go on with the beginnings of its first documents.

    Args:
        contenders: by the name of their row.
        data: with the tokens that all were trained with.
        examples: how many prompts, the beginnings of as many documents; the last is empty.
        prompt: tokens of a prompt.
        config: how texts are written; what is cut is as each task says.
        seed: of what is drawn.
        rounds: training steps of each network to time, in turns, so that all see the same machine; 0: none.
        title, about, settings: of the page.
    """
    config = WriteConfig(samples=2, max_length=60) if config is None else config
    for name, contender in contenders.items():
        check_vocabulary(name, contender.task, data, "tokens")
    tasks = {name: each.task for name, each in contenders.items()}
    times = time_steps(tasks, next(iter(data.loader(split))), rounds, lambda task, batch: task.training_loss(batch))
    prompts = choose_prompts(data, split, examples, prompt)
    written = {name: _write_all(name, task, prompts, config, seed) for name, task in tasks.items()}
    rows = []
    for name, contender in contenders.items():
        scores = _measure(name, contender.task, data, split) | measure_texts(written[name])
        count = sum(p.numel() for p in contender.task.parameters())
        kind = contender.task.config.output.transform
        curve: list[dict[str, float | None]] = [dict(point) for point in contender.curve]
        rows.append(LanguageRow(name, kind, scores, count, curve, step_ms=times.get(name)))
    size = len(data.vocabulary)
    shown = [
        LanguageExample(
            f"{split}-{place}",
            text,
            truth,
            {
                name: [_describe(tasks[name], text, each, config.temperature) for each in written[name][place]]
                for name in tasks
            },
            size,
        )
        for place, (text, truth) in enumerate(progress(prompts, "looking"))
    ]
    return LanguageComparison(title, about, rows, shown, dict(settings or {}))


def choose_prompts(data: LanguageData, split: str, count: int, prompt: int) -> list[tuple[str, str]]:
    """Return the beginnings of the first documents of a split, each with how it goes on, and an empty one last."""
    stream, decode = data.stream(split), data.vocabulary.decode
    long = [index for index, size in enumerate(stream.lengths.tolist()) if size > prompt + 1]
    rows = [stream.document(index).tolist()[1:-1] for index in long[: max(0, count - 1)]]
    found = []
    for row in rows:
        end = prompt
        while end > 1 and decode(row[:end]).endswith("\ufffd"):  # within the bytes of a letter
            end -= 1
        found.append((decode(row[:end]), decode(row).removeprefix(decode(row[:end]))))
    return [*found, ("", "")] if count else []


def measure_texts(written: list[list[Continuation]]) -> dict[str, float]:
    """Return the shares of distinct n-grams of all that a network wrote; empty if it wrote nothing."""
    rows = [torch.tensor(each.tokens) for texts in written for each in texts]
    if not rows:
        return {}
    lengths = torch.tensor([len(row) for row in rows])
    tokens = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
    return {f"distinct_{n}": float(distinct(tokens, n, lengths=lengths)) for n in _NGRAMS}


def _write_all(
    name: str, task: LanguageTask, prompts: list[tuple[str, str]], config: WriteConfig, seed: int
) -> list[list[Continuation]]:
    generator = torch.Generator(task.device).manual_seed(seed)
    own = WriteConfig(**{**vars(config), "truncation": task.truncation})
    return [write(task.eval(), text, own, generator) for text, _ in progress(prompts, f"{name} writes")]


@torch.no_grad()
def _measure(name: str, task: LanguageTask, data: LanguageData, split: str) -> dict[str, float | None]:
    scores = LanguageScores(known_epsilon(task.model), task.truncation).to(task.device)
    for batch in progress(data.loader(split), name):
        scores.update(task.model.eval(), move_batch(batch, task.device)["tokens"])
    return dict(scores.compute())


@torch.no_grad()
def _describe(task: LanguageTask, prompt: str, said: Continuation, temperature: float) -> WrittenText:
    """Return a text in pieces, with how many tokens could have come at each."""
    before = [EOS, *task.vocabulary.encode(prompt)]
    ended = len(said.tokens) - int(said.finished)
    pieces = split_pieces(task.vocabulary, said.tokens[:ended])
    if not pieces:
        return WrittenText([], [], said.log_prob, said.finished)
    tokens = torch.tensor([[*before, *said.tokens[: ended - 1]]], device=task.device)
    scores = forbid_marks(task.model(tokens)[0, len(before) - 1 :].float())
    left = task.truncation(log_probabilities(scores, task.model.omega, temperature))
    sizes = (left > -math.inf).sum(-1).tolist()
    places = [0]
    for _, count in pieces[:-1]:
        places.append(places[-1] + count)
    return WrittenText([text for text, _ in pieces], [sizes[at] for at in places], said.log_prob, said.finished)
