"""Stacked networks compute what each does, and are trained as each is."""

from __future__ import annotations

import pytest
import torch

from omegamax.tasks.stacked import RatedAdam, Stacked


def layers(seed):
    torch.manual_seed(seed)
    return torch.nn.Sequential(torch.nn.Linear(4, 6), torch.nn.ReLU(), torch.nn.Linear(6, 2)).double()


def test_each_gives_what_it_gives_alone():
    made = [layers(seed) for seed in range(3)]
    x = torch.randn(3, 5, 4, dtype=torch.float64)
    wanted = torch.stack([network(mine) for network, mine in zip(made, x, strict=True)])
    torch.testing.assert_close(Stacked(made)(x), wanted, rtol=0, atol=1e-12)


def test_training_is_that_of_each_with_its_own_rate():
    rates, made, alone = [1e-2, 3e-3], [layers(0), layers(1)], [layers(0), layers(1)]
    x, y = torch.randn(2, 8, 4, dtype=torch.float64), torch.randn(2, 8, 2, dtype=torch.float64)
    stacked = Stacked(made)
    adam = RatedAdam(stacked.parameters(), rates, betas=(0.8, 0.9))
    for _ in range(20):
        (stacked(x) - y).square().mean((1, 2)).sum().backward()
        adam.step()
    stacked.hand_back(made)
    for number, network in enumerate(alone):
        single = torch.optim.Adam(network.parameters(), rates[number], betas=(0.8, 0.9))
        for _ in range(20):
            single.zero_grad()
            (network(x[number]) - y[number]).square().mean().backward()
            single.step()
        for one, other in zip(network.parameters(), made[number].parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=0, atol=1e-9)


def test_a_network_that_diverges_leaves_the_others_alone():
    def train(rates, count):
        stacked = Stacked([layers(seed) for seed in range(count)])
        adam = RatedAdam(stacked.parameters(), rates)
        for step in range(5):
            torch.manual_seed(step)
            x = torch.randn(1, 8, 4, dtype=torch.float64).expand(count, -1, -1)
            scale = torch.tensor([1.0, float("inf")], dtype=torch.float64)[:count]
            (scale * stacked(x).square().mean((1, 2))).sum().backward()
            adam.step()
        return stacked.weights[0].detach()

    both = train([1e-2, 1e-2], 2)
    assert not bool(both[1].isfinite().all())
    torch.testing.assert_close(both[:1], train([1e-2], 1), rtol=0, atol=1e-12)


def test_buffers_are_refused():
    with pytest.raises(ValueError, match="networks must have no buffers, got running_mean"):
        Stacked([torch.nn.BatchNorm1d(3), torch.nn.BatchNorm1d(3)])
