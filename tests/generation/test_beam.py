"""Beams against the enumeration of every sequence: what they find, and what they claim about the rest."""

import math
import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import omegamax
from generation.cases import Tree, everything
from omegamax.generation import beam_search, greedy

OMEGAS = ["softmax", "entmax15", "sparsemax", omegamax.Tsallis(1.2), omegamax.NormEntropy(2.0), omegamax.Tsallis(0.7)]

settings_of_a_search = st.fixed_dictionaries(
    {
        "vocabulary": st.integers(1, 4),
        "seed": st.integers(0, 10**6),
        "scale": st.sampled_from([0.0, 0.5, 1.0, 3.0]),
        "ruled_out": st.sampled_from([0.0, 0.3]),
        "beam": st.sampled_from([1, 2, 3, 5, 400]),
        "omega": st.sampled_from(OMEGAS),
        "ends": st.booleans(),
        "max_length": st.integers(1, 4),
        "min_length": st.integers(0, 2),
        "temperature": st.sampled_from([1.0, 0.5]),
    }
)


def searched(beam=5, returned=None, penalty=0.0, starts=((0,), (1,)), **case):
    model = Tree(case["vocabulary"], case["seed"], case["scale"], case["ruled_out"])
    eos = case["vocabulary"] - 1 if case["ends"] else None
    low = min(case["min_length"], case["max_length"]) if case["vocabulary"] > 1 else 0
    if case["ruled_out"]:
        low = 0  # a beginning whose only token is the end would have none
    options = dict(eos=eos, max_length=case["max_length"], min_length=low, temperature=case["temperature"])
    truth = [everything(model, start, case["omega"], **options) for start in starts]
    found = beam_search(
        model,
        torch.tensor(starts),
        beam=beam,
        returned=returned,
        omega=case["omega"],
        pad=7,
        length_penalty=penalty,
        **options,
    )
    return found, truth, eos


def check_sequences(found, truth, eos):
    """Each exists, has its probability and length, and is padded; scores fall."""
    for row, wanted in enumerate(truth):
        lists = [tuple(x) for x in found.lists()[row]]
        assert lists and len(set(lists)) == len(lists)
        for k, x in enumerate(lists):
            assert abs(found.log_probs[row, k].exp() - wanted[x]) <= 1e-12
            assert found.finished[row, k] == (eos is not None and x[-1] == eos)
            assert (found.tokens[row, k, len(x) :] == 7).all()
        assert (found.lengths[row, len(lists) :] == 0).all()
        assert (found.log_probs[row, len(lists) :] == -math.inf).all()
    assert (found.scores.diff(dim=-1) <= 0).nan_to_num().all() or found.scores.isinf().any()


@given(case=settings_of_a_search)
def test_beam_claims_hold_among_all_sequences(case):
    found, truth, eos = searched(**case)
    check_sequences(found, truth, eos)
    for row, wanted in enumerate(truth):
        kept = {tuple(x) for x in found.lists()[row]}
        outside = [math.log(p) for x, p in wanted.items() if x not in kept]
        assert all(p <= found.bound[row] + 1e-9 for p in outside)
        assert bool(found.complete[row]) == (not outside)
        best = sorted(wanted.values(), reverse=True)
        proven = int(found.proven[row])
        assert bool(found.exact[row]) == (proven > 0)
        for p, log_p in zip(best[:proven], found.log_probs[row, :proven].tolist(), strict=True):
            assert abs(p - math.exp(log_p)) <= 1e-12
        if found.complete[row]:
            assert abs(found.mass[row] - 1) <= 1e-12 and proven == len(kept) == len(wanted)
        if case["beam"] >= len(wanted) == 1:
            assert found.complete[row]


@given(case=settings_of_a_search)
def test_wide_beam_finds_the_best_and_proves_it(case):
    found, truth, _ = searched(**{**case, "beam": 4**4})
    for row, wanted in enumerate(truth):
        assert found.complete[row] and {tuple(x) for x in found.lists()[row]} == set(wanted)
        assert abs(found.mass[row] - 1) <= 1e-12


