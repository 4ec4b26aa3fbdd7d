"""Translations of lines: the likeliest, several, or drawn, with what is known of all others."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax.data.translation import BOS, EOS, PAD, pad_rows
from omegamax.generation import Beams, Sequences, beam_search, sample
from omegamax.models.translation import Translator
from omegamax.tasks.token_batches import TokenOrder

if TYPE_CHECKING:
    from omegamax.tasks.translation.task import TranslationTask

_MOST_SCORES = 1 << 26  # that a step of a search may hold, where it has more than one line


@dataclass(frozen=True)
class SearchConfig:
    """How translations are looked for.

    Args:
        beam: sentences that go on at each step; 1 is greedy.
        length_penalty: power of the length by which log-probabilities are divided.
        max_length: most tokens of a translation, the end included.
        samples: draw so many instead; 0: search.
        temperature: by which scores are divided.
    """

    beam: int = 5
    length_penalty: float = 0.0
    max_length: int = 200
    samples: int = 0
    temperature: float = 1.0

    def __post_init__(self) -> None:
        name = "SearchConfig"
        for argument, least in (("beam", 1), ("max_length", 1), ("samples", 0)):
            check_integer(name, argument, getattr(self, argument), least=least)
        check_number(name, "length_penalty", self.length_penalty, least=0)
        check_number(name, "temperature", self.temperature, above=0)


@dataclass(frozen=True)
class Hypothesis:
    """A translation that was found.

    Args:
        text: of it.
        tokens: of it, the end included if it came.
        log_prob: its log-probability.
        finished: False if it was cut.
    """

    text: str
    tokens: tuple[int, ...]
    log_prob: float
    finished: bool


@dataclass(frozen=True)
class Translation:
    """What was found for a line, and what is known of the rest.

    Args:
        hypotheses: the best first; none for a line without words.
        exact: whether the first is certainly the most probable translation there is.
        complete: whether these are all translations with any probability.
        cut: tokens of the line that were not read.
    """

    hypotheses: tuple[Hypothesis, ...]
    exact: bool = False
    complete: bool = False
    cut: int = 0

    @property
    def text(self) -> str:
        """Return the best translation."""
        return self.hypotheses[0].text if self.hypotheses else ""


@torch.no_grad()
def search_tokens(
    model: Translator,
    source: Tensor,
    search: SearchConfig,
    returned: int = 1,
    generator: torch.Generator | None = None,
) -> Sequences:
    """Return translations of sentences ``[B, S]`` as tokens: :class:`~omegamax.generation.Beams` unless drawn."""
    start = torch.full((len(source), 1), BOS, device=source.device)
    settings = {"omega": model.omega, "eos": EOS, "pad": PAD, "max_length": search.max_length}
    settings |= {"temperature": search.temperature, "state": model.encode(source)}
    if search.samples:
        return sample(model.step, start, samples=search.samples, generator=generator, **settings)  # type: ignore[arg-type]
    settings |= {"beam": max(search.beam, returned), "length_penalty": search.length_penalty}
    return beam_search(model.step, start, returned=returned, **settings)  # type: ignore[arg-type]


def translate_rows(
    model: Translator,
    decode: Callable[[list[int]], str],
    source: Tensor,
    search: SearchConfig,
    returned: int = 1,
    generator: torch.Generator | None = None,
) -> list[Translation]:
    """Return what was found for sentences ``[B, S]``; one without words has no translation, and no search is made."""
    words = source[:, 0] != EOS
    found: Iterator[Translation] = iter(())
    if words.any():
        result = search_tokens(model, source[words], search, returned, generator)
        found = (Translation(*each) for each in read_sequences(result, decode))
    return [next(found) if there else Translation(()) for there in words.tolist()]


def translate(
    task: TranslationTask,
    lines: Sequence[str],
    search: SearchConfig | None = None,
    returned: int = 1,
    batch_tokens: int = 4096,
    length: int | None = None,
    generator: torch.Generator | None = None,
) -> list[Translation]:
    """Translate lines, each as itself alone would be, several at a time.

    Args:
        task: a trained network and its subwords.
        lines: any; one without words has no translation.
        search: how to look for translations; None: as the task does.
        returned: translations of each, at most.
        batch_tokens: of a batch, at most; of fewer lines where beams are so wide that their scores take much memory.
        length: tokens of a line that are read; None: as the data of the task says.
        generator: of random numbers, where translations are drawn.
    """
    search = task.search if search is None else search
    length = task.length if length is None else length
    vocabulary, device = task.vocabulary, next(task.parameters()).device
    rows = [vocabulary.encode_source(line) for line in lines]
    cut = [max(0, len(row) - length) for row in rows]
    rows = [row if len(row) <= length else [*row[: length - 1], EOS] for row in rows]
    found = [Translation(())] * len(rows)
    scores = max(search.beam, returned, search.samples) * len(vocabulary.target)
    lengths = torch.tensor([len(row) for row in rows], dtype=torch.long)
    order = TokenOrder(lengths, batch_tokens, most=max(1, _MOST_SCORES // scores))
    for places in order:
        source = pad_rows([torch.tensor(rows[place]) for place in places]).to(device)
        some = translate_rows(task.model, vocabulary.decode, source, search, returned, generator)
        for place, translation in zip(places, some, strict=True):
            found[place] = replace(translation, cut=cut[place])
    return found


def read_sequences(
    result: Sequences, decode: Callable[[list[int]], str]
) -> Iterator[tuple[tuple[Hypothesis, ...], bool, bool]]:
    """Yield the hypotheses of each row, whether the first is proven the best, and whether they are all there are."""
    exact = result.exact.tolist() if isinstance(result, Beams) else [False] * len(result.tokens)
    complete = result.complete.tolist() if isinstance(result, Beams) else [False] * len(result.tokens)
    log_probs, finished = result.log_probs.tolist(), result.finished.tolist()
    for row, sequences in enumerate(result.lists()):
        numbers = zip(sequences, log_probs[row], finished[row], strict=False)
        yield (
            tuple(Hypothesis(decode(tokens), tuple(tokens), log_p, ended) for tokens, log_p, ended in numbers),
            exact[row],
            complete[row],
        )
