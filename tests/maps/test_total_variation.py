"""Proximal operators of total variation against quadratic programs, with derivatives in every mode."""

from __future__ import annotations

import math
import warnings

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.autograd import gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, jvp, vjp, vmap

from omegamax import backend, tv_prox_1d, tv_prox_2d, tv_prox_graph

F64 = torch.float64
inf, nan = math.inf, math.nan
# Two triangles joined by a bridge, one edge twice, a node alone.
EDGES = torch.tensor([[0, 1, 2, 2, 3, 4, 5, 1], [1, 2, 0, 3, 4, 5, 3, 0]])
WEIGHTS = torch.tensor([1.0, 0.5, 2.0, 0.75, 1.0, 0.25, 1.5, 0.5], dtype=F64)
NODES = 7


def on_chain(x: Tensor, strength: float | Tensor) -> Tensor:
    return tv_prox_1d(x, strength)


def on_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    return tv_prox_2d(x, strength)


def on_graph(x: Tensor, strength: float | Tensor) -> Tensor:
    return tv_prox_graph(x, EDGES, strength, weights=WEIGHTS)


PROXES = {"chain": (on_chain, (NODES,)), "grid": (on_grid, (3, 3)), "graph": (on_graph, (NODES,))}
every_prox = pytest.mark.parametrize("prox, shape", PROXES.values(), ids=PROXES)
NAMES = {on_chain: "tv_prox_1d", on_grid: "tv_prox_2d", on_graph: "tv_prox_graph"}
both_backends = pytest.mark.parametrize("kind", ["auto", "reference"])


def draw(*shape: int, seed: int = 0, dtype: torch.dtype = F64) -> Tensor:
    return torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed)).to(dtype)


