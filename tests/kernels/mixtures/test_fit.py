"""Mixtures in kernels that take arguments as they are, on a GPU or interpreted, against plain torch."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch._dynamo.backends.debugging import aot_eager

import omegamax
from omegamax import kernels
from omegamax.basis import grid_positions
from omegamax.densities import Mixture
from omegamax.mixtures import AIC, BIC, MDL, FixedDraws, Linear, select_components, weighted_em
from omegamax.mixtures._criteria import NO_PENALTY, find_penalty
from omegamax.nn import MultimodalAttention

F64 = torch.float64
DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
each_dimension = pytest.mark.parametrize("n", [1, 2])


@pytest.fixture(autouse=True)
def launched(monkeypatch, run_time_loops) -> list[str]:
    """Let tensors of the CPU count as ones for which there are these kernels; return the operations that run."""
    ran: list[str] = []
    load = kernels.load

    def note(op: str, name: str):
        ran.append(op)
        return load(op, name)

    monkeypatch.setattr(kernels, "load", note)
    if DEVICE == "cpu":
        wanted = lambda op, z: op == "fit_mixtures" and kernels.current_backend() == "auto"  # noqa: E731
        monkeypatch.setattr(kernels, "is_compiled", wanted)
    return ran


def cloud(*batch: int, points: int = 9, n: int = 2, seed: int = 0) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(seed)
    centres = 3 * torch.randn(4, n, generator=draw, dtype=F64)
    x = centres[torch.arange(points) % 4] + 0.7 * torch.randn(points, n, generator=draw, dtype=F64)
    return x, torch.rand(*batch, points, generator=draw, dtype=F64)


def moments(p: Mixture) -> tuple[Tensor, Tensor, Tensor]:
    return p.weights, p.components.mean, p.components.covariance_matrix


def both(fit, w: Tensor) -> list[tuple[Mixture, Tensor]]:
    """Return the mixture and a gradient by the weights, from the kernels and from plain torch."""
    found = []
    for name, device in (("auto", DEVICE), ("reference", "cpu")):
        with omegamax.backend(name):
            leaf = w.detach().clone().to(device).requires_grad_()
            p = fit(leaf, torch.Generator().manual_seed(1))
            g = torch.Generator().manual_seed(2)
            loss = sum((t * torch.randn(t.shape, generator=g, dtype=F64).to(t)).sum() for t in moments(p))
            found.append((p, torch.autograd.grad(loss, leaf)[0].cpu()))
    return found


def check(fit, w: Tensor, within: float = 1e-11) -> Mixture:
    (p, slope), (q, wanted) = both(fit, w)
    for a, b in zip(moments(p), moments(q), strict=True):
        torch.testing.assert_close(a.cpu(), b, rtol=within, atol=within, equal_nan=True)
    assert (slope - wanted).abs().nan_to_num().max() <= 10 * within * (1 + wanted.abs().nan_to_num().max())
    assert slope.dtype == wanted.dtype and slope.isfinite().equal(wanted.isfinite())
    return p


def on(w: Tensor, *tensors: Tensor | float | None) -> list:
    return [t.to(w.device) if isinstance(t, Tensor) else t for t in tensors]


@each_dimension
@pytest.mark.parametrize("components, iterations", [(1, 2), (2, 3), (3, 0), (5, 3), (9, 1)])
def test_split_agrees(launched, n, components, iterations):
    x, w = cloud(3, n=n)
    check(lambda w, g: weighted_em(*on(w, x), w, components, iterations, floor=0.01), w)
    assert launched == ["fit_mixtures", "fit_mixtures_vjp"]


@each_dimension
@pytest.mark.parametrize(
    "settings",
    [
        {"init": "kmeans++"},
        {"init": "random", "used": torch.tensor([1, 3, 4])},
        {"init": "split", "used": torch.tensor(3)},
        {"init": "kmeans++", "used": torch.tensor([0, 4, 99])},
        {"init": "split", "restarts": 3},
        {"init": "kmeans++", "restarts": 2, "used": torch.tensor([2, 4, 1])},
        {"init": "split", "restarts": 2, "used": torch.tensor([2, 4, 1])},
    ],
    ids=str,
)
def test_starts_are_those_of_plain_torch(launched, n, settings):
    x, w = cloud(3, n=n)

    def fit(w: Tensor, g: torch.Generator) -> Mixture:
        used = {"used": settings["used"].to(w.device)} if "used" in settings else {}
        return weighted_em(*on(w, x), w, 4, 2, floor=0.01, generator=g, **settings | used)

    check(fit, w)
    more = ["choose_start", "fit_mixtures"] if "restarts" in settings else []
    assert launched == ["fit_mixtures", *more, "fit_mixtures_vjp"]


@pytest.mark.parametrize("size", [(2, 2), (4, 3)])
@pytest.mark.parametrize("components", [2, 3, 4, 7])
@pytest.mark.parametrize("init", ["split", "kmeans++"])
def test_ties_are_broken_as_in_plain_torch(size, components, init):
    """Points of a grid are as near to one seed as to another, and on the line between two boxes."""
    x = omegamax.basis.grid_positions(size)
    w = torch.ones(2, len(x))
    w[1, 0] = 0.0

    def fit(w: Tensor, g: torch.Generator) -> Mixture:
        return weighted_em(*on(w, x), w, components, 0, init, spread=0.01, generator=g)

    check(fit, w, 1e-6)


@pytest.mark.parametrize("init", ["split", "kmeans++", "random"])
@pytest.mark.parametrize("criterion", [BIC(), AIC(), Linear(0.5)], ids=repr)
def test_selection_agrees(launched, criterion, init):
    x, w = cloud(2)

    def select(w: Tensor, g: torch.Generator) -> Mixture:
        return select_components(*on(w, x), w, 3, criterion, 2, iterations=2, init=init, generator=g)

    p = check(select, w)
    assert launched == ["fit_mixtures", "choose_start", "fit_mixtures", "fit_mixtures_vjp"]
    with torch.no_grad():
        again = select(w.to(DEVICE), torch.Generator().manual_seed(1))
    with omegamax.backend("reference"):
        plain = select(w, torch.Generator().manual_seed(1))
    torch.testing.assert_close(p.scores.cpu(), plain.scores, rtol=1e-11, atol=1e-11)
    for a, b in zip(moments(again), moments(p), strict=True):
        torch.testing.assert_close(a, b)


@each_dimension
@pytest.mark.parametrize(
    "settings",
    [
        {"spread": torch.tensor(0.2, dtype=F64), "floor": torch.tensor([0.1, 1.0, 30.0], dtype=F64)},
        {"spread": 0.2},
        {"spread": torch.tensor([[0.1], [0.2], [0.4]]), "floor": 0.3},
        {"mask": torch.arange(9) > 2},
        {"mask": torch.rand(3, 9, generator=torch.Generator().manual_seed(0)) < 0.6},
        {"floor": None},
    ],
    ids=lambda settings: ",".join(settings),
)
def test_arguments_agree(n, settings):
    x, w = cloud(3, n=n)
    if "floor" not in settings:
        settings = {**settings, "floor": 0.0}

    def fit(w: Tensor, g: torch.Generator) -> Mixture:
        given = {key: value.to(w.device) if isinstance(value, Tensor) else value for key, value in settings.items()}
        return weighted_em(*on(w, x), w, 3, 2, **given)

    check(fit, w)


@each_dimension
@pytest.mark.parametrize("shape", [(3, 1), (2,), (3, 2), (1, 2), (1, 1)])
def test_points_may_be_those_of_some_or_of_each(launched, n, shape):
    x, w = cloud(3, 2, points=7, n=n)
    x = x + torch.rand(*shape, 1, 1, dtype=F64)
    w[0, 0, 2] = w[1, 0, 2] = 0.0
    check(lambda w, g: weighted_em(*on(w, x), w, 2, 2), w)
    assert "fit_mixtures" in launched


@each_dimension
@pytest.mark.parametrize("init", ["split", "kmeans++"])
@pytest.mark.parametrize("length", [1, 3, 300])  # fewer than components, and more than a block
def test_few_points_and_many(n, init, length):
    x, w = cloud(2, points=length, n=n)
    check(lambda w, g: weighted_em(*on(w, x), w, 4, 2, init, generator=g), w)


def test_rounding_does_not_say_on_which_side_of_a_cut_points_are():
    """The middle row of a grid lies on the cut, and devices differ in the last digit of its position."""
    x = grid_positions((5, 7))
    w = torch.rand(3, 35)
    first = weighted_em(*on(w.to(DEVICE), x), w.to(DEVICE), 2, 3)
    for other in (x.nextafter(x + 1), x.nextafter(x - 1), x + 1e-7 * torch.randn_like(x)):
        p = weighted_em(*on(w.to(DEVICE), other), w.to(DEVICE), 2, 3)
        torch.testing.assert_close(p.weights, first.weights, rtol=1e-5, atol=0)


def test_weights_of_any_precision_and_layout():
    x, w = cloud(3)
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        check(lambda w, g: weighted_em(*on(w, x.to(dtype)), w, 3, 3), w.to(dtype), 1e-5)  # noqa: B023
    check(lambda w, g: weighted_em(*on(w, x), w.mT, 3, 3), w.mT.contiguous())
    check(lambda w, g: weighted_em(*on(w, x), w.expand(2, 9), 3, 3), w[0])
    assert weighted_em(x.to(DEVICE), w[:0].to(DEVICE), 3).weights.shape == (0, 3)


# The interpreter divides by zero in rows that are lost.
@pytest.mark.filterwarnings("ignore:(invalid value|divide by zero|All-NaN slice|overflow) encountered:RuntimeWarning")
@each_dimension
@pytest.mark.parametrize("init", ["split", "kmeans++"])
@pytest.mark.parametrize("masked", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_hostile_rows(n, init, masked, dtype):
    """One point, two, none, NaN, inf, weights too small for a sum, all masked; points that are nowhere."""
    x, w = cloud(9, points=8, n=n)
    w[0], w[1], w[2], w[3, 1], w[4, 2], w[5] = 0.0, 0.0, 0.0, math.nan, math.inf, 1e-320
    w[0, 3], w[1, [0, 6]] = 1.0, 0.5
    w[:, 7] = 0.0
    w[8] *= 1e-20
    x = x.repeat(9, 1, 1)
    x[6, 2], x[7, 7] = math.nan, math.inf  # one with weight, and one without
    mask = torch.ones(9, 8, dtype=torch.bool)
    if masked:
        mask[2], mask[3, 1], mask[6, 2] = False, False, False
    for shared in (False, True):
        points = (x[0] if shared else x).to(dtype)
        p = check(
            lambda w, g: weighted_em(*on(w, points), w, 3, 2, init, mask=mask.to(w.device), generator=g),  # noqa: B023
            w.to(dtype),
            1e-10 if dtype is F64 else 1e-5,
        )
        lost = [] if masked else [3]
        assert p.weights.isnan().all(-1).nonzero().flatten().tolist() == lost + [4] + (
            [6] if not (shared or masked) else []
        )


def test_choice_of_an_own_criterion_and_of_one_that_prunes(launched):
    class Dearer(BIC):
        def score(self, objective: Tensor, size: Tensor, weights: Tensor, dimension: int) -> Tensor:
            assert weights.shape[:-1] == size.shape == objective.shape
            return super().score(objective, size, weights, dimension) + (weights > 0).sum(-1)

    x, w = cloud(2)
    for criterion, kernels_run in ((Dearer(), True), (Linear(math.inf), True), (MDL(), False)):
        check(lambda w, g: select_components(*on(w, x), w, 3, criterion, 1, iterations=2, generator=g), w)  # noqa: B023
        assert bool(launched) == kernels_run
        launched.clear()


def choose_plainly(values: Tensor, scores: Tensor, candidates: int, restarts: int) -> tuple[list[int], list]:
    """Choose one example's start as the text says."""
    first = len(values) - (candidates - 1) * restarts
    groups = [range(first), *(range(first + k * restarts, first + (k + 1) * restarts) for k in range(candidates - 1))]
    starts = []
    for group in groups:
        top = max(values[i].item() for i in group)
        starts.append(next(i for i in group if values[i] >= top - 1e-9 * max(abs(top), 1)))
    table = [scores[i].item() for i in starts]
    least = min(table)
    return starts[next(k for k, s in enumerate(table) if s <= least + 1e-9 * max(abs(least), 1))], table


