"""Lengths that stay on their device: as if they had been read."""

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF
from omegamax.basis.positions import Positions
from omegamax.nn import ContinuousAttention

F64 = torch.float64
LENGTHS = torch.tensor([7, 3, 1, 0, 5])


@pytest.fixture
def on_device(monkeypatch):
    """Let lengths on the CPU be taken for those of a GPU."""
    monkeypatch.setattr(Positions, "_stays_on_device", lambda self, lengths, width: self.dimension == 1)


def make(alpha: float, **options) -> ContinuousAttention:
    return ContinuousAttention(GaussianRBF.grid(6, 1, 0.02, dtype=F64), alpha, **options)


def draw(width: int = 7) -> tuple[torch.Tensor, torch.Tensor]:
    torch.manual_seed(0)
    values, weights = torch.randn(5, width, 3, dtype=F64), torch.rand(5, width, dtype=F64)
    weights[4] = 0.0  # a row that has no weight
    return values.requires_grad_(), weights.requires_grad_()


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("width", [7, 130])  # the second is beyond one step of the tables
def test_contexts_and_gradients_are_those_of_lengths_that_are_read(alpha, combined, width, monkeypatch):
    attend, found = make(alpha, combined=combined), []
    for stays in (False, True):
        with monkeypatch.context() as patch:
            patch.setattr(Positions, "_stays_on_device", lambda *unused, stays=stays: stays)
            values, weights = draw(width)
            context, density = attend(values, weights, lengths=LENGTHS)
            slopes = torch.autograd.grad(context.square().sum(), (values, weights))
            found.append((context, density.mean, density.variance, *slopes))
    for read, kept in zip(*found, strict=True):
        assert torch.allclose(read, kept, rtol=0, atol=1e-9)


def test_operators_of_all_lengths_are_computed_once(on_device, monkeypatch):
    attend, (values, weights) = make(2.0), draw()
    first, _ = attend(values, weights, lengths=LENGTHS)
    monkeypatch.setattr(attend.fit, "_solve", lambda *unused: pytest.fail("computed again"))
    again, _ = attend(values, weights, lengths=LENGTHS)
    assert torch.equal(first, again)
    other, _ = attend(values[:2], weights[:2], lengths=torch.tensor([2, 6]))
    assert other.isfinite().all()


def test_second_derivatives(on_device):
    attend = make(2.0)
    values, weights = (t.detach()[:3].requires_grad_() for t in draw())

    def run(values, weights):
        return attend(values, weights, lengths=LENGTHS[:3])[0]

    assert gradcheck(run, (values, weights), atol=1e-6)
    assert gradgradcheck(run, (values, weights), atol=1e-5)


def test_a_mask_is_heeded_too(on_device, monkeypatch):
    attend, (values, weights), mask = make(1.0), draw(), torch.ones(5, 7, dtype=torch.bool)
    mask[0, 2] = False
    kept, _ = attend(values, weights, lengths=LENGTHS, mask=mask)
    monkeypatch.undo()
    read, _ = attend(values, weights, lengths=LENGTHS, mask=mask)
    assert torch.allclose(kept, read, rtol=0, atol=1e-9)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_a_graph_holds_the_step():
    attend = make(2.0, combined=True).cuda()
    values, weights = (t.detach().cuda() for t in draw())
    lengths = LENGTHS.cuda()
    attend(values, weights, lengths=lengths)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        context, _ = attend(values, weights, lengths=lengths)
    lengths.copy_(torch.tensor([2, 7, 4, 1, 3]))
    graph.replay()
    wanted, _ = attend(values, weights, lengths=[2, 7, 4, 1, 3])
    assert torch.allclose(context, wanted, rtol=0, atol=1e-9)
