"""Cut predictions, against plain loops."""

import math

import pytest
import torch

from omegamax.generation import Truncation, sample

F64 = torch.float64


def cut_by_loop(p, top_k=None, top_p=None, min_p=None):
    kept = dict(enumerate(p))
    for rule, value in (("k", top_k), ("p", top_p), ("m", min_p)):
        if value is None:
            continue
        ranked = sorted(kept, key=lambda token: (-kept[token], token))
        if rule == "k":
            ranked = ranked[:value]
        elif rule == "p":
            chosen, total = [], 0.0
            for token in ranked:
                if total >= value:
                    break
                chosen.append(token)
                total += kept[token]
            ranked = chosen
        else:
            ranked = [token for token in ranked if kept[token] >= value * max(kept.values()) * (1 - 1e-12)]
        total = sum(kept[token] for token in ranked)
        kept = {token: kept[token] / total for token in ranked}
    return [kept.get(token, 0.0) for token in range(len(p))]


@pytest.mark.parametrize(
    "rule",
    [
        *({"top_k": k} for k in (1, 3, 99)),
        *({"top_p": p} for p in (0.3, 0.85, 1.0)),
        {"min_p": 0.2},
        {"top_k": 5, "top_p": 0.7, "min_p": 0.3},
    ],
)
def test_rules_are_those_of_a_loop(rule):
    log_p = (2 * torch.randn(6, 9, dtype=F64, generator=torch.Generator().manual_seed(0))).log_softmax(-1)
    log_p[0, :4] = -math.inf  # some have zeros of their own
    log_p = log_p.log_softmax(-1)
    found = Truncation(**rule)(log_p).exp()
    for row, p in zip(found.tolist(), log_p.exp().tolist(), strict=True):
        assert max(abs(a - b) for a, b in zip(row, cut_by_loop(p, **rule), strict=True)) < 1e-9


def test_ties_go_to_the_smaller_token():
    log_p = torch.full((4,), 0.25).log()
    assert Truncation(top_k=2)(log_p).exp().tolist() == [0.5, 0.5, 0.0, 0.0]
    assert Truncation(top_p=0.5)(log_p).exp().tolist() == [0.5, 0.5, 0.0, 0.0]


def test_samples_are_of_what_is_left():
    table = torch.tensor([3.0, 2.0, 1.0, 0.0])
    drawn = sample(lambda t: table.expand(len(t), -1), 0, omega="softmax", samples=50, max_length=4)
    cut = sample(
        lambda t: table.expand(len(t), -1), 0, omega="softmax", samples=50, max_length=4, truncation=Truncation(2)
    )
    assert int(drawn.tokens.max()) == 3 and int(cut.tokens.max()) == 1
    greedy = sample(lambda t: table.expand(len(t), -1), 0, omega="softmax", max_length=3, truncation=Truncation(1))
    assert greedy.tokens.tolist() == [[[0, 0, 0]]] and greedy.log_probs.item() == 0.0


def test_settings_that_cannot_be_are_refused():
    for rule in ({"top_k": 0}, {"top_p": 0.0}, {"top_p": 1.5}, {"min_p": -0.1}):
        with pytest.raises(ValueError, match="Truncation: "):
            Truncation(**rule)
    with pytest.raises(TypeError, match="truncation"):
        sample(lambda t: torch.zeros(1, 2), 0, truncation=0.9)