@pytest.mark.parametrize("candidates, restarts", [(1, 1), (1, 4), (3, 1), (4, 2)])
def test_choice_is_the_first_of_the_best(candidates, restarts):
    starts, examples, components = 1 + (candidates - 1) * restarts if candidates > 1 else restarts, 200, 4
    values = torch.randint(-2, 3, (starts, examples), dtype=F64) + 1e-12 * torch.randn(starts, examples, dtype=F64)
    pi, mean = torch.rand(starts, examples, components).round(), torch.rand(starts, examples, components, 2)
    cov, sums = torch.rand(starts, examples, components, 2, 2), 1 + 9 * torch.rand(examples, 2, dtype=F64)
    cases = [(torch.randint(0, 3, (starts, examples), dtype=F64), NO_PENALTY)]
    cases += [(None, find_penalty(criterion, 2)) for criterion in (BIC(), AIC(), Linear(0.3))]
    for scores, penalty in cases:
        given = [t if t is None else t.to(DEVICE) for t in (values, scores, sums, pi, mean, cov)]
        found = kernels.load("choose_start", "triton")(*given, candidates, restarts, penalty, True)
        index, table, *copies = (t.cpu() for t in found)
        if scores is None:
            criterion = next(c for c in (BIC(), AIC(), Linear(0.3)) if find_penalty(c, 2) == penalty)
            scores = criterion.score(values, sums[:, 1].expand(values.shape), pi.to(F64), 2)
        for i in range(examples):
            start, wanted = choose_plainly(values[:, i], scores[:, i], candidates, restarts)
            assert index[i] == start
            torch.testing.assert_close(table[:, i], torch.tensor(wanted, dtype=F64), rtol=1e-13, atol=1e-13)
            for copied, given in zip(copies, (pi, mean, cov), strict=True):
                assert torch.equal(copied[i], given[start, i])


