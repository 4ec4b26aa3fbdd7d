"""Forward mode of every differentiable operation under everything that torch does to functions and tensors.

A tangent is right, or asking for it is an error; it is never lost on the way, which would leave zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.func import functionalize, grad, jacfwd, jacrev, jvp, linearize, vmap
from torch.fx.experimental.proxy_tensor import make_fx
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map
from torch.utils.checkpoint import checkpoint

import omegamax
from contracts.records import RECORDS
from omegamax.basis import GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.structured import Subsets, sparsemap

F64 = torch.float64
ROWS, SIZE = 3, 6
generator = torch.Generator().manual_seed(7)
# No views of one draw: torch.compile fails on duals of views, those of torch.softmax too.
Z, T, Y = (torch.randn(ROWS, SIZE, dtype=F64, generator=generator) for _ in range(3))
Y = Y.softmax(-1)
INDEX = torch.tensor([0, 3, 5])
WEIGHT = torch.randn(5, SIZE, dtype=F64, generator=generator)
LOSSES = ("sparsemax_loss", "entmax15_loss", "entmax_loss", "normmax_loss")


def expectation(z: Tensor) -> Tensor:
    scale = torch.diag_embed(0.1 + z[:, 2:4].square()) + 0.05
    return BetaGaussian(z[:, :2].sigmoid(), scale, alpha=1.7).expect(GaussianRBF.grid(2, 2, 0.05))


OPERATIONS: dict[str, Callable[[Tensor], Tensor]] = {record.name: record for record in RECORDS}
OPERATIONS |= {name: partial(getattr(omegamax, name), target=INDEX, reduction="none") for name in LOSSES}
OPERATIONS |= {
    "entmax by alpha": lambda z: omegamax.entmax(Y.log(), 1.2 + 0.1 * z[:, :1].sigmoid()),
    "normmax by alpha": lambda z: omegamax.normmax(Y, 1.5 + z[:, :1].sigmoid()),
    "k_subsets by k": lambda z: omegamax.k_subsets(Y, 2 + z[:, :1].sigmoid()),
    "k_subsets at most": lambda z: omegamax.k_subsets(z, 2, at_most=True),
    "constrained_softmax by upper": lambda z: omegamax.constrained_softmax(9 * Y, 0.3 + 0.1 * z.sigmoid()),
    "constrained_sparsemax by bounds": lambda z: omegamax.constrained_sparsemax(
        3 * Y, 0.4 + 0.1 * z.sigmoid(), lower=0.05 * z.sigmoid()
    ),
    "fusedmax by strength": lambda z: omegamax.fusedmax(Y, 0.02 * z[:, :1].sigmoid()),
    "sequential_k_subsets by transition": lambda z: omegamax.sequential_k_subsets(3 * Y, 2, 0.1 * z[:, 1:]),
    "entmax_loss by alpha": lambda z: omegamax.entmax_loss(
        z, INDEX, alpha=1.2 + z[0, 0].sigmoid(), label_smoothing=0.1, reduction="none"
    ),
    "fenchel_young_loss by target": lambda z: omegamax.fenchel_young_loss(Y, z.softmax(-1), "entmax15", "none"),
    "fenchel_young_loss of a sequence": lambda z: omegamax.fenchel_young_loss(
        z, omegamax.sequential_k_subsets(2 * Y, 2, 0.3), omegamax.SequentialKSubsets(2, 0.3), "none"
    ),
    "conjugate": lambda z: omegamax.Tsallis(1.5).conjugate(z),
    "linear_entmax_loss": lambda z: omegamax.linear_entmax_loss(z, WEIGHT, torch.tensor([0, 3, 4]), chunk=2),
    "linear_entmax_loss of tokens": lambda z: omegamax.linear_entmax_loss(
        Y, WEIGHT * z.mean(0), torch.tensor([0, -100, 4]), reduction="none"
    ),
    "linear_entmax_loss by alpha": lambda z: omegamax.linear_entmax_loss(
        z, WEIGHT, torch.tensor([0, 3, 4]), alpha=1.2 + z[0, 0].sigmoid(), bias=z[0, :5], label_smoothing=0.1
    ),
    "attention": lambda z: omegamax.nn.attention(z, z, z, "entmax15"),
    "expectation": expectation,
    "sparsemap": lambda z: sparsemap(z, Subsets(2)),
}


class Watching(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Overriding(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        return function(*args, **(kwargs or {}))


class Named(Tensor):
    """A subclass by ``__torch_function__``."""


class Wrapped(Tensor):
    """A subclass by ``__torch_dispatch__``, without memory of its own."""

    @staticmethod
    def __new__(cls, inner):
        like = {"dtype": inner.dtype, "device": inner.device, "strides": inner.stride()}
        return Tensor._make_wrapper_subclass(cls, inner.shape, requires_grad=inner.requires_grad, **like)

    def __init__(self, inner):
        self.inner = inner

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        def bare(x):
            return x.inner if isinstance(x, Wrapped) else x

        out = function(*tree_map(bare, args), **tree_map(bare, kwargs or {}))
        return tree_map(lambda x: Wrapped(x) if isinstance(x, Tensor) else x, out)


def tangent(f, z: Tensor = Z, t: Tensor = T) -> Tensor:
    return jvp(f, (z,), (t,))[1]


def dual(f, wrap=lambda x: x) -> Tensor:
    with forward_ad.dual_level():
        found = forward_ad.unpack_dual(f(forward_ad.make_dual(wrap(Z), wrap(T)))).tangent
    assert found is not None, "the tangent was lost"
    return found.inner if isinstance(found, Wrapped) else found.as_subclass(Tensor) if type(found) is Named else found


def dual_inside(f) -> Callable[[Tensor, Tensor], Tensor]:
    def inside(z, t):
        with forward_ad.dual_level():
            return forward_ad.unpack_dual(f(forward_ad.make_dual(z, t))).tangent

    return inside


def under(mode, f) -> Tensor:
    with mode:
        return dual(f)


class Derivative(nn.Module):
    def __init__(self, f):
        super().__init__()
        self.f = f

    def forward(self, z, t):
        return tangent(self.f, z, t)


def compiled(f):
    torch._dynamo.reset()
    return torch.compile(f, backend="aot_eager")


TRANSFORMS = {
    "jvp": tangent,
    "dual": dual,
    "jacfwd": lambda f: (jacfwd(f)(Z) * T).sum((-1, -2)),
    "jvp of vmap": lambda f: tangent(lambda z: vmap(f)(z[None]))[0],
    "vmap of jvp": lambda f: vmap(lambda z, t: tangent(f, z, t))(Z.expand(2, -1, -1), torch.stack([T, 2 * T]))[0],
    "vmap over directions": lambda f: vmap(lambda t: tangent(f, Z, t))(torch.stack([T, 2 * T]))[1] / 2,
    "linearize": lambda f: linearize(f, Z)[1](T),
    "make_fx": lambda f: make_fx(lambda z, t: tangent(f, z, t))(Z, T)(Z, T),
    "dispatch mode": lambda f: under(Watching(), f),
    "function mode": lambda f: under(Overriding(), f),
    "subclass": lambda f: dual(f, lambda x: x.as_subclass(Named)),
    "wrapper": lambda f: dual(f, Wrapped),
    "functionalize inside": lambda f: tangent(functionalize(f)),
    "functionalize outside": lambda f: functionalize(lambda z, t: tangent(f, z, t))(Z, T),
    "checkpoint": lambda f: tangent(lambda z: checkpoint(f, z, use_reentrant=False)),
}
COMPILED = {
    "compile of jvp": lambda f: compiled(lambda z, t: tangent(f, z, t))(Z, T),
    "compile of dual": lambda f: compiled(dual_inside(f))(Z, T),
    "jvp of compile": lambda f: tangent(compiled(f)),
    "export": lambda f: torch.export.export(Derivative(f), (Z, T)).module()(Z, T),
}
# What is an error: values steer the search of sparsemap, and torch.func knows no functionalize for it.
REFUSED = {("sparsemap", name) for name in ("linearize", "make_fx", "export")}
REFUSED |= {("sparsemap", f"functionalize {where}") for where in ("inside", "outside")}
REFUSED |= {("sparsemap", "vmap of jvp")}
# Operations that make constants (indices, a basis): an exported jvp returns fake tensors, which are no numbers at all.
MADE_INSIDE = {"expectation", "graph_fusedmax", "entmax_loss by alpha", *LOSSES}
WARNINGS = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
every_operation = pytest.mark.parametrize("operation", OPERATIONS)


def differences(f, h: float = 1e-6) -> Tensor:
    with torch.no_grad():
        return (f(Z + h * T) - f(Z - h * T)) / (2 * h)


@cache
def reason_of_softmax(name: str) -> str | None:
    """Why torch's own softmax has no tangent under this transform; None: it has."""
    try:
        (TRANSFORMS | COMPILED)[name](partial(torch.softmax, dim=-1))
    except Exception as error:
        return f"torch.softmax has no tangent here either: {error}"[:200]
    return None