@given(case=settings_of_a_search, returned=st.integers(1, 3))
def test_fewer_returned_are_the_first_of_more(case, returned):
    case = {**case, "beam": 400}
    (few, truth, eos), (more, *_) = searched(**case, returned=returned), searched(**case)
    check_sequences(few, truth, eos)
    width = few.log_probs.shape[1]
    assert width <= returned
    assert torch.allclose(few.log_probs.exp(), more.log_probs[:, :width].exp(), rtol=0, atol=1e-12)
    assert (few.proven == (few.lengths > 0).sum(-1)).all()


@given(case=settings_of_a_search)
def test_greedy_takes_the_first_largest(case):
    case = {**case, "beam": 1}
    found, truth, eos = searched(**case)
    check_sequences(found, truth, eos)
    model, omega = Tree(case["vocabulary"], case["seed"], case["scale"], case["ruled_out"]), case["omega"]
    for row, start in enumerate([0, 1]):
        tokens: list[int] = []
        while len(tokens) < case["max_length"] and (not tokens or tokens[-1] != eos):
            z = torch.tensor(model.scores([start, *tokens]), dtype=torch.float64) / case["temperature"]
            early = case["vocabulary"] > 1 and not case["ruled_out"] and len(tokens) < case["min_length"]
            if eos is not None and early:
                z[eos] = -math.inf
            p = omegamax.get(omega).argmax(z)
            tokens.append(int((p >= p.max() * (1 - 1e-12)).nonzero()[0]))
        assert found.lists()[row] == [tokens]


@given(case=settings_of_a_search, penalty=st.sampled_from([0.5, 1.0, 2.0]))
def test_length_penalty_ranks_and_claims_only_what_is_complete(case, penalty):
    found, truth, eos = searched(**case, penalty=penalty)
    check_sequences(found, truth, eos)
    for row, wanted in enumerate(truth):
        scores = found.scores[row, : len(found.lists()[row])]
        lists = found.lists()[row]
        for x, score in zip(lists, scores.tolist(), strict=True):
            assert abs(score - math.log(wanted[tuple(x)]) / len(x) ** penalty) <= 1e-9
        if found.complete[row]:
            best = max(math.log(p) / len(x) ** penalty for x, p in wanted.items())
            assert len(lists) == len(wanted) == found.proven[row] and abs(scores[0] - best) <= 1e-9
        else:
            assert found.proven[row] == 0 and not found.exact[row]


@given(case=settings_of_a_search, penalty=st.sampled_from([0.5, 1.0, 2.0]))
def test_length_penalty_leaves_nothing_aside_that_could_win(case, penalty):
    found, truth, _ = searched(**{**case, "beam": 4**4}, returned=1, penalty=penalty)
    for row, wanted in enumerate(truth):
        best = max(math.log(p) / len(x) ** penalty for x, p in wanted.items())
        assert abs(found.scores[row, 0] - best) <= 1e-9


def test_length_penalty_prefers_long_sequences():
    # The end at once has 0.6; two tokens more have 0.4, and 0.63 each.
    step = bigram([[0.6, 0.4, 0.0], [0.0, 0.0, 1.0], [1.0, 0.0, 0.0]])
    options = dict(beam=4, omega="sparsemax", eos=0)
    assert beam_search(step, 0, **options).lists() == [[[0], [1, 2, 0]]]
    assert beam_search(step, 0, **options, length_penalty=1.0).lists() == [[[1, 2, 0], [0]]]


def bigram(probabilities):
    """A model with these probabilities of the next token, where sparsemax gives them back."""
    table = torch.tensor(probabilities)
    return lambda tokens: table[tokens[:, -1]]