def test_value_that_is_no_number_chooses_the_first():
    values = torch.tensor([[0.0, 1.0], [math.nan, 2.0], [5.0, 9.0]], dtype=F64, device=DEVICE)
    moments = [torch.rand(3, 2, *rest, device=DEVICE) for rest in ((2,), (2, 1), (2, 1, 1))]
    sums = torch.ones(2, 2, dtype=F64, device=DEVICE)
    index, table, *_ = kernels.load("choose_start", "triton")(
        values, None, sums, *moments, 2, 2, find_penalty(Linear(0.0), 1), False
    )
    assert index.tolist() == [0, 2] and table[1, 0].isnan() and not table[:, 1].isnan().any()


def test_gradient_of_one_result_alone_and_of_several_at_once(launched):
    x, w = (t.to(DEVICE) for t in cloud(2))
    found = []
    for name in ("auto", "reference"):
        with omegamax.backend(name):
            leaf = w.clone().requires_grad_()
            mean = weighted_em(x, leaf, 2, 2).components.mean
            g = torch.arange(2 * mean.numel(), dtype=F64, device=DEVICE).reshape(2, *mean.shape).cos()
            each = [torch.autograd.grad(mean, leaf, one, retain_graph=True)[0] for one in (*g, g[0].mT.contiguous().mT)]
            batched = torch.autograd.grad(mean, leaf, g, is_grads_batched=True)[0]
            found.append(torch.stack([*each, *batched]))
    torch.testing.assert_close(*found, rtol=1e-10, atol=1e-11)
    assert "fit_mixtures_vjp" in launched


