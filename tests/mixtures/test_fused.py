"""Mixtures by one kernel for all iterations, against plain torch: where it is taken, and where it is not."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import omegamax
from mixtures.clouds import assert_same, cloud, double, moments
from omegamax import kernels
from omegamax.densities import Mixture
from omegamax.mixtures import AIC, BIC, MDL, Linear, _fitter, _fused, em_objective, select_components, weighted_em

X, W = cloud(3)
LINE, _ = cloud(3, n=1)
pytestmark = pytest.mark.skipif(
    not kernels.is_compiled("em", X), reason="omegamax was installed without compiled kernels"
)


@pytest.fixture
def calls(monkeypatch) -> list:
    """What the kernel is called with."""
    made: list = []
    fit = _fused.fit
    monkeypatch.setattr(_fitter._fused, "fit", lambda *given: made.append(given) or fit(*given))
    return made


def both(fit, *weights: Tensor) -> list[tuple[Mixture, Tensor]]:
    """Return the mixture and a gradient by the weights, from the kernel and from plain torch."""
    found = []
    for name in ("auto", "reference"):
        with omegamax.backend(name):
            leaf = (weights[0] if weights else W).clone().requires_grad_()
            p = fit(leaf, torch.Generator().manual_seed(1))
            g = torch.Generator().manual_seed(2)
            loss = sum((t * torch.randn(t.shape, generator=g, dtype=t.dtype)).sum() for t in moments(p))
            found.append((p, torch.autograd.grad(loss, leaf)[0]))
    return found


def check(fit, *weights: Tensor) -> None:
    (p, slope), (q, wanted) = both(fit, *weights)
    assert_same(p, q, atol=1e-11, rtol=1e-11)
    torch.testing.assert_close(slope, wanted, rtol=1e-9, atol=1e-11)


@pytest.mark.parametrize("x", [X, LINE, X + torch.rand(3, 1, 1, dtype=double)], ids=["plane", "line", "each"])
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"init": "kmeans++", "restarts": 3},
        {"init": "random", "used": torch.tensor([1, 3, 4]), "iterations": 2},
        {"spread": torch.tensor(0.2, dtype=double), "floor": torch.tensor([0.1, 1.0, 30.0], dtype=double)},
        {"mask": torch.arange(40) > 5, "alpha": 1.5},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_agrees_with_plain_torch(calls, x: Tensor, settings):
    check(lambda w, g: weighted_em(x, w, 4, **settings, generator=g))
    assert len(calls) == (2 if "restarts" in settings else 1)


@pytest.mark.parametrize("criterion", [BIC(), AIC(), Linear(0.5), MDL()], ids=repr)
def test_selection_agrees_with_plain_torch(calls, criterion):
    def select(w: Tensor, g: torch.Generator):
        return select_components(X, w, 3, criterion, 2, iterations=4, generator=g)

    check(select)
    assert len(calls) == (0 if isinstance(criterion, MDL) else 4)  # which prunes; three numbers, and the way once more
    (p, _), (q, _) = both(select)
    torch.testing.assert_close(p.scores, q.scores, rtol=1e-12, atol=1e-12)


def test_weights_of_any_layout_and_dtype(calls):
    check(lambda w, g: weighted_em(X, w.mT, 3), W.mT.contiguous())
    check(lambda w, g: weighted_em(X, w.double(), 3), W.bfloat16().float())
    (p, _), (q, _) = both(lambda w, g: weighted_em(X, w, 3), W.bfloat16())
    assert_same(p, q, atol=1e-6, rtol=1e-6)
    assert weighted_em(X, W[:0], 3).weights.shape == (0, 3)
    assert len(calls) == 4


def test_value_of_a_search_is_the_objective(calls, monkeypatch):
    values = []
    search = _fitter.Fitter.search
    monkeypatch.setattr(_fitter.Fitter, "search", lambda *given: values.append(search(*given)[1]) or search(*given))
    best = weighted_em(X, W, 4, 5, "random", restarts=8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(values[0], em_objective(X, W, best), rtol=1e-12, atol=1e-12)
    assert len(calls) == 2


@pytest.mark.parametrize(
    "settings",
    [
        {"tolerance": 1e-3},
        {"implicit": True},
        {"mixing": "sparsemax"},
        {"responsibilities": "sparsemax"},
        {"alpha": 2.0, "distance": "fenchel_young"},
        {"floor": torch.tensor(0.5, dtype=double, requires_grad=True)},
        {"spread": torch.tensor(0.5, dtype=double, requires_grad=True)},
        {"positions": X.clone().requires_grad_()},
        {"positions": cloud(3, n=3)[0]},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_plain_torch_does_what_the_kernel_does_not(calls, settings):
    settings = {"positions": X, **settings}
    wanted = [t for t in settings.values() if isinstance(t, Tensor) and t.requires_grad]
    p = weighted_em(weights=W.clone().requires_grad_(), components=2, **settings)
    assert not calls
    for slope in torch.autograd.grad(p.covariance_matrix.sum(), wanted) if wanted else ():
        assert slope.any()


@pytest.mark.parametrize("transform", ["vmap", "grad", "jvp", "dual"])
def test_transforms_take_plain_torch(calls, transform: str):
    def mean(w: Tensor) -> Tensor:
        return weighted_em(X, w, 2, 2).components.mean

    if transform == "vmap":
        found, wanted = torch.vmap(mean)(W), mean(W)
    elif transform == "grad":
        leaf = W.clone().requires_grad_()
        found, wanted = torch.func.grad(lambda w: mean(w).sum())(W), torch.autograd.grad(mean(leaf).sum(), leaf)[0]
    else:
        tangent = torch.randn_like(W)
        wanted = torch.func.jacrev(mean)(W).flatten(3) @ tangent.flatten()
        if transform == "jvp":
            found = torch.func.jvp(mean, (W,), (tangent,))[1]
        else:
            with torch.autograd.forward_ad.dual_level():
                dual = mean(torch.autograd.forward_ad.make_dual(W, tangent))
                found = torch.autograd.forward_ad.unpack_dual(dual).tangent
    assert len(calls) == (transform in ("vmap", "grad"))
    torch.testing.assert_close(found, wanted, rtol=1e-10, atol=1e-12)


def test_gradients_of_a_batch_are_those_of_a_loop(calls):
    leaf = W.clone().requires_grad_()
    mean = weighted_em(X, leaf, 2, 2).components.mean
    g = torch.randn(3, *mean.shape, dtype=double)
    each = torch.stack([torch.autograd.grad(mean, leaf, one, retain_graph=True)[0] for one in g])
    batched = torch.autograd.grad(mean, leaf, g, is_grads_batched=True, retain_graph=True)[0]
    torch.testing.assert_close(batched, each, rtol=1e-10, atol=1e-12)
    mapped = torch.vmap(lambda one: torch.autograd.grad(mean, leaf, one, retain_graph=True)[0])(g)
    torch.testing.assert_close(mapped, each, rtol=1e-10, atol=1e-12)
    assert len(calls) == 1


@pytest.mark.parametrize("n", [1, 2])
def test_second_derivatives(calls, n: int):
    x, w = cloud(2, points=5, n=n)
    check = lambda w: torch.cat([t.flatten(1) for t in moments(weighted_em(x, w, 2, 2, floor=0.01))], -1)  # noqa: E731
    assert torch.autograd.gradgradcheck(check, w.requires_grad_())
    assert calls


def test_repeats_itself():
    w = torch.rand(64, 196, dtype=double)
    x = torch.rand(196, 2, dtype=double)
    found = [both(lambda w, g: weighted_em(x, w, 4), w)[0] for _ in range(2)]
    for a, b in zip(moments(found[0][0]), moments(found[1][0]), strict=True):
        assert torch.equal(a, b)
    assert torch.equal(found[0][1], found[1][1])


def arguments(grad: bool) -> tuple:
    labels = torch.arange(80).reshape(2, 40) % 3
    floor, spread = torch.tensor([0.1, 0.2], dtype=double), torch.rand(2, 2, dtype=double)
    weights = (W[:2] / W[:2].sum(-1, keepdim=True)).requires_grad_(grad)
    return X.unsqueeze(0), weights, labels, floor, spread


@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
def test_operators_pass_the_checks_of_torch_library(grad: bool):
    given = arguments(grad)
    torch.library.opcheck(torch.ops.omegamax.weighted_em.default, (*given, 3, 2))
    if not grad:
        state, states, _ = torch.ops.omegamax.weighted_em(*given, 3, 2)
        torch.library.opcheck(torch.ops.omegamax.weighted_em_vjp.default, (*given, states, torch.randn_like(state)))


def test_second_derivative_of_a_traced_operator_is_refused_by_name():
    x, w, *rest = arguments(False)
    slope = torch.func.grad(lambda w: torch.ops.omegamax.weighted_em(x, w, *rest, 3, 2)[0].sum())
    assert slope(w).shape == w.shape
    with pytest.raises(RuntimeError, match="weighted_em: its kernel can be differentiated once where it is traced"):
        torch.func.grad(lambda w: slope(w).sum())(w)


def test_compiled_graph_holds_the_operator_and_an_exported_one_does_not():
    called = []

    def look(graph: torch.fx.GraphModule, _: list):
        called.append({str(node.target) for node in graph.graph.nodes if "omegamax" in str(node.target)})
        return graph.forward

    class Fit(torch.nn.Module):
        def forward(self, w: Tensor) -> Tensor:
            return weighted_em(X, w, 2, 1).components.mean

    torch._dynamo.reset()
    compiled = torch.compile(Fit(), backend=look, fullgraph=True)
    torch.testing.assert_close(compiled(W), Fit()(W))
    assert called == [{"omegamax.weighted_em.default"}]
    program = torch.export.export(Fit(), (W,))
    assert not any("omegamax" in str(node.target) for node in program.graph.nodes)
    torch.testing.assert_close(program.module()(W), Fit()(W))
