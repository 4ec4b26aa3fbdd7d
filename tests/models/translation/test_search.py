"""Certificates of searches are true: they are compared with every sentence there is."""

import math

import pytest
import torch
from tests.models.translation.networks import SOURCE, make_transformer

from omegamax.generation import beam_search, greedy, sample
from omegamax.models.translation import TokenOutputConfig

EOS, WORDS, LENGTH = 2, (4, 5, 6), 4
START = torch.ones(3, 1, dtype=torch.long)


def list_all(model, row):
    """Return the log-probability of every sentence, cut after LENGTH tokens."""
    found, open_ = {}, [([], 0.0, model.encode(SOURCE[row : row + 1]))]
    while open_:
        tokens, log_p, state = open_.pop()
        if tokens[-1:] == [EOS] or len(tokens) == LENGTH:
            found[tuple(tokens)] = log_p
            continue
        scores, state = model.step(torch.tensor([[1, *tokens]]), state)
        log = model.omega.argmax(scores[0]).log()
        open_ += [([*tokens, token], log_p + float(log[token]), state) for token in (EOS, *WORDS)]
    return found


@pytest.mark.parametrize("output", ["sparsemax", "entmax15", "softmax"])
@pytest.mark.parametrize("sharp", [1.0, 6.0])
@torch.no_grad()
def test_certificate_is_that_of_exhaustive_search(output, sharp):
    model = make_transformer(seed=3, target=7, output=TokenOutputConfig(output), tied=False)
    model.output.weight *= sharp
    every = [list_all(model, row) for row in range(3)]
    for beam in (1, 2, 4, 2000):
        settings = {"omega": model.omega, "eos": EOS, "pad": 0, "max_length": LENGTH, "state": model.encode(SOURCE)}
        found = beam_search(model.step, START, beam=beam, **settings)
        for row, sentences in enumerate(found.lists()):
            ranked = sorted(every[row].values(), reverse=True)
            for place, (tokens, log_p) in enumerate(zip(sentences, found.log_probs[row].tolist(), strict=False)):
                assert math.isclose(log_p, every[row][tuple(tokens)], rel_tol=0, abs_tol=1e-9)
                if place < int(found.proven[row]):
                    assert math.isclose(log_p, ranked[place], rel_tol=0, abs_tol=1e-9)
            if bool(found.complete[row]):
                assert {tuple(s) for s in sentences} == {s for s, p in every[row].items() if p > -math.inf}
                assert math.isclose(float(found.mass[row]), 1.0, abs_tol=1e-9)
        if beam == 2000:
            assert found.complete.all() and found.exact.all()
    assert math.isclose(sum(math.exp(p) for p in every[0].values()), 1.0, abs_tol=1e-9)


@torch.no_grad()
def test_greedy_and_samples_stay_in_the_support():
    model = make_transformer(seed=1, target=7, output=TokenOutputConfig("sparsemax"), tied=False)
    model.output.weight *= 4
    settings = {"omega": model.omega, "eos": EOS, "max_length": LENGTH, "state": model.encode(SOURCE)}
    possible = {s for s, p in list_all(model, 0).items() if p > -math.inf}
    drawn = sample(model.step, START, samples=30, generator=torch.Generator().manual_seed(0), **settings)
    assert {tuple(s) for s in drawn.lists()[0]} <= possible
    best = greedy(model.step, START, **settings)
    one = beam_search(model.step, START, beam=1, **settings)
    assert best.lists() == one.lists()