@each_dimension
def test_second_derivatives(launched, n):
    x, w = (t.to(DEVICE) for t in cloud(1, points=4, n=n))
    mask = torch.tensor([True, True, True, False], device=DEVICE)

    def fit(w: Tensor) -> Tensor:
        p = weighted_em(x, w, 2, 1, floor=0.01, mask=mask)
        return torch.cat([t.flatten(1) for t in moments(p)], -1)

    assert torch.autograd.gradgradcheck(fit, w.requires_grad_(), fast_mode=True)
    assert launched


@pytest.mark.parametrize("components", ["fixed", "selected"])
def test_layer_agrees(launched, components):
    basis = omegamax.basis.GaussianRBF.grid(4, 2, 0.04)
    layer = MultimodalAttention(basis, 3, components=components, positions=(3, 4), iterations=2, restarts=2).eval()
    values, scores = torch.randn(2, 12, 3), torch.randn(2, 12)
    found = []
    for name, device in (("auto", DEVICE), ("reference", "cpu")):
        with omegamax.backend(name):
            v, z = (t.to(device).requires_grad_() for t in (values.clone(), scores.clone()))
            context, p = layer.to(device)(v, z.softmax(-1))
            slopes = torch.autograd.grad(context.square().sum(), (v, z))
            found.append([t.cpu() for t in (context, p.weights, p.component_count, *slopes)])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert launched[0] == "fit_mixtures"


