"""Repetition by hand and by plain loops."""

import math
import re
from collections import Counter

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from omegamax.metrics import distinct, ngram_repetition, rep, wrep


@st.composite
def texts(draw):
    rows, steps = draw(st.integers(1, 3)), draw(st.integers(1, 9))
    token = st.integers(0, 4)
    table = st.lists(st.lists(token, min_size=steps, max_size=steps), min_size=rows, max_size=rows)
    lengths = draw(st.lists(st.integers(0, steps), min_size=rows, max_size=rows))
    return torch.tensor(draw(table)), torch.tensor(draw(table)), torch.tensor(lengths)


@given(case=texts(), windows=st.lists(st.integers(1, 12), min_size=1, max_size=3).map(tuple))
def test_repetition_by_loops(case, windows):
    guesses, truth, lengths = case
    total = int(lengths.sum())
    for function, only_wrong in ((rep, False), (wrep, True)):
        result = function(guesses, truth, windows, lengths=lengths)
        assert result.shape == (len(windows),) and result.dtype == torch.float64
        for value, window in zip(result.tolist(), windows, strict=True):
            hits = 0
            for guess, text, n in zip(guesses.tolist(), truth.tolist(), lengths.tolist(), strict=True):
                for t in range(n):
                    seen = guess[t] in text[max(t - window, 0) : t]
                    hits += seen and not (only_wrong and guess[t] == text[t])
            assert math.isnan(value) if total == 0 else value == hits / total


@given(case=texts(), n=st.integers(1, 4))
def test_ngrams_by_counting(case, n):
    tokens, _, lengths = case
    rows = [t[:k] for t, k in zip(tokens.tolist(), lengths.tolist(), strict=True)]
    grams = [[tuple(t[i : i + n]) for i in range(len(t) - n + 1)] for t in rows]
    for value, own in zip(ngram_repetition(tokens, n, lengths=lengths).tolist(), grams, strict=True):
        assert math.isnan(value) if not own else abs(value - (1 - len(set(own)) / len(own))) <= 1e-15
    pooled = Counter(g for own in grams for g in own)
    for per, total in (("ngrams", pooled.total()), ("tokens", int(lengths.sum()))):
        value = float(distinct(tokens, n, lengths=lengths, per=per))
        assert math.isnan(value) if not total else value == len(pooled) / total


def test_repetition_of_an_example():
    truth = torch.tensor([[5, 6, 5, 7, 5, 6]])
    guess = torch.tensor([[5, 5, 5, 5, 8, 7]])
    # Seen among the two before: 5 at 1, 5 at 2 (right), 5 at 3, 7 at 5; 5 at 0 has nothing before it.
    assert rep(guess, truth, 2) == 4 / 6 and wrep(guess, truth, 2) == 3 / 6
    assert rep(guess, truth, 1) == 2 / 6 and wrep(guess, truth, 1) == 2 / 6
    assert rep(guess, truth).tolist() == [4 / 6] * 4  # the windows of the papers, all longer than the text
    assert rep(torch.full((3, 50), 2)).tolist() == [49 / 50] * 4


def test_any_batch_shape():
    tokens = torch.randint(4, (2, 3, 10))
    lengths = torch.randint(3, 11, (2, 3))
    assert ngram_repetition(tokens, 2, lengths=lengths).shape == (2, 3)
    flat = ngram_repetition(tokens.flatten(0, 1), 2, lengths=lengths.flatten())
    assert torch.equal(ngram_repetition(tokens, 2, lengths=lengths).flatten(), flat)
    assert rep(tokens, window=4, lengths=lengths) == rep(tokens.flatten(0, 1), window=4, lengths=lengths.flatten())
    assert ngram_repetition(tokens[0, 0], 1).shape == () and ngram_repetition(tokens[:0], 1).shape == (0, 3)
    assert ngram_repetition(tokens[..., :1], 2).isnan().all() and distinct(tokens[..., :1], 2).isnan()
    assert rep(tokens[..., :0]).isnan().all()


def test_what_lies_behind_the_end_does_not_count():
    tokens = torch.tensor([[1, 2, 3, 0, 0, 0, 0]])
    lengths = torch.tensor([4])
    assert ngram_repetition(tokens, 1, lengths=lengths) == 0 and rep(tokens, window=5, lengths=lengths) == 0
    assert ngram_repetition(tokens, 1) > 0 and rep(tokens, window=5) > 0


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: rep(x.double()), TypeError, "rep: predictions must be a tensor of tokens, got torch.float64"),
        (lambda x: wrep(x, x[:, 1:]), ValueError, "wrep: wanted targets of the predictions' shape (2, 5), got (2, 4)"),
        (lambda x: rep(x, window=0), ValueError, "rep: window must be an integer >= 1, got 0"),
        (lambda x: rep(x, window=()), ValueError, "rep: window must name at least one length, got none"),
        (lambda x: rep(x, lengths=torch.tensor([9, 1])), ValueError, "rep: lengths must lie in [0, 5]"),
        (lambda x: rep(x, lengths=torch.tensor([1])), ValueError, "rep: lengths must have shape (2,), got (1,)"),
        (lambda x: rep(x, lengths=[1, 2]), TypeError, "rep: lengths must be a tensor of integers, got list"),
        (lambda x: distinct(x, 0), ValueError, "distinct: n must be an integer >= 1, got 0"),
        (
            lambda x: distinct(x, per="words"),
            ValueError,
            "distinct: per must be one of 'ngrams', 'tokens', got 'words'",
        ),
        (
            lambda x: ngram_repetition(x[0, 0]),
            ValueError,
            "ngram_repetition: tokens must have shape [*, T], got a scalar",
        ),
    ],
)
def test_errors_name_function_argument_wanted_and_given(call, error, message):
    with pytest.raises(error, match=re.escape(message)):
        call(torch.randint(4, (2, 5)))