def pairs_of(prox, shape: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The edges and their weights of each of the three."""
    if prox is on_graph:
        return EDGES, WEIGHTS
    cells = torch.arange(math.prod(shape)).reshape(shape)
    pairs = [torch.stack([cells.narrow(d, 0, n - 1), cells.narrow(d, 1, n - 1)]) for d, n in enumerate(shape)]
    edges = torch.cat([p.flatten(1) for p in pairs], -1)
    return edges, torch.ones(edges.shape[1], dtype=F64)


def program(x: Tensor, edges: Tensor, limits: Tensor) -> tuple[Tensor, float]:
    """The operator by an interior-point solver, and the value of its objective."""
    import cvxpy as cp

    w = cp.Variable(len(x))
    i, j = edges.numpy()
    objective = cp.sum_squares(w - x.numpy()) / 2 + limits.numpy() @ cp.abs(w[i] - w[j])
    problem = cp.Problem(cp.Minimize(objective))
    tolerances = dict.fromkeys(("tol_gap_abs", "tol_gap_rel", "tol_feas", "tol_ktratio"), 1e-12)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the solver says when it stops short of 1e-12; the test measures how short
        problem.solve(solver=cp.CLARABEL, **tolerances)
    return torch.from_numpy(w.value), problem.value


@both_backends
@every_prox
@pytest.mark.parametrize("strength", [0.05, 0.3, 1.0, 20.0])
def test_result_agrees_with_a_quadratic_program(prox, shape: tuple[int, ...], strength: float, kind: str):
    edges, weights = pairs_of(prox, shape)
    for seed in range(3):
        x = draw(*shape, seed=seed)
        with backend(kind):
            w = prox(x, strength).flatten()
        truth, value = program(x.flatten(), edges, strength * weights)
        assert (w - truth).abs().max() <= 1e-8
        i, j = edges
        ours = (w - x.flatten()).square().sum() / 2 + (strength * weights * (w[i] - w[j]).abs()).sum()
        assert -1e-9 <= value - ours.item() <= 1e-9


def test_example_by_hand():
    x = torch.tensor([3.0, 1.0, 2.0, 8.0], dtype=F64)
    assert torch.equal(tv_prox_1d(x, 0.5), torch.tensor([2.5, 2.0, 2.0, 7.5], dtype=F64))
    assert (tv_prox_1d(x, 2.0) - torch.tensor([8 / 3, 8 / 3, 8 / 3, 6.0], dtype=F64)).abs().max() <= 1e-15
    assert torch.equal(tv_prox_1d(x, 100.0), torch.full((4,), 3.5, dtype=F64))


@every_prox
def test_groups_are_equal_to_the_last_bit(prox, shape: tuple[int, ...]):
    edges, _ = pairs_of(prox, shape)
    x = 0.1 * draw(20, *shape)
    w = prox(x, 0.05).flatten(1)
    steps = (w[:, edges[0]] - w[:, edges[1]]).abs()
    assert ((steps == 0) | (steps > 1e-9)).all() and (steps == 0).any() and (steps > 0).any()


@every_prox
@pytest.mark.parametrize("strength", [0.2, 0.7])
def test_first_derivative_matches_finite_differences(prox, shape: tuple[int, ...], strength: float):
    x, s = draw(2, *shape).requires_grad_(), torch.tensor(strength, dtype=F64, requires_grad=True)
    options = dict.fromkeys(("check_forward_ad", "check_batched_grad", "check_batched_forward_grad"), True)
    assert gradcheck(prox, (x, s), atol=1e-7, **options)


@every_prox
def test_second_derivative_matches_finite_differences(prox, shape: tuple[int, ...]):
    x, s = draw(1, *shape).requires_grad_(), torch.tensor(0.4, dtype=F64, requires_grad=True)
    assert gradgradcheck(prox, (x, s), atol=1e-7, check_fwd_over_rev=True)


@every_prox
def test_each_row_may_have_its_own_strength(prox, shape: tuple[int, ...]):
    x = draw(4, *shape).requires_grad_()
    s = torch.tensor([0.0, 0.1, 0.5, 30.0], dtype=F64).reshape(4, *(1 for _ in shape)).requires_grad_()
    w = prox(x, s)
    for row in range(4):
        assert torch.equal(w[row], prox(x[row], s[row].item()))
    g = draw(4, *shape, seed=1)
    grads = torch.autograd.grad(w, (x, s), g)
    for row in range(1, 4):
        inputs = [t[row].detach().requires_grad_() for t in (x, s)]
        alone = torch.autograd.grad(prox(*inputs), inputs, g[row])
        assert all((a[row] - b).abs().max() <= 1e-14 for a, b in zip(grads, alone, strict=True))


@pytest.mark.parametrize("dim", [0, 1, 2, -1, -3])
def test_any_axis_will_do(dim: int):
    x = draw(NODES, NODES, NODES)
    g, each = draw(NODES, NODES, NODES, seed=1), draw(NODES, NODES, seed=2).abs()
    for on_last, along in (
        (lambda x, s: tv_prox_1d(x, s), lambda x, s: tv_prox_1d(x, s, dim)),
        (lambda x, s: tv_prox_graph(x, EDGES, s), lambda x, s: tv_prox_graph(x, EDGES, s, dim)),
    ):
        for s in (0.3, each):
            last = x.clone().requires_grad_()
            other = x.movedim(-1, dim).contiguous().requires_grad_()
            rows = s if isinstance(s, float) else s.unsqueeze(-1)
            w, v = on_last(last, rows), along(other, rows if isinstance(s, float) else s.unsqueeze(dim))
            assert (v.movedim(dim, -1) - w).abs().max() <= 1e-14
            ours = torch.autograd.grad(v, other, g.movedim(-1, dim))[0].movedim(dim, -1)
            assert (ours - torch.autograd.grad(w, last, g)[0]).abs().max() <= 1e-14


def test_gradient_reaches_the_weights():
    x, s = draw(2, NODES).requires_grad_(), torch.tensor(0.35, dtype=F64, requires_grad=True)
    a = WEIGHTS.clone().requires_grad_()

    def apply(x: Tensor, s: Tensor, a: Tensor) -> Tensor:
        return tv_prox_graph(x, EDGES, s, weights=a)

    options = dict.fromkeys(("check_forward_ad", "check_batched_grad", "check_batched_forward_grad"), True)
    assert gradcheck(apply, (x, s, a), atol=1e-7, **options)
    assert gradgradcheck(apply, (x, s, a), atol=1e-7, check_fwd_over_rev=True)
    # One more time the strength is one more time each weight.
    w = apply(x, s, a)
    ds, da = torch.autograd.grad(w, (s, a), draw(2, NODES, seed=4))
    assert (s * ds - (a * da).sum()).abs() <= 1e-14


def test_gradient_is_spread_over_groups_and_strength_pulls_at_their_ends():
    x = torch.tensor([3.0, 1.0, 2.0, 8.0], dtype=F64, requires_grad=True)
    s = torch.tensor(0.5, dtype=F64, requires_grad=True)
    w = tv_prox_1d(x, s)
    dx, ds = torch.autograd.grad(w, (x, s), torch.tensor([1.0, 2.0, 4.0, 8.0], dtype=F64))
    assert torch.equal(dx, torch.tensor([1.0, 3.0, 3.0, 8.0], dtype=F64))
    assert ds.item() == -1 + 1 * 6 - 8  # the first falls, the pair has both neighbours above, the last falls


@every_prox
def test_strength_zero_is_the_identity_also_at_ties(prox, shape: tuple[int, ...]):
    x = torch.zeros(2, *shape, dtype=F64)
    x[1] = (2 * draw(*shape)).round() / 3
    assert torch.equal(prox(x, 0.0), x)
    for zero in (0.0, torch.zeros((), dtype=F64)):
        jacobian = jacrev(lambda row, zero=zero: prox(row, zero).flatten())(x[1]).reshape(x[1].numel(), -1)
        assert torch.equal(jacobian, torch.eye(x[1].numel(), dtype=F64))
    both = torch.tensor([0.0, 1.0], dtype=F64).reshape(2, *(1 for _ in shape))
    leaf, g = x.clone().requires_grad_(), draw(2, *shape)
    assert torch.equal(torch.autograd.grad(prox(leaf, both), leaf, g)[0][0], g[0])


@every_prox
def test_ties_and_flat_rows_have_a_generalised_gradient(prox, shape: tuple[int, ...]):
    x = torch.cat([torch.full((1, *shape), 1 / 3, dtype=F64), draw(5, *shape).round()]).requires_grad_()
    s = torch.tensor(0.5, dtype=F64, requires_grad=True)
    w = prox(x, s)
    g = draw(6, *shape, seed=3)
    dx, ds = torch.autograd.grad(w, (x, s), g)
    assert dx.isfinite().all() and ds.isfinite()
    flat = slice(0, 6 if prox is on_graph else None)  # the flat row is one group, but for the node alone
    assert (dx[0].flatten()[flat] - g[0].flatten()[flat].mean()).abs().max() <= 1e-15


@every_prox
def test_jacobian_is_the_projection_onto_the_groups(prox, shape: tuple[int, ...]):
    x = draw(*shape, seed=2)
    jacobian = jacrev(lambda x: prox(x, 0.3).flatten())(x).reshape(x.numel(), x.numel())
    assert (jacobian - jacobian.T).abs().max() <= 1e-15
    assert (jacobian @ jacobian - jacobian).abs().max() <= 1e-15
    assert (jacobian.sum(-1) - 1).abs().max() <= 1e-15
    assert jacobian.trace().item() == pytest.approx(len(prox(x, 0.3).unique()), abs=1e-12)


@every_prox
def test_forward_mode_agrees_with_reverse_mode(prox, shape: tuple[int, ...]):
    x, s = draw(*shape), torch.tensor(0.3, dtype=F64)
    for argument in (0, 1):
        ways = [way(prox, argnums=argument)(x, s) for way in (jacrev, jacfwd)]
        assert (ways[0] - ways[1]).abs().max() <= 1e-14
    tangent = draw(*shape, seed=1)
    w, push = jvp(lambda x: prox(x, s), (x,), (tangent,))
    v, pull = vjp(lambda x: prox(x, s), x)
    assert torch.equal(w, v) and (push - pull(tangent)[0]).abs().max() <= 1e-14


@every_prox
def test_curvature_is_zero(prox, shape: tuple[int, ...]):
    x, weights = draw(*shape), draw(*shape, seed=1)
    assert (hessian(lambda x: (weights * prox(x, 0.3)).sum())(x) == 0).all()
    assert (hessian(lambda s: (weights * prox(x, s)).sum())(torch.tensor(0.3, dtype=F64)) == 0).all()


@every_prox
def test_vmap_maps_over_values_and_strengths(prox, shape: tuple[int, ...]):
    x, s = draw(5, *shape), draw(5, seed=1).abs()
    rows = s.reshape(5, *(1 for _ in shape))
    assert (vmap(prox)(x, s) - prox(x, rows)).abs().max() <= 1e-14
    assert (vmap(prox, in_dims=(None, 0))(x[0], s) - prox(x[:1].expand_as(x), rows)).abs().max() <= 1e-14
    assert (
        vmap(lambda x: prox(x, 0.3), in_dims=1, out_dims=1)(x.movedim(0, 1)).movedim(1, 0) - prox(x, 0.3)
    ).abs().max() == 0
    twice = vmap(vmap(jacrev(lambda x: prox(x, 0.3))))(draw(2, 3, *shape))
    assert twice.shape == (2, 3, *shape, *shape)
    g = draw(*shape, seed=3)
    each = vmap(torch.func.grad(lambda x, s: (g * prox(x, s)).sum(), argnums=(0, 1)))(x, s)
    leaf, strengths = x.clone().requires_grad_(), rows.clone().requires_grad_()
    grads = torch.autograd.grad((g * prox(leaf, strengths)).sum(), (leaf, strengths))
    assert (each[0] - grads[0]).abs().max() <= 1e-14 and (each[1] - grads[1].flatten()).abs().max() <= 1e-14


def test_vmap_maps_over_weights_but_not_over_graphs():
    x, a = draw(4, NODES), draw(4, len(WEIGHTS), seed=1).abs()

    def apply(x: Tensor, a: Tensor) -> Tensor:
        return tv_prox_graph(x, EDGES, 0.3, weights=a)

    each = torch.stack([apply(*row) for row in zip(x, a, strict=True)])
    assert (vmap(apply)(x, a) - each).abs().max() <= 1e-14
    assert (vmap(apply, in_dims=(None, 0))(x[0], a) - torch.stack([apply(x[0], b) for b in a])).abs().max() <= 1e-14
    grads = vmap(torch.func.grad(lambda a, x: apply(x, a).square().sum()))(a, x)
    leaf = a.clone().requires_grad_()
    apply_rows = torch.stack([apply(row, b) for row, b in zip(x, leaf, strict=True)])
    assert (grads - torch.autograd.grad(apply_rows.square().sum(), leaf)[0]).abs().max() <= 1e-14
    with pytest.raises(ValueError, match="edges cannot be mapped over"):
        vmap(lambda e: tv_prox_graph(x, e, 0.3))(EDGES.expand(2, *EDGES.shape))


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@every_prox
def test_compiled_function_equals_eager(prox, shape: tuple[int, ...]):
    torch._dynamo.reset()
    compiled = torch.compile(lambda x, s: prox(2 * x, s) + 1, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (3, 5):
        x, s, g = draw(rows, *shape), torch.tensor(0.3, dtype=F64), draw(rows, *shape, seed=1)
        results = []
        for f in (compiled, lambda x, s: prox(2 * x, s) + 1):
            inputs = (x.clone().requires_grad_(), s.clone().requires_grad_())
            w = f(*inputs)
            results.append((w, *torch.autograd.grad(w, inputs, g)))
        assert all((a - b).abs().max() <= 1e-14 for a, b in zip(*results, strict=True))
        assert (compiled(x, 0.3) - prox(2 * x, 0.3) - 1).abs().max() <= 1e-14
    torch._dynamo.reset()


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
def test_exported_program_of_a_chain_computes_the_same():
    class Layer(torch.nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return tv_prox_1d(x, 0.3)

    batch = torch.export.Dim("batch", min=2, max=64)
    program = torch.export.export(Layer(), (draw(4, 7),), dynamic_shapes=({0: batch},)).module()
    for rows in (4, 9):
        x = draw(rows, 7)
        assert (program(x) - tv_prox_1d(x, 0.3)).abs().max() <= 1e-14


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning:torch")
@pytest.mark.parametrize("grad", [False, True], ids=["constant", "differentiated"])
def test_graph_operators_pass_the_checks_of_torch_library(grad: bool):
    x = draw(3, NODES).requires_grad_(grad)
    s, a = (t.clone().requires_grad_(grad) for t in (torch.full((3, 1), 0.3, dtype=F64), WEIGHTS[None]))
    torch.library.opcheck(torch.ops.omegamax.tv_prox_graph.default, (x, s, a, EDGES, 1))
    w = tv_prox_graph(x, EDGES, 0.3, weights=WEIGHTS).detach()
    torch.library.opcheck(torch.ops.omegamax.tv_prox_graph_spread.default, (x, w, s, a, EDGES, 1))


@every_prox
def test_fake_and_meta_tensors_give_the_right_metadata(prox, shape: tuple[int, ...]):
    with FakeTensorMode(allow_non_fake_inputs=True):
        for dtype in (torch.float16, torch.float32, F64):
            w = prox(torch.empty(3, *shape, dtype=dtype), 0.3)
            assert w.shape == (3, *shape) and w.dtype == dtype
    if prox is not on_graph:
        assert prox(torch.empty(3, *shape, device="meta"), 0.3).device.type == "meta"


@both_backends
@every_prox
def test_absent_entries_stay_out_with_their_edges(prox, shape: tuple[int, ...], kind: str):
    x = draw(4, *shape)
    x[0].view(-1)[1] = x[1].view(-1)[0] = x[1].view(-1)[-1] = -inf
    x[2] = -inf
    x.requires_grad_()
    s = torch.tensor(0.3, dtype=F64, requires_grad=True)
    with backend(kind):
        w = prox(x, s)
        dx, ds = torch.autograd.grad(w, (x, s), draw(4, *shape, seed=1))
    gone = x == -inf
    assert torch.equal(w == -inf, gone) and (dx[gone] == 0).all() and dx.isfinite().all() and ds.isfinite()
    edges, weights = pairs_of(prox, shape)
    for row in (0, 1, 3):
        flat, kept = x.detach()[row].flatten(), ~gone[row].flatten()
        alive = kept[edges[0]] & kept[edges[1]]
        numbers = kept.cumsum(0) - 1
        part = tv_prox_graph(flat[kept], numbers[edges[:, alive]], 0.3, weights=weights[alive])
        assert (w[row].flatten()[kept] - part).abs().max() <= 1e-12


@both_backends
@every_prox
@pytest.mark.parametrize("bad", [nan, inf])
def test_bad_entry_spoils_its_own_row_only(prox, shape: tuple[int, ...], bad: float, kind: str):
    clean = draw(3, *shape)
    x = clean.clone()
    x[1].view(-1)[2] = bad
    with backend(kind):
        w = prox(x, 0.3)
        assert w[1].isnan().all() and torch.equal(w[[0, 2]], prox(clean, 0.3)[[0, 2]])


@both_backends
@every_prox
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_one_rounding_of_float32(prox, shape: tuple[int, ...], dtype: torch.dtype, kind: str):
    x, g = draw(20, *shape, dtype=dtype), draw(20, *shape, seed=1, dtype=dtype)
    leaf, full = x.clone().requires_grad_(), x.float().requires_grad_()
    with backend(kind):
        w, v = prox(leaf, 0.3), prox(full, 0.3)
        assert w.dtype == dtype and torch.equal(w, v.to(dtype))
        ours, truth = torch.autograd.grad(w, leaf, g)[0], torch.autograd.grad(v, full, g.float())[0]
        assert ours.dtype == dtype and torch.equal(ours, truth.to(dtype))
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert prox(x, 0.3).dtype == torch.float32


@both_backends
@every_prox
def test_float32_agrees_with_float64(prox, shape: tuple[int, ...], kind: str):
    x = draw(20, *shape, dtype=torch.float32)
    with backend(kind):
        assert (prox(x, 0.25).double() - prox(x.double(), 0.25)).abs().max() <= 1e-6


@every_prox
def test_infinite_strength_levels_each_component(prox, shape: tuple[int, ...]):
    x = draw(2, *shape).requires_grad_()
    s = torch.tensor(inf, dtype=F64, requires_grad=True)
    w = prox(x, s)
    size = 6 if prox is on_graph else x[0].numel()
    assert (w.flatten(1)[:, :size] - x.flatten(1)[:, :size].mean(-1, keepdim=True)).abs().max() <= 1e-15
    assert torch.equal(w, prox(x, inf))
    dx, ds = torch.autograd.grad(w.square().sum(), (x, s))
    assert ds == 0 and dx.isfinite().all()
    leveller = torch.ones(len(WEIGHTS), dtype=F64, requires_grad=True)
    w = tv_prox_graph(draw(NODES), EDGES, inf, weights=leveller)
    assert (torch.autograd.grad(w.square().sum(), leveller)[0] == 0).all()


def test_graphs_without_edges_or_with_loose_nodes_are_fine():
    x = draw(3, 4).requires_grad_()
    none = torch.empty(2, 0, dtype=torch.long)
    w = tv_prox_graph(x, none, 1.0, weights=torch.empty(0, dtype=F64))
    assert torch.equal(w, x) and torch.equal(torch.autograd.grad(w, x, x.detach())[0], x)
    w = tv_prox_graph(x, torch.tensor([[0], [1]]), 100.0)
    assert torch.equal(w[:, 2:], x[:, 2:]) and torch.equal(w[:, 0], w[:, 1])
    assert tv_prox_graph(torch.tensor(2.0), none, 1.0).item() == 2.0


def test_repeated_edges_add_up_in_either_direction():
    x = draw(5, 3)
    once = tv_prox_graph(x, torch.tensor([[0, 1], [1, 2]]), 0.4)
    twice = tv_prox_graph(x, torch.tensor([[0, 1, 1, 2], [1, 2, 0, 1]]), 0.2)
    weighted = tv_prox_graph(x, torch.tensor([[1, 1], [0, 2]]), 0.1, weights=torch.full((2,), 4.0))
    assert (once - twice).abs().max() <= 1e-14 and (once - weighted).abs().max() <= 1e-14
    assert (once - tv_prox_1d(x, 0.4)).abs().max() <= 1e-14


def test_small_shapes_work():
    assert tv_prox_1d(torch.tensor(0.3), 1.0).item() == pytest.approx(0.3)
    assert tv_prox_1d(draw(5, 1), 1.0).shape == (5, 1) and tv_prox_2d(draw(1, 1), 1.0).shape == (1, 1)
    assert torch.equal(tv_prox_2d(draw(4, 1), 0.3)[:, 0], tv_prox_1d(draw(4, 1), 0.3, 0)[:, 0])
    for prox, shape in PROXES.values():
        x = torch.empty(0, *shape, requires_grad=True)
        w = prox(x, 0.3)
        assert w.shape == x.shape
        w.sum().backward()
    assert tv_prox_1d(draw(5), torch.tensor([0.3])).shape == (5,)


LAYOUTS = {
    "transposed": lambda x: x.mT.contiguous().mT,
    "strided": lambda x: torch.stack([x, -x], -1).flatten(-2)[..., ::2],
    "expanded": lambda x: x[:1].expand_as(x),
    "negated view": lambda x: torch._neg_view(x),
}


@both_backends
@pytest.mark.parametrize("layout", LAYOUTS)
@every_prox
def test_memory_layout_does_not_matter(prox, shape: tuple[int, ...], layout: str, kind: str):
    x, g = LAYOUTS[layout](draw(4, 3, *shape)), LAYOUTS[layout](draw(4, 3, *shape, seed=1))
    results = []
    with backend(kind):
        for t, h in ((x, g), (x.clone(memory_format=torch.contiguous_format), g.contiguous())):
            leaf = t.detach().requires_grad_()
            w = prox(leaf, 0.3)
            results.append((w, *torch.autograd.grad(w, leaf, h)))
    assert all((a - b).abs().max() <= 1e-14 for a, b in zip(*results, strict=True))


X, E = torch.zeros(2, 4), torch.tensor([[0, 1], [1, 2]])
REFUSED = {
    "x whole": (lambda: tv_prox_1d(torch.zeros(4, dtype=torch.long), 1.0), TypeError, "tv_prox_1d: x must be .*int64"),
    "x whole in 2d": (lambda: tv_prox_2d(X.long(), 1.0), TypeError, "tv_prox_2d: x must be .*int64"),
    "x whole on a graph": (lambda: tv_prox_graph(X.int(), E, 1.0), TypeError, "tv_prox_graph: x must be .*int32"),
    "x a list": (lambda: tv_prox_1d([1.0], 1.0), TypeError, "tv_prox_1d: x must be .*list"),
    "x a row in 2d": (lambda: tv_prox_2d(X[0], 1.0), ValueError, r"tv_prox_2d: x must have at least two axes.*\(4,\)"),
    "x empty": (lambda: tv_prox_1d(torch.zeros(2, 0), 1.0), ValueError, r"tv_prox_1d: .*at least one entry.*\(2, 0\)"),
    "x empty in 2d": (lambda: tv_prox_2d(torch.zeros(0, 3), 1.0), ValueError, r"tv_prox_2d: .*\(0, 3\)"),
    "dim": (lambda: tv_prox_1d(X, 1.0, 2), IndexError, r"tv_prox_1d: dim=2 is out of range .*\(2, 4\)"),
    "dim of a graph": (lambda: tv_prox_graph(X, E, 1.0, -3), IndexError, "tv_prox_graph: dim=-3 is out of range"),
    "strength below 0": (lambda: tv_prox_1d(X, -0.5), ValueError, "tv_prox_1d: strength must be >= 0, got -0.5"),
    "strength nan": (lambda: tv_prox_2d(X, nan), ValueError, "tv_prox_2d: strength must be >= 0, got nan"),
    "strength a word": (lambda: tv_prox_1d(X, "1"), TypeError, "tv_prox_1d: strength must be .*got str"),
    "strength a bool": (lambda: tv_prox_1d(X, True), TypeError, "tv_prox_1d: strength must be .*got bool"),
    "strength whole": (lambda: tv_prox_1d(X, torch.tensor(1)), TypeError, "strength must be .*int64"),
    "strength below 0 in a tensor": (
        lambda: tv_prox_graph(X, E, torch.tensor([[1.0], [-2.0]])),
        ValueError,
        "tv_prox_graph: strength must be >= 0 everywhere, got a minimum of -2",
    ),
    "strength nan in a tensor": (lambda: tv_prox_1d(X, torch.tensor(nan)), ValueError, "strength must be >= 0"),
    "strength for each entry": (
        lambda: tv_prox_1d(X, torch.ones(2, 4)),
        ValueError,
        r"tv_prox_1d: strength must broadcast .*size 1 along dim=1, got shape \(2, 4\)",
    ),
    "strength for each row of an image": (
        lambda: tv_prox_2d(X, torch.ones(2, 1)),
        ValueError,
        r"tv_prox_2d: strength must broadcast .*size 1 along dim=0, got shape \(2, 1\)",
    ),
    "strength for other rows": (lambda: tv_prox_1d(X, torch.ones(3, 1)), ValueError, r"got shape \(3, 1\)"),
    "edges a list": (lambda: tv_prox_graph(X, [[0], [1]], 1.0), TypeError, "tv_prox_graph: edges must be .*list"),
    "edges not whole": (lambda: tv_prox_graph(X, E.float(), 1.0), TypeError, "edges must be .*float32"),
    "edges bool": (lambda: tv_prox_graph(X, E > 0, 1.0), TypeError, "edges must be .*bool"),
    "edges transposed": (
        lambda: tv_prox_graph(X, torch.zeros(3, 2, dtype=torch.long), 1.0),
        ValueError,
        r"tv_prox_graph: edges must have shape \[2, E\], got \(3, 2\)",
    ),
    "edges flat": (lambda: tv_prox_graph(X, E[0], 1.0), ValueError, r"edges must have shape \[2, E\], got \(2,\)"),
    "edge beyond the nodes": (
        lambda: tv_prox_graph(X, torch.tensor([[0, 1], [1, 4]]), 1.0),
        IndexError,
        r"tv_prox_graph: edges must lie in \[0, 4\), the nodes along dim, got 4",
    ),
    "edge from the end": (lambda: tv_prox_graph(X, E - 1, 1.0), IndexError, r"\[0, 4\).*got -1"),
    "edge beyond the nodes of an axis": (lambda: tv_prox_graph(X, E, 1.0, 0), IndexError, r"\[0, 2\).*got 2"),
    "weights a list": (lambda: tv_prox_graph(X, E, 1.0, weights=[1, 1]), TypeError, "weights must be .*list"),
    "weights whole": (lambda: tv_prox_graph(X, E, 1.0, weights=E[0]), TypeError, "weights must be .*int64"),
    "weights of another graph": (
        lambda: tv_prox_graph(X, E, 1.0, weights=torch.ones(3)),
        ValueError,
        r"tv_prox_graph: weights must have shape \[2\], one for each edge, got \(3,\)",
    ),
    "weight below 0": (
        lambda: tv_prox_graph(X, E, 1.0, weights=torch.tensor([1.0, -1.0])),
        ValueError,
        "weights .*>= 0",
    ),
    "weight nan": (lambda: tv_prox_graph(X, E, 1.0, weights=torch.tensor([1.0, nan])), ValueError, "weights .*>= 0"),
}


@pytest.mark.parametrize("call, error, message", REFUSED.values(), ids=REFUSED)
def test_bad_argument_is_named(call, error: type[Exception], message: str):
    with pytest.raises(error, match=message):
        call()