@pytest.mark.parametrize(
    "omega",
    [
        omegamax.Tsallis(torch.tensor(1.5, dtype=torch.float64)),
        omegamax.Tsallis(math.inf),
        omegamax.Tsallis(1.0),
        omegamax.KSubsets(1),
        omegamax.Fused("sparsemax", 0.1),
        omegamax.Bounded("sparsemax", torch.tensor([0.5, 0.5, 0.4, 0.3], dtype=torch.float64)),
        "normmax",
        "oscarmax",
    ],
    ids=str,
)
def test_any_omega_that_gives_distributions(omega):
    model = Tree(4, seed=21)
    found = beam_search(model, 0, beam=64, omega=omega, eos=3, max_length=3)
    truth = everything(model, [0], omega, eos=3, max_length=3)
    assert found.complete.all() and {tuple(x) for x in found.lists()[0]} == set(truth)
    assert abs(float(found.mass) - 1) <= 1e-12
    for x, p in zip(found.lists()[0], found.log_probs[0].exp().tolist(), strict=True):
        assert abs(p - truth[tuple(x)]) <= 1e-12


def test_search_stops_when_nothing_is_left():
    model = Tree(3, seed=4, scale=2.0)
    found = beam_search(model, 0, beam=50, omega="sparsemax", eos=0, max_length=100)
    assert found.complete.all() and abs(float(found.mass) - 1) <= 1e-9
    assert len(model.calls) == int(found.lengths.max()) < 100
    assert max(model.calls) <= 50


def test_garden_path_is_not_called_exact():
    # The likelier beginning, 1 with 0.6, splits into halves; the other goes on with 0.9: 0.36 against 0.3.
    step = bigram([[0.0, 0.6, 0.4, 0.0], [0.5, 0.0, 0.0, 0.5], [0.9, 0.0, 0.0, 0.1], [1.0, 0.0, 0.0, 0.0]])
    found = greedy(step, 0, omega="sparsemax", eos=0)
    assert found.lists() == [[[1, 0]]] and not found.exact.any() and not found.complete.any()
    assert abs(float(found.bound.exp()) - 0.4) <= 1e-6
    found = beam_search(step, 0, beam=2, omega="sparsemax", eos=0)
    # What was dropped is at most 0.3, as much as the second has.
    assert found.lists() == [[[2, 0], [1, 0]]] and found.proven.tolist() == [2] and not found.complete.any()
    found = beam_search(step, 0, beam=4, omega="sparsemax", eos=0)
    assert found.lists() == [[[2, 0], [1, 0], [1, 3, 0], [2, 3, 0]]] and found.complete.all()
    assert abs(float(found.mass) - 1) <= 1e-6


def test_search_for_one_stops_when_it_is_beyond_reach():
    step = bigram([[0.6, 0.4, 0.0], [0.0, 0.5, 0.5], [0.5, 0.5, 0.0]])
    calls = []

    def counted(tokens):
        calls.append(len(tokens))
        return step(tokens)

    found = beam_search(counted, 0, beam=4, returned=1, omega="sparsemax", eos=0)
    assert calls == [1] and found.lists() == [[[0]]] and found.exact.all() and not found.complete.any()
    assert torch.allclose(found.bound.exp(), torch.tensor(0.4, dtype=torch.float64))


def test_rows_that_finish_early_are_not_asked_again():
    table = torch.tensor([[9.0, 0.0, 0.0], [0.0, 0.0, 9.0], [0.0, 9.0, 0.0]])
    sizes = []

    def step(tokens):
        sizes.append(len(tokens))
        return table[tokens[:, -1]]

    found = beam_search(step, torch.tensor([[0], [1], [0]]), beam=3, eos=0, max_length=6, pad=5)
    assert sizes == [3, 1, 1, 1, 1, 1]
    assert found.tokens[:, 0].tolist() == [[0] + [5] * 5, [2, 1] * 3, [0] + [5] * 5]
    assert found.finished[:, 0].tolist() == [True, False, True] and found.complete.all()


