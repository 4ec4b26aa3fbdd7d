"""All words that can follow the beginning of a translation, and how probable each is."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.data.translation import BOS, EOS, UNK, Subwords
from omegamax.generation import log_probabilities
from omegamax.models.decoding import forbid_marks
from omegamax.tasks.translation.task import TranslationTask

_SPACE = "\u2581"
_LEAST = sys.float_info.min  # of what has any probability: what is smaller must not count as none
_LONGEST = 24  # subwords of a word: one that goes on for ever is not followed for ever


@dataclass(frozen=True)
class NextWord:
    """A word that can follow.

    Args:
        word: as it is written.
        text: the translation up to it, it included.
        probability: of it, given that all words before it are finished; of several ways to cut it, their sum.
    """

    word: str
    text: str
    probability: float


@dataclass(frozen=True)
class NextWords:
    """What can follow the beginning of a translation.

    Args:
        words: the likeliest first.
        end: probability that the translation ends here.
        rest: probability of words that are not listed, and of a blank with nothing behind it; 0: these are all.
        letters: of a word that is not finished, with which all listed ones begin; ``rest`` is then of such alone.
        impossible: the first word of the beginning that the network gives no probability, or never ends there; None:
            it could say it all.
    """

    words: tuple[NextWord, ...]
    end: float
    rest: float
    letters: str
    impossible: str | None

    @property
    def complete(self) -> bool:
        """Tell whether no other word has any probability."""
        return self.rest == 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, words and lists."""
        return {**asdict(self), "complete": self.complete}


@torch.no_grad()
def find_next_words(task: TranslationTask, source: str, prefix: str = "", most: int = 200) -> NextWords:
    """Return the words that can follow the beginning of a translation.

    A word is what stands between blanks, less its punctuation, whose marks are words by themselves. Its subwords are
    followed as long as any continuation of them has some probability, ``most`` at a time: what a map like sparsemax
    leaves is listed to the last word, of softmax the likeliest.

    Args:
        task: in evaluation mode, as :meth:`TranslationTask.load` leaves it.
        source: sentence to translate.
        prefix: beginning of its translation; if no blank is behind it, its last word is not finished.
        most: words to list, and beginnings of words that are followed at a time.

        >>> from omegamax.data.translation import PairVocabulary, TinyPairs
        >>> from omegamax.models.translation import TokenOutputConfig, TranslatorConfig
        >>> pairs, config = TinyPairs(30), TranslatorConfig.tiny(output=TokenOutputConfig("sparsemax"))
        >>> task = TranslationTask(PairVocabulary.learn(pairs, kind="words"), config).eval()
        >>> found = find_next_words(task, pairs[0].source, "the man ")
        >>> found.complete, round(found.end + sum(word.probability for word in found.words), 6)
        (True, 1.0)
    """
    check_integer("find_next_words", "most", most, least=1)
    subwords = task.vocabulary.target
    read = task.vocabulary.encode_source(source)
    words, letters = split_prefix(subwords, task.vocabulary.form(prefix), bool(prefix[-1:].strip()))
    known = [token for word in words for token in subwords.encode_word(word)]
    if len(read) < 2:
        raise ValueError("find_next_words: source must have words, got none")
    if max(len(read), len(known)) > task.length:
        given = max(len(read), len(known))
        raise ValueError(f"find_next_words: there may be at most {task.length:,} subwords, got {given:,}")
    search = _WordSearch(task, read, known, letters, most)
    never = search.run()
    impossible = None if never is None else _word_at(subwords, [*words, letters], never)
    return search.found(impossible)


def split_prefix(subwords: Subwords, text: str, open_: bool) -> tuple[list[str], str]:
    """Return the finished words of a beginning, and the letters of one that is not.

    >>> subwords = Subwords.learn(["a dog , a cat"], kind="words")
    >>> split_prefix(subwords, "a do", open_=True), split_prefix(subwords, "a dog", open_=False)
    ((['a'], 'do'), (['a', 'dog'], ''))
    """
    words = subwords.words(text)
    return words, words.pop().removeprefix(_SPACE) if open_ and words else ""


def _word_at(subwords: Subwords, words: Sequence[str], place: int) -> str:
    """Return the word that a token of the beginning belongs to, a blank alone to the mark behind it."""
    for index, word in enumerate(words):
        place -= len(subwords.encode_word(word))
        if place < 0:
            return next((each.removeprefix(_SPACE) for each in words[index:] if each != _SPACE), "")
    raise IndexError(f"there is no such token, {place} beyond the last")


