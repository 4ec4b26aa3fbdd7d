"""What a text that was generated says twice, and what of its source it leaves out."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_number

Tokens = Sequence[str] | Sequence[int]
Pairs = Iterable[tuple[int, int]]


def rep_score(
    candidates: Sequence[Tokens],
    references: Sequence[Tokens] | Sequence[Sequence[Tokens]],
    n: int = 2,
    lambda_1: float = 1.0,
    lambda_2: float = 2.0,
) -> Tensor:
    r"""Return how much texts repeat themselves beyond their references, in percent of the words of these; float64.

    .. math::
        \mathrm{REP} = 100 \, \frac{\sum_i \sigma(t_i, r_i)}{\sum_i |r_i|}, \qquad
        \sigma(t, r) = \lambda_1 \sum_{s \,:\, t(s) \ge 2} \max\{0, t(s) - r(s)\}
        + \lambda_2 \sum_w \max\{0, t(w w) - r(w w)\}

    :math:`t(s)` and :math:`r(s)` count an n-gram s in candidate and reference, overlapping ones too, and
    :math:`t(w w)` a word that follows itself. An n-gram that occurs once is no repetition, whatever the reference has;
    one that occurs twice or more, and never in the reference, counts with all its occurrences. With n = 2, a word that
    follows itself often enough counts in both sums. Words are compared as they are: lower case and punctuation are the
    caller's choice.

    Args:
        candidates: texts that were generated, each a list of tokens, words rather than pieces of words.
        references: one for each, a list of tokens; or several for each, a list of such lists. Of several, a candidate
            is compared with each in turn: the result is that of as many pairs of one candidate and one reference, as
            the formula, which has one, leaves open.
        n: words of the repetitions in the first sum.
        lambda_1, lambda_2: weights of the sums.

    Returns:
        A scalar from 0 on; NaN if the references have no word.

        >>> said = "a bowl of fruit and a bowl of fruit".split()
        >>> rep_score([said], ["a bowl of oranges and a banana on a table".split()])
        tensor(40., dtype=torch.float64)

    "a bowl" occurs twice, in the reference once: 1; "bowl of" likewise: 1; "of fruit" twice, in the reference never: 2;
    that is 4 over 10 words, and no word follows itself: 40.

    Reference: Malaviya, Ferreira and Martins, "Sparse and constrained attention for neural machine translation" (ACL
    2018), Sec. 4, whose code this agrees with.
    """
    score, words = count_repetitions(candidates, references, n, lambda_1, lambda_2)
    return _percent(score, words)


def count_repetitions(
    candidates: Sequence[Tokens],
    references: Sequence[Tokens] | Sequence[Sequence[Tokens]],
    n: int = 2,
    lambda_1: float = 1.0,
    lambda_2: float = 2.0,
) -> tuple[float, int]:
    """Return the sum of the penalties of :func:`rep_score`, and that of the words of the references."""
    name = "rep_score"
    check_integer(name, "n", n, least=1)
    check_number(name, "lambda_1", lambda_1, least=0)
    check_number(name, "lambda_2", lambda_2, least=0)
    if len(candidates) != len(references):
        raise ValueError(f"{name}: wanted a reference for each of {len(candidates)} candidates, got {len(references)}")
    score, words = 0.0, 0
    for index, (candidate, given) in enumerate(zip(candidates, references, strict=True)):
        _check_tokens(name, f"candidates[{index}]", candidate)
        several = _several(name, f"references[{index}]", given)
        grams, pairs = _count_grams(candidate, n), _count_grams(candidate, 2)
        for reference in several:
            known, doubled = _count_grams(reference, n), _count_grams(reference, 2)
            again = sum(max(0, count - known[gram]) for gram, count in grams.items() if count >= 2)
            twice = sum(max(0, count - doubled[pair]) for pair, count in pairs.items() if pair[0] == pair[1])
            score += lambda_1 * again + lambda_2 * twice
            words += len(reference)
    return score, words


def drop_score(alignments: Sequence[Pairs], references: Sequence[Pairs]) -> Tensor:
    r"""Return the share of source words that translations leave out, in percent; float64.

    .. math:: \mathrm{DROP} = 100 \, \frac{\sum_i |R_i \setminus T_i|}{\sum_i |R_i|}

    :math:`R` are the words of a source that are aligned with some word of its reference, and :math:`T` those aligned
    with some word of what was generated: words that even the reference has no word for are not asked for.

    Args:
        alignments: for each source, pairs of the index of a source word and that of a generated word, as an aligner
            gives them.
        references: likewise, of source and reference words.

    Returns:
        A scalar from 0 to 100; NaN if no source word is aligned with a reference.

        >>> drop_score([[(0, 0), (2, 1)]], [[(0, 0), (1, 1), (1, 2), (3, 3)]])
        tensor(66.6667, dtype=torch.float64)

    Reference: Malaviya, Ferreira and Martins (ACL 2018), Sec. 4, whose code this agrees with.
    """
    return _percent(*count_dropped(alignments, references))


def count_dropped(alignments: Sequence[Pairs], references: Sequence[Pairs]) -> tuple[int, int]:
    """Return how many source words were left out, and how many there were to leave out."""
    if len(alignments) != len(references):
        raise ValueError(f"drop_score: wanted {len(alignments)} references, as alignments, got {len(references)}")
    dropped, words = 0, 0
    for given, wanted in zip(alignments, references, strict=True):
        said, there = {source for source, _ in given}, {source for source, _ in wanted}
        dropped += len(there - said)
        words += len(there)
    return dropped, words


def _percent(part: float, whole: int) -> Tensor:
    return torch.tensor(100 * part / whole if whole else math.nan, dtype=torch.float64)


def _count_grams(tokens: Tokens, n: int) -> Counter[tuple[str | int, ...]]:
    return Counter(tuple(tokens[start : start + n]) for start in range(len(tokens) - n + 1))


def _several(name: str, argument: str, given: Tokens | Sequence[Tokens]) -> Sequence[Tokens]:
    """Return a list of references, of one or of several."""
    if not isinstance(given, str) and given and not isinstance(given[0], str | int):
        for place, each in enumerate(given):
            _check_tokens(name, f"{argument}[{place}]", each)  # type: ignore[arg-type]
        return given  # type: ignore[return-value]
    _check_tokens(name, argument, given)  # type: ignore[arg-type]
    return [given]  # type: ignore[list-item]


def _check_tokens(name: str, argument: str, given: Tokens) -> None:
    """Refuse a text that was not cut into tokens: its letters would be counted."""
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise TypeError(f"{name}: {argument} must be a list of tokens, got {type(given).__name__}")
    strange = [token for token in given if not isinstance(token, str | int)]
    if strange:
        raise TypeError(f"{name}: {argument} must hold words or integers, got {type(strange[0]).__name__}")