@pytest.mark.parametrize("omega", ["softmax", "entmax15", "sparsemax"])
def test_rows_of_a_batch_do_not_know_each_other(omega):
    model = Tree(5, seed=11)
    starts = torch.tensor([[3, 1], [0, 0], [2, 4], [1, 1]])
    options = dict(beam=4, omega=omega, eos=2, max_length=5, pad=-1)
    together = beam_search(model, starts, **options)
    for row in range(4):
        alone = beam_search(model, starts[row : row + 1], **options)
        assert together.lists()[row] == alone.lists()[0]
        assert together.proven[row] == alone.proven[0] and together.bound[row] == alone.bound[0]


def test_ties_go_to_the_first_sequence_and_the_smaller_token():
    found = beam_search(lambda tokens: torch.zeros(len(tokens), 3), 0, beam=4, omega="sparsemax", max_length=2)
    assert found.lists() == [[[0, 0], [0, 1], [0, 2], [1, 0]]]
    # Five others are as probable: these are among the best, though not the only ones.
    assert found.proven.tolist() == [4] and not found.complete.any()


def test_ties_within_a_large_vocabulary_are_in_order():
    found = beam_search(lambda tokens: torch.zeros(len(tokens), 5000), 0, beam=3, omega="softmax", max_length=1)
    assert found.lists() == [[[0], [1], [2]]]


def test_softmax_is_never_complete_however_peaked():
    # float32 probabilities would underflow to exact zeros.
    step = bigram([[0.0, 1e4, 0.0], [1e4, 0.0, 0.0], [0.0, 0.0, 0.0]])
    found = beam_search(step, 0, beam=1, omega="softmax", eos=0)
    assert found.lists() == [[[1, 0]]] and found.exact.all() and not found.complete.any()
    assert abs(float(found.bound) + 1e4) <= 1e-6


def test_single_token_in_every_support():
    step = bigram([[0.0, 5.0, 0.0], [0.0, 0.0, 5.0], [5.0, 0.0, 0.0]])
    for search in (greedy, beam_search):
        found = search(step, torch.zeros(2, 1, dtype=torch.long), omega="sparsemax", eos=0)
        assert found.lists() == [[[1, 2, 0]]] * 2 and found.complete.all() and (found.log_probs == 0).all()


def test_vocabulary_of_one():
    def step(tokens):
        return torch.zeros(len(tokens), 1)

    found = beam_search(step, 0, eos=None, max_length=3)
    assert found.lists() == [[[0, 0, 0]]] and found.complete.all() and not found.finished.any()
    found = beam_search(step, 0, eos=0, max_length=3)
    assert found.lists() == [[[0]]] and found.complete.all() and found.finished.all()
    with pytest.raises(ValueError, match=re.escape("beam_search: step must leave a token to some sequence")):
        beam_search(step, 0, eos=0, max_length=3, min_length=1)


def test_dead_ends_take_their_probability_with_them():
    inf = math.inf
    step = bigram([[-inf, 0.5, 0.5], [-inf, -inf, -inf], [0.0, -inf, -inf]])
    found = beam_search(step, 0, beam=4, omega="sparsemax", eos=0)
    assert found.lists() == [[[2, 0]]] and found.complete.all() and float(found.mass) == 0.5
    with pytest.raises(ValueError, match=r"got none for rows \[1\]"):
        beam_search(step, torch.tensor([[0], [1]]), beam=4, omega="sparsemax", eos=0)


def test_empty_batch():
    found = beam_search(lambda tokens: torch.zeros(len(tokens), 3), torch.zeros(0, 2, dtype=torch.long))
    assert found.tokens.shape[0] == 0 and found.lists() == [] and found.proven.shape == (0,)