@pytest.mark.parametrize("kind", ["fit", "restarts", "select"])
def test_compiled_graph_holds_the_operators(kind):
    x, w = (t.to(DEVICE) for t in cloud(2))
    seen: set[str] = set()

    def look(graph: torch.fx.GraphModule, given: list):
        seen.update(str(node.target) for node in graph.graph.nodes if "omegamax" in str(node.target))
        return aot_eager(graph, given)

    def fit(w: Tensor) -> Tensor:
        if kind == "select":
            return select_components(x, w, 2, BIC(), 2, iterations=1, generator=FixedDraws()).components.mean
        restarts = 2 if kind == "restarts" else 1
        return weighted_em(x, w, 2, 1, restarts=restarts, generator=FixedDraws()).components.mean

    torch._dynamo.reset()
    leaves = [w.clone().requires_grad_() for _ in range(2)]
    means = torch.compile(fit, backend=look, fullgraph=True)(leaves[0]), fit(leaves[1])
    torch.testing.assert_close(*means)
    torch.testing.assert_close(*(torch.autograd.grad(m.sum(), leaf)[0] for m, leaf in zip(means, leaves, strict=True)))
    more = {"omegamax.choose_start.default", "omegamax.fixed_draws.default"} if kind != "fit" else set()
    assert seen == {"omegamax.fit_mixtures.default", *more}


@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
def test_operators_pass_the_checks_of_torch_library(grad):
    x, w = (t.to(DEVICE) for t in cloud(2, points=5))
    numbers = (2, 1, False, "split", 1, 2.0**-40, False)
    given = (x, w.requires_grad_(grad), torch.ones(5, dtype=torch.bool, device=DEVICE), *(None,) * 6, *numbers)
    torch.library.opcheck(torch.ops.omegamax.fit_mixtures.default, given)
    if grad:
        return
    pi, mean, cov, values, labels, sums, *kept = torch.ops.omegamax.fit_mixtures(*given[:-1], True)
    torch.library.opcheck(
        torch.ops.omegamax.choose_start.default, (values, None, sums, pi, mean, cov, 1, 1, [0.0, 1.0, 1.0, 0.0], True)
    )
    pi, mean, cov, _, labels, _, *kept = torch.ops.omegamax.fit_mixtures(*given)
    torch.library.opcheck(torch.ops.omegamax.fit_mixtures_vjp.default, (w, None, labels, *kept, pi, mean, cov))