def check(operation: str, name: str, transform) -> None:
    if reason := reason_of_softmax(name):
        pytest.skip(reason)
    f = OPERATIONS[operation]
    wanted = differences(f)
    assert wanted.abs().max() > 1e-3, "a tangent of zero would prove nothing"
    if (operation, name) in REFUSED:
        with pytest.raises(Exception, match=r"sparsemap: |Functionalize rule"):
            transform(f)
        return
    assert (transform(f) - wanted).abs().max() <= 1e-7 * (1 + wanted.abs().max())


@every_operation
@pytest.mark.parametrize("name", TRANSFORMS)
@WARNINGS
def test_tangent_is_right_or_refused(operation: str, name: str):
    check(operation, name, TRANSFORMS[name])


# jvp makes duals itself: one operation of each kind by hand.
DUAL = {"entmax", "entmax_loss", "attention", "expectation", "sparsemap"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, operation", [(n, o) for n in COMPILED for o in OPERATIONS if n != "compile of dual" or o in DUAL]
)
@WARNINGS
def test_compiled_tangent_is_right_or_refused(operation: str, name: str):
    if name == "export" and operation in MADE_INSIDE:
        pytest.skip("torch.export does not follow tensors that are made inside torch.func.jvp")
    check(operation, name, COMPILED[name])


