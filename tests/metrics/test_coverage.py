"""REP and DROP: by hand, by brute force, over batches, and what is refused."""

import itertools
import math
import random

import pytest
import torch

from omegamax import metrics
from omegamax.metrics import drop_score, rep_score

BOWLS = "a bowl of fruit and a bowl of fruit".split()


def brute_rep(candidates, references, n=2, first=1.0, second=2.0):
    """The formula, counted place by place in lists."""
    score = words = 0
    for t, r in zip(candidates, references, strict=True):
        for size, weight, counted in ((n, first, lambda s, k: k >= 2), (2, second, lambda s, k: len(set(s)) == 1)):
            said = [t[i : i + size] for i in range(len(t)) if i + size <= len(t)]
            known = [r[i : i + size] for i in range(len(r)) if i + size <= len(r)]
            for gram in [g for i, g in enumerate(said) if g not in said[:i]]:
                if counted(gram, said.count(gram)):
                    score += weight * max(0, said.count(gram) - known.count(gram))
        words += len(r)
    return 100 * score / words


@pytest.mark.parametrize(
    ("said", "reference", "wanted"),
    [
        # "a bowl" and "bowl of" once too often, "of fruit" twice: 4 of 10 words.
        (BOWLS, "a bowl of oranges and a banana on a table".split(), 40.0),
        # The reference says all that twice too.
        (BOWLS, BOWLS, 0.0),
        # "the the" once: it is no repeated bigram, but the word follows itself: 2 of 4 words.
        ("the the cat sat".split(), "the cat sat down".split(), 50.0),
        # "the the" twice, in the reference never: 2 as a bigram, and 2 * 2: 6 of 2 words.
        ("the the the".split(), "the cat".split(), 300.0),
        # Once in the reference: 1 as a bigram, and 2 * 1: 3 of 3 words.
        ("the the the".split(), "the the cat".split(), 100.0),
        # The reference repeats more: that is no merit.
        ("a b".split(), "a b a b".split(), 0.0),
        ([], "a b".split(), 0.0),
        (["a"], ["b"], 0.0),
    ],
)
def test_rep_by_hand(said, reference, wanted):
    assert float(rep_score([said], [reference])) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("n", [1, 2, 3])
def test_rep_is_that_of_brute_force(n):
    draw = random.Random(n)
    texts = [[draw.choice("abc") for _ in range(draw.randrange(9))] for _ in range(120)]
    candidates, references = texts[:60], texts[60:]
    found = rep_score(candidates, references, n, 0.7, 1.9)
    assert found.dtype == torch.float64
    assert float(found) == pytest.approx(brute_rep(candidates, references, n, 0.7, 1.9), abs=1e-9)
    assert float(rep_score(candidates, references)) == pytest.approx(brute_rep(candidates, references), abs=1e-9)


def test_rep_takes_indices_and_several_references():
    numbers = {word: index for index, word in enumerate(dict.fromkeys(BOWLS))}
    table = "a bowl of fruit on a table".split()
    assert rep_score([[numbers[w] for w in BOWLS]], [[0, 1, 2]]) == rep_score([BOWLS], [["a", "bowl", "of"]])
    # Against the table 3 and against itself 0, over 7 and 9 words.
    assert float(rep_score([BOWLS], [[table, BOWLS]])) == pytest.approx(300 / 16, abs=1e-12)
    assert rep_score([BOWLS], [[table, BOWLS]]) == rep_score([BOWLS, BOWLS], [table, BOWLS])
    assert rep_score([BOWLS], [[table]]) == rep_score([BOWLS], [table])


def test_rep_without_a_reference_word_is_not_a_number():
    assert math.isnan(rep_score([], [])) and math.isnan(rep_score([["a", "a"]], [[]]))


@pytest.mark.parametrize(
    ("candidates", "references", "options", "words"),
    [
        (["a a"], [["a"]], {}, r"candidates\[0\] must be a list of tokens, got str"),
        ([["a"]], ["a a"], {}, r"references\[0\] must be a list of tokens, got str"),
        ([["a"]], [[["a"], "b"]], {}, r"references\[0\]\[1\] must be a list of tokens"),
        ([["a"], [None]], [["a"], ["b"]], {}, r"candidates\[1\] must hold words or integers, got NoneType"),
        ([["a"]], [], {}, "a reference for each of 1 candidates, got 0"),
        ([["a"]], [["a"]], {"n": 0}, "n must be an integer >= 1, got 0"),
        ([["a"]], [["a"]], {"lambda_2": -1}, "lambda_2 must be a finite number >= 0"),
    ],
)
def test_rep_refuses_by_name(candidates, references, options, words):
    with pytest.raises((TypeError, ValueError), match=f"rep_score: .*{words}"):
        rep_score(candidates, references, **options)


def test_drop_by_hand_and_by_brute_force():
    # Of source words 0, 1 and 3 the reference speaks; 0 and 2 were translated.
    assert float(drop_score([[(0, 0), (2, 1)]], [[(0, 0), (1, 1), (1, 2), (3, 3)]])) == pytest.approx(200 / 3)
    assert float(drop_score([[]], [[(0, 0)]])) == 100 and float(drop_score([[(0, 0)]], [[(0, 5)]])) == 0
    assert math.isnan(drop_score([[(0, 0)]], [[]]))
    draw = random.Random(0)
    pairs = [[(draw.randrange(6), draw.randrange(6)) for _ in range(draw.randrange(7))] for _ in range(80)]
    said, known = pairs[:40], pairs[40:]
    lost = there = 0
    for ours, theirs in zip(said, known, strict=True):
        for word in range(6):
            aligned = any(source == word for source, _ in theirs)
            there += aligned
            lost += aligned and not any(source == word for source, _ in ours)
    assert float(drop_score(said, known)) == pytest.approx(100 * lost / there, abs=1e-9)
    with pytest.raises(ValueError, match="drop_score: wanted 1 references, as alignments, got 2"):
        drop_score([[]], [[], []])


def test_metrics_add_up_over_batches():
    table = "a bowl of fruit on a table".split()
    rep, drop, rate = metrics.RepScore(), metrics.DropScore(), metrics.TokenRate()
    for said, known in ((BOWLS, table), (table, BOWLS)):
        rep.update([said], [known])
    assert rep.compute() == rep_score([BOWLS, table], [table, BOWLS])
    for said, known in itertools.product(([(0, 0)], []), ([(0, 0), (1, 0)],)):
        drop.update([said], [known])
    assert float(drop.compute()) == 75
    rate.update(10, 0.5)
    rate.update(20, 1.5)
    assert float(rate.compute()) == 15
    empty = metrics.RepScore()
    empty.update([], [])
    assert math.isnan(empty.compute())
    with pytest.raises(ValueError, match="TokenRate: seconds must be a finite number >= 0"):
        rate.update(1, -1.0)