class _WordSearch:
    """The words that can follow, found level by level: after n subwords of a word, those that go on with another."""

    def __init__(self, task: TranslationTask, source: Sequence[int], known: list[int], letters: str, most: int) -> None:
        self.task, self.known, self.letters, self.most = task, known, letters, most
        self.subwords = task.vocabulary.target
        self.source = torch.tensor([source], device=task.device)
        self.kinds = _SubwordKinds(self.subwords)
        self.words: dict[str, tuple[str, float]] = {}  # by the text up to them: a mark may stand behind a blank or not
        self.end = self.rest = 0.0

    def run(self) -> int | None:
        """Follow all words; return which token of the beginning is the first without any probability."""
        p = self._look([[]], every=True)[0]
        never = next((place for place, token in enumerate(self.known) if not p[place, token] > 0), None)
        first = p[-1]
        if self.known and not self.kinds.is_whole(self.known[-1]):
            # The last word is finished: what would go on with it is left aside.
            first = torch.where(self.kinds.inner, 0.0, first)
            if not first.sum() > 0:
                return len(self.known) - 1 if never is None else never
            first = first / first.sum()
        self.end = float(first[EOS])
        level = self._keep([((int(token),), float(first[token])) for token in first.nonzero()[:, 0] if token != EOS])
        for _ in range(_LONGEST):
            single = [each for each in level if self.kinds.is_whole(each[0][-1])]
            for tokens, probability in single:
                self._add(tokens, probability)
            level = [each for each in level if not self.kinds.is_whole(each[0][-1])]
            grown: list[tuple[tuple[int, ...], float]] = []
            if level:
                after = self._look([tokens for tokens, _ in level])[:, -1]
                for (tokens, probability), row in zip(level, after, strict=True):
                    on = self.kinds.inner
                    if not self._write(tokens) and not self.letters:
                        on = on | self.kinds.mark  # a blank alone is before a mark, or before nothing that is listed
                        self.rest += _multiply(probability, float(row[~on].sum()))
                    self._add(tokens, _multiply(probability, float(row[~on].sum())))
                    places = (row * on).nonzero()[:, 0].tolist()
                    grown += [((*tokens, token), _multiply(probability, float(row[token]))) for token in places]
            level = self._keep(grown)
            if not level:
                break
        self.rest += sum(probability for _, probability in level)
        return never

    def found(self, impossible: str | None) -> NextWords:
        """Return what was found."""
        words = [NextWord(word, text, p) for text, (word, p) in self.words.items()]
        words.sort(key=lambda each: (-each.probability, each.text))
        rest = self.rest + sum(each.probability for each in words[self.most :])
        end = 0.0 if self.letters else self.end
        return NextWords(tuple(words[: self.most]), end, rest, self.letters, impossible)

    def _look(self, words: Sequence[Sequence[int]], every: bool = False) -> Tensor:
        """Return probabilities ``[N, T, V]`` after the beginning and the subwords of N words, of one length."""
        model, device = self.task.model, self.task.device
        tokens = torch.tensor([[BOS, *self.known, *word] for word in words], device=device)
        hidden, _ = model.read(model.encode(self.source.expand(len(words), -1)), tokens)
        scores = model.output(hidden if every else hidden[:, -1:]).double()
        forbid_marks(scores.flatten(0, 1))
        log_p = log_probabilities(scores, model.omega).cpu()
        return torch.where(log_p > -torch.inf, log_p.exp().clamp(min=_LEAST), 0.0)

    def _keep(self, level: list[tuple[tuple[int, ...], float]]) -> list[tuple[tuple[int, ...], float]]:
        """Return the likeliest beginnings of words that agree with the letters; count what the others have.

        No word is likelier than its beginning: what is below as many whole words as are listed need not be followed.
        """
        level = [each for each in level if each[1] > 0 and self._agrees(each[0])]
        level.sort(key=lambda each: -each[1])
        found = sorted((p for _, p in self.words.values()), reverse=True)
        least = found[self.most - 1] if len(found) >= self.most else 0.0
        kept = [each for each in level[: self.most] if each[1] >= least]
        self.rest += sum(probability for _, probability in level[len(kept) :])
        return kept

    def _agrees(self, tokens: tuple[int, ...]) -> bool:
        written = self._write(tokens)
        return written.startswith(self.letters) or self.letters.startswith(written)

    def _add(self, tokens: tuple[int, ...], probability: float) -> None:
        written = self._write(tokens)
        if probability > 0 and written.startswith(self.letters) and written:
            text = self.subwords.decode([*self.known, *tokens])
            self.words[text] = written, self.words.get(text, (written, 0.0))[1] + probability

    def _write(self, tokens: tuple[int, ...]) -> str:
        return "".join(self.subwords.tokens[token] for token in tokens).removeprefix(_SPACE)


def _multiply(p: float, q: float) -> float:
    """Return the product of probabilities, which is 0 only if one of them is."""
    return max(p * q, _LEAST) if p and q else 0.0


class _SubwordKinds:
    """Which subwords go on with a word: those that neither begin with a blank nor are punctuation."""

    def __init__(self, subwords: Subwords) -> None:
        tokens = subwords.tokens
        marks = [all(unicodedata.category(c)[0] == "P" for c in token) for token in tokens]
        inner = [
            subwords.merges is not None and number > UNK and not token.startswith(_SPACE) and not marks[number]
            for number, token in enumerate(tokens)
        ]
        self.inner, self.mark = torch.tensor(inner), torch.tensor(marks)
        self._words = subwords.merges is None

    def is_whole(self, token: int) -> bool:
        """Tell whether nothing can go on with a word after this subword."""
        return self._words or bool(self.mark[token])
