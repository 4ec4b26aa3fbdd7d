"""A map is launched again without its checks only where these would find what they found before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import omegamax
from omegamax import kernels
from omegamax.maps.entmax import _entmax

DTYPES = (torch.float32, torch.bfloat16)


class Kept:
    """What stands for a launch: tells what it is given, and gives something that no map does."""

    def __init__(self):
        self.given: list[Tensor] = []

    def fill(self, z: Tensor) -> Tensor:
        self.given.append(z)
        return torch.full_like(z, 7.0)


@pytest.fixture
def kept(monkeypatch) -> Kept:
    """Launches of sparsemax on the CPU that are kept for scores ``[3, 4]`` in two precisions."""
    launch = Kept()
    shape, device = torch.zeros(3, 4).shape, torch.device("cpu")
    keys = [("entmax", 2.0, shape, dtype, device) for dtype in DTYPES]
    monkeypatch.setattr(kernels, "kept_launches", dict.fromkeys(keys, launch))
    return launch


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim", [-1, 1])
def test_scores_like_those_before(kept, dtype, dim):
    z = torch.randn(3, 4, dtype=dtype)
    assert (_entmax.launch_again(z, 2.0, dim) == 7).all()
    assert kept.given[0] is z


@pytest.mark.parametrize(
    "z, alpha, dim",
    [
        (torch.zeros(4, 3), 2.0, -1),
        (torch.zeros(3, 4, dtype=torch.float64), 2.0, -1),
        (torch.zeros(4, 3).T, 2.0, -1),
        (torch.zeros(3, 4, device="meta"), 2.0, -1),
        (torch.zeros(3, 4).to_sparse(), 2.0, -1),
        (torch.zeros(3, 4), 1.5, -1),
        (torch.zeros(3, 4), 2.0, 0),
        (torch.zeros(3, 4), 2.0, 5),
        (torch.zeros(3, 4), 2.0, -1.0),
        (torch.zeros(3, 4), 2.0, True),
    ],
)
def test_other_scores(kept, z, alpha, dim):
    assert _entmax.launch_again(z, alpha, dim) is None


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_scores(kept):
    assert _entmax.launch_again(torch.nested.nested_tensor([torch.zeros(4)] * 3), 2.0, -1) is None


@pytest.mark.filterwarnings("ignore:.*torch.jit.trace:DeprecationWarning")
def test_other_states_of_torch(kept):
    z = torch.randn(3, 4)
    refused = []

    def note(x: Tensor) -> Tensor:
        refused.append(_entmax.launch_again(x, 2.0, -1))
        return x.sum()

    torch.func.vmap(note)(torch.randn(2, 3, 4))
    torch.func.grad(note)(z)
    torch.func.jvp(note, (z,), (z,))
    torch.jit.trace(note, z, check_trace=False)
    with forward_ad.dual_level():
        note(forward_ad.make_dual(z, z))
    with FakeTensorMode() as mode:
        note(mode.from_tensor(z))
    with omegamax.backend("reference"):
        note(z)
    with omegamax.backend("cpu"):
        note(z)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        note(z.bfloat16())
    x = torch.randn(2, 3, 4, requires_grad=True)
    torch.autograd.grad(Noted.apply(x[0], note), x, torch.ones(5, 3, 4), is_grads_batched=True)
    assert len(refused) == 10 and not any(p is not None for p in refused) and not kept.given


class Noted(torch.autograd.Function):
    """Shows a gradient to a function."""

    @staticmethod
    def forward(ctx, x, note):
        ctx.note = note
        return x.clone()

    @staticmethod
    def backward(ctx, g):
        ctx.note(g)
        return g, None


def test_not_compiled(kept):
    compiled = torch.compile(lambda z: _entmax.launch_again(z, 2.0, -1), backend="eager", fullgraph=True)
    assert compiled(torch.randn(3, 4)) is None


def test_scores_that_need_a_gradient(kept):
    z = torch.randn(3, 4, requires_grad=True)
    p = _entmax.launch_again(z, 2.0, -1)
    torch.testing.assert_close(p, omegamax.sparsemax(z))
    g = torch.randn(3, 4)
    (got,), (wanted,) = torch.autograd.grad(p, z, g), torch.autograd.grad(omegamax.sparsemax(z), z, g)
    assert torch.equal(got, wanted) and not kept.given
    with torch.no_grad():
        assert (_entmax.launch_again(z, 2.0, -1) == 7).all()
