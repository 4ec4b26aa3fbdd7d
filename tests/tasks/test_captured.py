"""A step that is captured, with a stand-in for CUDA that computes on the CPU: what is restored, copied and replayed."""

from __future__ import annotations

from contextlib import nullcontext
from types import SimpleNamespace

import pytest
import torch

from omegamax.tasks.captured import CapturedStep


class Graph:
    """Runs again what was run inside ``torch.cuda.graph``."""

    step = staticmethod(lambda: None)

    def __init__(self):
        self.generators = []

    def register_generator_state(self, generator):
        self.generators.append(generator)

    def replay(self):
        type(self).step()


@pytest.fixture
def on_the_cpu(monkeypatch):
    stream = SimpleNamespace(wait_stream=lambda other: None)
    stand_ins = {
        "Stream": lambda device: stream,
        "current_stream": lambda device: stream,
        "stream": lambda stream: nullcontext(),
        "CUDAGraph": Graph,
        "graph": lambda graph, pool: nullcontext(),
        "get_rng_state": lambda device: torch.get_rng_state(),
        "set_rng_state": lambda state, device: torch.set_rng_state(state),
    }
    for name, value in stand_ins.items():
        monkeypatch.setattr(torch.cuda, name, value)


def trained(captured: bool):
    """Three noisy steps of Adam, and what they returned."""
    torch.manual_seed(0)
    weight = torch.nn.Parameter(torch.ones(3))
    generator = torch.Generator().manual_seed(1)
    adam = torch.optim.Adam([weight], 0.1)

    def step(x):
        loss = (weight * x + torch.rand(3) * torch.rand(3, generator=generator)).square().sum()
        loss.backward()
        adam.step()
        adam.zero_grad(set_to_none=True)
        return loss.detach()

    batches = torch.randn(3, 3)
    if not captured:
        losses = [step(x) for x in batches]
        return weight.detach(), losses
    made = CapturedStep(step, [batches[0]], adam, [generator])
    assert torch.equal(weight, torch.ones(3)) and all(not v.any() for s in adam.state.values() for v in s.values())
    losses = []
    for x in batches:
        Graph.step = staticmethod(lambda: losses.append(step(*made._inputs)))
        made(x)
    return weight.detach(), losses


def test_captured_training_is_training(on_the_cpu):
    for found, wanted in zip(trained(True), trained(False), strict=True):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0)


def test_what_the_step_returned_is_returned(on_the_cpu):
    weight = torch.nn.Parameter(torch.ones(2))
    made = CapturedStep(lambda x: x.sum(), [torch.ones(2)], torch.optim.Adam([weight]))
    assert made(torch.zeros(2)) == 2  # the tensor of the capture; a real replay writes into it
    assert made._inputs[0].sum() == 0