@pytest.mark.parametrize("operation", ["entmax", "entmax_loss", "attention"])
@WARNINGS
def test_compiled_jvp_is_right(operation: str):
    check(operation, "compile of jvp", COMPILED["compile of jvp"])


ONCE = {name for name in OPERATIONS if name.startswith("linear_entmax_loss")}


@every_operation
@pytest.mark.parametrize("outer, inner", [(jacfwd, jacrev), (jacrev, jacfwd), (jacfwd, jacfwd), (jacrev, jacrev)])
def test_second_derivatives_agree_or_are_refused(operation: str, outer, inner):
    f = OPERATIONS[operation]
    with torch.no_grad():
        shape = f(Z).shape
    weights = torch.linspace(-1, 1, shape.numel(), dtype=F64).reshape(shape) + 0.25

    def total(z: Tensor) -> Tensor:
        return (weights * f(z)).sum()

    if operation in ONCE and not (outer is inner is jacfwd) and not (outer, inner) == (jacrev, jacfwd):
        with pytest.raises(RuntimeError, match="can be differentiated once"):
            outer(inner(total))(Z)
        return
    if operation == "expectation" and outer is inner is jacfwd:
        with pytest.raises(NotImplementedError, match=r"expect: no derivative in forward mode"):
            outer(inner(total))(Z)
        return
    found = (outer(inner(total))(Z) * T).sum((-1, -2))
    if operation in ONCE:
        # Its gradient has no derivative, its tangent does.
        step = 1e-5
        wanted = (jacfwd(total)(Z + step * T) - jacfwd(total)(Z - step * T)) / (2 * step)
    else:
        wanted = (grad(total)(Z + 1e-5 * T) - grad(total)(Z - 1e-5 * T)) / 2e-5
    assert (found - wanted).abs().max() <= 1e-7 * (1 + wanted.abs().max())


@pytest.mark.parametrize("op", sorted(n for n in torch._C._dispatch_get_all_op_names() if n.startswith("omegamax::")))
def test_no_operation_leaves_forward_mode_to_torch_library(op: str):
    """``custom_op`` drops tangents: every operation is registered with rules for both modes."""
    kernel = torch._C._dispatch_dump(op)
    assert "Autograd[alias]: registered at" in kernel
    assert "torch/_library" not in kernel.split("Autograd[alias]")[1].splitlines()[0]