def test_empty_start():
    found = beam_search(
        lambda t: 5 * torch.eye(3)[[t.shape[1] % 3]].expand(len(t), 3), torch.zeros(1, 0).long(), max_length=4
    )
    assert found.tokens[0, 0].tolist() == [0, 1, 2, 0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_scores_of_any_precision(dtype):
    found = beam_search(Tree(4, seed=3, dtype=dtype), 0, beam=200, omega="entmax15", eos=0, max_length=4)
    assert found.log_probs.dtype == torch.float64 and found.complete.all()
    assert abs(float(found.mass) - 1) <= (1e-12 if dtype == torch.float64 else 1e-6)


def test_scores_of_the_model_stay_as_they_are():
    table = torch.zeros(1, 3)
    beam_search(lambda tokens: table.expand(len(tokens), 3), 0, eos=1, min_length=2, max_length=3)
    assert (table == 0).all()


def test_no_graph_is_recorded():
    weights = torch.randn(3, 3, requires_grad=True)
    assert not beam_search(lambda tokens: weights[tokens[:, -1]], 0, max_length=2).log_probs.requires_grad


@pytest.mark.parametrize(
    "change, error, message",
    [
        (dict(step=3), TypeError, "step must be callable, got int"),
        (dict(start=1.5), TypeError, "start must be a token or a tensor of tokens [B, T], got float"),
        (dict(start=True), TypeError, "start must be a token"),
        (dict(start=-1), ValueError, "start must be a token >= 0, got -1"),
        (dict(start=torch.zeros(2)), TypeError, "start must hold integers, got dtype torch.float32"),
        (dict(start=torch.zeros(2).long()), ValueError, "start must have shape [B, T], got (2,)"),
        (dict(beam=0), ValueError, "beam must be at least 1, got 0"),
        (dict(beam=2.0), TypeError, "beam must be an int, got float"),
        (dict(returned=9), ValueError, "returned must be at most beam=5, got 9"),
        (dict(eos=-2), ValueError, "eos must be a token >= 0, got -2"),
        (dict(eos=3), ValueError, "eos must be one of the 3 tokens that step scores, got 3"),
        (dict(pad="x"), TypeError, "pad must be an int, got str"),
        (dict(max_length=0), ValueError, "max_length must be at least 1, got 0"),
        (dict(max_length=2, min_length=3), ValueError, "min_length must be at most max_length=2, got 3"),
        (dict(temperature=0.0), ValueError, "temperature must be > 0, got 0"),
        (dict(temperature="hot"), TypeError, "temperature must be a number, got str"),
        (dict(length_penalty=-1.0), ValueError, "length_penalty must be >= 0 and finite, got -1"),
        (dict(length_penalty=None), TypeError, "length_penalty must be a number, got NoneType"),
        (dict(omega=omegamax.KSubsets(2)), ValueError, "omega must give probabilities that sum to one"),
        (dict(omega="tvmax"), ValueError, "omega must be normalised over the vocabulary alone"),
        (dict(step=lambda t: torch.full((len(t), 3), math.nan)), ValueError, "got NaN or +inf for 1 of 1 sequences"),
        (dict(step=lambda t: torch.full((len(t), 3), math.inf)), ValueError, "the first after [0]"),
        (dict(step=lambda t: t), TypeError, "step must return a floating-point tensor of scores, got torch.int64"),
        (dict(step=lambda t: torch.zeros(3)), ValueError, "step must return scores [1, V]"),
        (dict(step=lambda t: torch.zeros(1, 0)), ValueError, "got shape (1, 0)"),
        (dict(step=lambda t: torch.zeros(1, 3, device="meta")), ValueError, "scores on the tokens' cpu, got meta"),
    ],
)
def test_errors_name_function_argument_wanted_and_given(change, error, message):
    arguments = dict(step=lambda tokens: torch.zeros(len(tokens), 3), start=0, max_length=4)
    arguments.update(change)
    with pytest.raises(error, match=re.escape(message)) as raised:
        beam_search(arguments.pop("step"), arguments.pop("start"), **arguments)
    assert str(raised.value).startswith("beam_search: ")
