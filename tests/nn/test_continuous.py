"""Continuous attention against quadrature of the value function, discrete moments, and the example alone."""

import copy

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import GaussianRBF, RidgeFit, grid_positions
from omegamax.densities import BetaGaussian, Gaussian
from omegamax.nn import Alpha, ContinuousAttention

F64 = torch.float64
LINE = GaussianRBF.grid(12, 1, variance=0.01, dtype=F64)
PLANE = GaussianRBF.grid(4, 2, variance=0.04, dtype=F64)


def weights(*shape, grad=False):
    return torch.randn(*shape, dtype=F64).softmax(-1).requires_grad_(grad)


def ball_rule(n, alpha):
    """Points of unit covariance and their weights, of a beta-Gaussian: written down once more, by hand."""
    s, ws = np.polynomial.legendre.leggauss(80)
    if alpha == 1:
        radius, wr = 5 * (s + 1), 5 * ws * np.exp(-((5 * (s + 1)) ** 2) / 2)
    else:
        m = 1 / (alpha - 1)
        radius, wr = (s + 1) / 2, ws * (1 - ((s + 1) / 2) ** 2) ** m
        radius = radius * np.sqrt(n + 2 * m + 2)
    if n == 1:
        points = np.concatenate([radius, -radius])[:, None]
        mass = np.concatenate([wr, wr])
    else:
        angle = 2 * np.pi * np.arange(96) / 96
        points = radius[:, None, None] * np.stack([np.cos(angle), np.sin(angle)], -1)
        mass = np.repeat(wr * radius, 96)
    return points.reshape(-1, n), mass / mass.sum()


def by_quadrature(basis, places, values, p, cell, alpha, penalty=0.01):
    """E_p[V(t)] for one example, in numpy from end to end."""
    centers, variance = basis.centers.numpy(), basis.variance[0].item()
    n = centers.shape[1]

    def psi(t):
        square = ((t[:, None] - centers) ** 2).sum(-1)
        return np.exp(-square / (2 * variance)) / (2 * np.pi * variance) ** (n / 2)

    rows = psi(places)
    b = np.linalg.solve(rows.T @ rows + penalty * np.eye(len(centers)), rows.T @ values)
    mean = p @ places
    covariance = (places - mean).T @ (p[:, None] * (places - mean)) + np.diag(cell)
    points, mass = ball_rule(n, alpha)
    return mass @ (psi(mean + points @ np.linalg.cholesky(covariance).T) @ b)


@pytest.mark.parametrize("alpha", [1.0, 4 / 3, 1.5, 2.0])
@pytest.mark.parametrize("basis, size", [(LINE, (20,)), (PLANE, (5, 7))])
def test_context_is_the_mean_of_the_value_function(basis, size, alpha):
    attend = ContinuousAttention(basis, alpha, positions=size)
    places = grid_positions(size, dtype=F64)
    values, w = torch.randn(3, len(places), 4, dtype=F64), weights(3, len(places))
    context, density = attend(values, w)
    cell = np.array([1 / (12 * k**2) for k in reversed(size)])
    for i in range(3):
        wanted = by_quadrature(basis, places.numpy(), values[i].numpy(), w[i].numpy(), cell, alpha)
        np.testing.assert_allclose(context[i].numpy(), wanted, rtol=0, atol=1e-9)
    assert isinstance(density, Gaussian if alpha == 1 else BetaGaussian) and density.batch_shape == (3,)


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.3, 2.0, torch.tensor([[1.0], [1.7]], dtype=F64)])
@pytest.mark.parametrize("size", [(9,), (3, 5), (2, 3, 4)])
def test_moments_are_those_of_the_weights_spread_over_cells(size, alpha):
    n = len(size)
    attend = ContinuousAttention(GaussianRBF.grid(2, n, 0.1, dtype=F64), alpha, positions=size)
    w = weights(2, 3, np.prod(size)) * 5  # sums do not matter
    _, density = attend(torch.randn(2, 3, np.prod(size), 1, dtype=F64), w)
    w = (w / w.sum(-1, keepdim=True)).numpy().reshape(2, 3, *size)
    mean, second = np.zeros((2, 3, n)), np.zeros((2, 3, n, n))
    for index in np.ndindex(*size):
        low = np.array([i / k for i, k in zip(index, size, strict=True)])[::-1]
        width = 1 / np.array(size)[::-1]
        mean += w[(..., *index)][..., None] * (low + width / 2)
        spread = np.diag(width**2 / 12) + np.outer(low + width / 2, low + width / 2)
        second += w[(..., *index)][..., None, None] * spread
    np.testing.assert_allclose(density.mean, mean, atol=1e-14)
    np.testing.assert_allclose(density.covariance_matrix, second - mean[..., None] * mean[..., None, :], atol=1e-13)
    assert density.batch_shape == (2, 3)


def test_floor_for_given_positions_and_by_hand():
    places = torch.rand(16, 2, dtype=F64)
    w = weights(16)
    mean = w @ places
    bare = (places - mean).mT @ (w[:, None] * (places - mean))
    for floor, added in [(None, 1 / 192), (0.0, 0.0), (0.3, 0.3)]:
        match = ContinuousAttention(PLANE, positions=places, floor=floor).match(w)
        torch.testing.assert_close(match.covariance_matrix, bare + added * torch.eye(2, dtype=F64))
    # On a square grid both defaults agree; of places in the call, those that are masked do not count.
    grid = grid_positions((4, 4), dtype=F64)
    given, regular = ContinuousAttention(PLANE), ContinuousAttention(PLANE, positions=(4, 4))
    torch.testing.assert_close(given.match(w, grid).scale, regular.match(w).scale)
    mask = torch.arange(16) < 9
    torch.testing.assert_close(
        given.match(w, places, mask=mask).scale, given.match(w[:9], places[:9]).scale, rtol=1e-12, atol=0
    )


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_fit_then_attend_is_the_same(alpha):
    attend = ContinuousAttention(PLANE, alpha, positions=(3, 4), padding=True)
    values, w = torch.randn(2, 1, 12, 5, dtype=F64), weights(2, 6, 12)
    context, density = attend(values, w)  # six queries to each example
    assert context.shape == (2, 6, 5)
    coefficients = attend.fit(values)
    torch.testing.assert_close(attend.attend(coefficients, attend.match(w)), context, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(attend(values, density=density)[0], context)
    torch.testing.assert_close(coefficients, RidgeFit(PLANE, (3, 4), padding=True)(values))


@pytest.mark.parametrize(
    "basis, size, alpha", [(LINE, 6, 1.0), (LINE, 6, 1.5), (PLANE, (2, 3), 1.0), (PLANE, (2, 3), 2.0)]
)
def test_gradients(basis, size, alpha):
    attend = ContinuousAttention(basis, alpha, positions=size, combined=alpha == 1.5)
    values, w = torch.randn(6, 2, dtype=F64, requires_grad=True), weights(6, grad=True)

    def run(values, w):
        return attend(values, w)[0]

    assert gradcheck(run, (values, w))
    assert gradgradcheck(run, (values, w))


def test_gradients_to_positions_alpha_and_query():
    attend = ContinuousAttention(PLANE, 1.5, learnable=True, query_dim=3, dtype=F64).double()
    values, w = torch.randn(5, 2, dtype=F64, requires_grad=True), weights(5)
    places = torch.rand(5, 2, dtype=F64, requires_grad=True)
    query = torch.randn(3, dtype=F64, requires_grad=True)
    assert gradcheck(lambda v, t: attend(v, w, t)[0], (values, places))
    assert gradcheck(lambda q: attend(values, positions=places, query=q)[0], (query,))
    attend(values, w, places)[0].sum().backward()
    assert attend.alpha.raw.grad.abs() > 0


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("padding", [False, True])
def test_lengths_are_each_example_alone(alpha, padding):
    attend = ContinuousAttention(LINE, alpha, padding=padding, combined=True)
    values, w = torch.randn(4, 9, 3, dtype=F64), weights(4, 9)
    lengths = [9, 4, 1, 0]
    for i, k in enumerate(lengths):
        values[i, k:] = w[i, k:] = torch.nan
    values.requires_grad_(), w.requires_grad_()
    context, density = attend(values, w, lengths=torch.tensor(lengths))
    for i, k in enumerate(lengths[:3]):
        alone, own = attend(values[i, :k], w[i, :k])
        torch.testing.assert_close(context[i], alone)
        torch.testing.assert_close(density.mean[i], own.mean)
        torch.testing.assert_close(density.covariance_matrix[i], own.covariance_matrix)
    assert (context[3] == 0).all() and density.scale.isfinite().all()
    context.sum().backward()
    for grad in values.grad, w.grad:
        assert grad.isfinite().all()
        assert all((grad[i, k:] == 0).all() for i, k in enumerate(lengths))


def test_images_of_any_size():
    attend = ContinuousAttention(PLANE, 2.0)
    sizes = [(3, 4), (5, 2), (1, 1)]
    values, w = torch.randn(3, 12, 3, dtype=F64), weights(3, 12)
    context, density = attend(values, w, lengths=torch.tensor(sizes))
    for i, (h, k) in enumerate(sizes):
        fixed = ContinuousAttention(PLANE, 2.0, positions=(h, k))
        alone, own = fixed(values[i, : h * k], w[i, : h * k])
        torch.testing.assert_close(context[i], alone)
        torch.testing.assert_close(density.scale[i], own.scale)
    same, _ = attend(values, w, lengths=(3, 4))
    torch.testing.assert_close(same, ContinuousAttention(PLANE, 2.0, positions=(3, 4))(values, w)[0])


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_masked_positions_count_for_nothing(alpha):
    mask = torch.tensor([[True, True, False, True, False, True], [False] * 6])
    values, w = torch.randn(2, 6, 3, dtype=F64), weights(2, 6)
    for attend in (
        ContinuousAttention(PLANE, alpha, positions=(2, 3), floor=0.01),
        ContinuousAttention(PLANE, alpha, positions=grid_positions((2, 3), dtype=F64), floor=0.01),
    ):
        v, p = (torch.where(m, x, torch.nan) for m, x in ((mask[..., None], values), (mask, w)))
        v.requires_grad_(), p.requires_grad_()
        context, density = attend(v, p, mask=mask)
        kept = mask[0]
        places = grid_positions((2, 3), dtype=F64)[kept]
        alone, own = ContinuousAttention(PLANE, alpha, floor=0.01)(values[0, kept], w[0, kept], places)
        torch.testing.assert_close(context[0], alone)
        torch.testing.assert_close(density.scale[0], own.scale)
        assert (context[1] == 0).all() and density.loc.isfinite().all()
        context.sum().backward()
        assert (v.grad[~mask] == 0).all() and (p.grad[~mask] == 0).all()
        assert v.grad.isfinite().all() and p.grad.isfinite().all()


def test_each_example_has_its_own_positions():
    attend = ContinuousAttention(PLANE, 2.0)
    values, w, places = torch.randn(3, 7, 2, dtype=F64), weights(3, 7), torch.rand(3, 7, 2, dtype=F64)
    lengths = [7, 5, 2]
    places[1, 5:] = torch.nan
    context, _ = attend(values, w, places, lengths=torch.tensor(lengths))
    for i, k in enumerate(lengths):
        torch.testing.assert_close(context[i], attend(values[i, :k], w[i, :k], places[i, :k])[0])


@pytest.mark.parametrize("alpha", [0.7, 1.0, 1.01, 2.0, 3.0])
@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("basis, size", [(LINE, (1000,)), (PLANE, (30, 40))])
def test_one_hot_weights_have_the_density_of_a_cell(basis, size, dtype, alpha):
    attend = ContinuousAttention(basis, alpha, positions=size)
    count = int(np.prod(size))
    w = torch.zeros(count, dtype=dtype)
    w[count - 3] = 1
    w.requires_grad_()
    context, density = attend(torch.randn(count, 2, dtype=dtype), w)
    cell = torch.tensor([1 / (12 * k**2) for k in reversed(size)], dtype=dtype)
    torch.testing.assert_close(density.mean, grid_positions(size, dtype=dtype)[count - 3])
    torch.testing.assert_close(density.covariance_matrix, torch.diag(cell), rtol=1e-4, atol=1e-11)
    context.sum().backward()
    assert context.isfinite().all() and w.grad.isfinite().all()


@pytest.mark.parametrize("combined", [False, True])
@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_rows_without_weight_and_rows_with_nan_keep_to_themselves(alpha, combined):
    attend = ContinuousAttention(PLANE, alpha, positions=(2, 4), combined=combined)
    values, w = torch.randn(5, 8, 3, requires_grad=True), torch.rand(5, 8)
    w[1], w[2], w[3, 5], w[4, 0] = 0, 1e-45, torch.nan, torch.inf
    w.requires_grad_()
    context, density = attend(values, w)
    assert (context[1:3] == 0).all() and context[3:].isnan().all()
    torch.testing.assert_close(context[0], attend(values[0], w[0])[0])
    torch.testing.assert_close(density.mean[1:], torch.full((4, 2), 0.5))
    context[:3].square().sum().backward()
    assert w.grad[:3].isfinite().all() and values.grad[:3].isfinite().all()
    assert (w.grad[1:3] == 0).all() and (values.grad[1:3] == 0).all() and (w.grad[0] != 0).any()


def test_combined_adds_the_discrete_context():
    values, w = torch.randn(2, 9, 3, dtype=F64), weights(2, 9)
    alone = ContinuousAttention(LINE, 2.0, query_dim=4, dtype=F64)
    both = ContinuousAttention(LINE, 2.0, query_dim=4, combined=True, dtype=F64)
    both.load_state_dict(alone.state_dict())
    discrete = torch.einsum("bl,bld->bd", w, values)
    torch.testing.assert_close(both(values, 3 * w)[0], alone(values, w)[0] + discrete)
    query, density = torch.randn(2, 4, dtype=F64), Gaussian(torch.rand(2, 1, dtype=F64), 0.1)
    torch.testing.assert_close(both(values, w, query=query)[0], alone(values, query=query)[0] + discrete)
    torch.testing.assert_close(both(values, w, density=density)[0], alone(values, density=density)[0] + discrete)
    mixed, _ = both(values.float(), w, density=Gaussian(density.loc.float(), 0.1))
    torch.testing.assert_close(mixed, both(values, w, density=density)[0].float(), atol=1e-5, rtol=0)


def test_predicted_density_in_one_dimension():
    attend = ContinuousAttention(LINE, 2.0, query_dim=4, dtype=F64)
    assert sum(p.numel() for p in attend.parameters()) == 2 * (4 + 1)
    query = torch.randn(3, 4, dtype=F64)
    _, density = attend(torch.randn(3, 9, 2, dtype=F64), query=query)
    out = query @ attend.query.weight.T + attend.query.bias
    torch.testing.assert_close(density.loc, out[:, :1].sigmoid())
    torch.testing.assert_close(density.scale[..., 0], out[:, 1:].exp().log1p())


@pytest.mark.parametrize("n", [1, 2, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_predicted_density_is_one_for_any_query(n, dtype):
    attend = ContinuousAttention(GaussianRBF.grid(3, n, 0.1), 1.5, positions=(4,) * n, query_dim=5).to(dtype)
    assert sum(p.numel() for p in attend.parameters()) == 6 * (n + n * (n + 1) // 2)
    query = torch.cat([torch.randn(4, 5), torch.randn(4, 5) * 1000]).to(dtype).requires_grad_()
    context, density = attend(torch.randn(8, 4**n, 2, dtype=dtype), query=query)
    assert context.dtype == dtype and density.loc.dtype == torch.float32
    assert ((density.loc >= 0) & (density.loc <= 1)).all() and context.isfinite().all()
    assert torch.linalg.eigvalsh(density.scale[:4].double()).min() > 0
    context.sum().backward()
    assert query.grad.isfinite().all()


def test_no_parameters_are_added_to_discrete_attention():
    attend = ContinuousAttention(PLANE, 2.0, positions=(2, 3), combined=True)
    attend(torch.randn(6, 2), torch.rand(6))
    assert not list(attend.parameters()) and not attend.state_dict()
    again = copy.deepcopy(attend)
    values, w = torch.randn(6, 2), torch.rand(6)
    torch.testing.assert_close(again(values, w)[0], attend(values, w)[0])
    assert repr(attend).startswith("ContinuousAttention(\n  alpha=2.0, combined=True, floor=None")


def test_alpha_is_learnt_for_each_head():
    values, w = torch.randn(2, 3, 1, 8, 2), torch.randn(2, 3, 5, 8).softmax(-1)
    attend = ContinuousAttention(LINE, 1.2, learnable=True, per=3)
    context, density = attend(values, w)
    assert context.shape == (2, 3, 5, 2) and attend.alpha.raw.shape == (3,) and density.alpha.shape == (2, 3, 5)
    context.sum().backward()
    assert (attend.alpha.raw.grad != 0).all()
    fixed = ContinuousAttention(LINE, attend.alpha.value.detach().reshape(3, 1))
    torch.testing.assert_close(fixed(values, w)[0], context)
    given = ContinuousAttention(LINE, Alpha(1.2, per=(1, 3)))
    torch.testing.assert_close(given(values, w)[0], context)
    # The default starts at the Gaussian.
    start = ContinuousAttention(LINE, learnable=True)
    torch.testing.assert_close(start(values, w)[0], ContinuousAttention(LINE)(values, w)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision(dtype, alpha):
    attend = ContinuousAttention(PLANE, alpha, positions=(3, 4)).to(dtype)
    values, w = torch.randn(2, 12, 3).to(dtype), torch.randn(2, 12).softmax(-1).to(dtype)
    context, density = attend(values, w)
    assert context.dtype == dtype and density.loc.dtype == torch.float32
    wanted, _ = attend(values.double(), w.double())
    torch.testing.assert_close(context.double(), wanted, atol=10 * torch.finfo(dtype).eps, rtol=0)


def test_autocast_changes_nothing():
    attend = ContinuousAttention(PLANE, 2.0, positions=(3, 4), combined=True)
    values, w = torch.randn(2, 12, 3), torch.rand(2, 12)
    context, density = attend(values, w)
    with torch.autocast("cpu", torch.bfloat16):
        cast, own = attend(values, w)
        torch.testing.assert_close(attend.attend(attend.fit(values), own), attend.attend(attend.fit(values), density))
    torch.testing.assert_close(cast, context)
    torch.testing.assert_close(own.covariance_matrix, density.covariance_matrix)


def test_strides_and_expanded_tensors():
    attend = ContinuousAttention(LINE, 2.0)
    values, w = torch.randn(3, 8, dtype=F64).T, weights(1, 1).expand(2, 8)
    context, density = attend(values, w)
    torch.testing.assert_close(context, attend(values.contiguous(), w.contiguous())[0])
    assert context.shape == (2, 3) and density.batch_shape == (2,)


@pytest.mark.parametrize("source", ["weights", "query"])
def test_compiles_in_one_graph(source):
    options = {"alpha": 2.0} if source == "weights" else {"alpha": 1.5, "learnable": True, "query_dim": 4}
    attend = ContinuousAttention(PLANE, positions=(3, 4), **options)
    values = torch.randn(2, 12, 3)
    given = {"weights": torch.rand(2, 12)} if source == "weights" else {"query": torch.randn(2, 4)}
    compiled = torch.compile(attend, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(values, **given)[0], attend(values, **given)[0])


def test_maps_over_a_batch():
    attend = ContinuousAttention(PLANE, 1.0, positions=(3, 4))
    values, w = torch.randn(5, 12, 3), torch.rand(5, 12)
    mapped = torch.func.vmap(lambda v, p: attend(v, p)[0])(values, w)
    torch.testing.assert_close(mapped, attend(values, w)[0])


def test_sources_are_refused_by_name():
    attend = ContinuousAttention(LINE)
    values, w, density = torch.randn(2, 6, 3), torch.rand(2, 6), Gaussian(torch.rand(2, 1), 0.1)
    with pytest.raises(ValueError, match=r"ContinuousAttention: the density comes from one of .*, got none"):
        attend(values)
    with pytest.raises(ValueError, match="one of weights, query and density, got density and query"):
        attend(values, density=density, query=torch.randn(2, 3))
    with pytest.raises(ValueError, match="weights go with density only if combined=True"):
        attend(values, w, density=density)
    with pytest.raises(ValueError, match=r"combined=True adds .* needs weights, got density alone"):
        ContinuousAttention(LINE, combined=True)(values, density=density)
    with pytest.raises(ValueError, match="a query needs query_dim"):
        attend(values, query=torch.randn(2, 3))
    with pytest.raises(TypeError, match=r"density must be a density of omegamax\.densities, got Normal"):
        attend(values, density=torch.distributions.Normal(0.0, 1.0))


def test_bad_arguments_are_refused_by_name():
    attend = ContinuousAttention(LINE)
    values, w = torch.randn(2, 6, 3), torch.rand(2, 6)
    with pytest.raises(TypeError, match="ContinuousAttention: values must be a floating-point tensor, got"):
        attend(values.long(), w)
    with pytest.raises(ValueError, match=r"values must be \[\*, L, D\], got shape \(6,\)"):
        attend(values[0, :, 0], w)
    with pytest.raises(TypeError, match="weights must be a floating-point tensor, got"):
        attend(values, w > 0.5)
    with pytest.raises(ValueError, match=r"weights must be \[\*, 6\], one for each value, got shape \(2, 5\)"):
        attend(values, w[:, :5])
    with pytest.raises(ValueError, match="weights must be >= 0, got a minimum of -1"):
        attend(values, w - w.max() - 1 + w.max() - w)
    with pytest.raises(ValueError, match=r"batches must broadcast, got values \(2,\), density \(3,\), positions \(\)"):
        attend(values, torch.rand(3, 6))
    with pytest.raises(TypeError, match="mask must be a bool tensor"):
        attend(values, w, mask=w)
    with pytest.raises(ValueError, match=r"mask must be \[\*, 6\], got shape \(2, 5\)"):
        attend(values, w, mask=w[:, :5] > 0)
    with pytest.raises(ValueError, match=r"batches must broadcast, got weights \(2,\), lengths or mask \(3,\)"):
        attend(values, w, lengths=[4, 5, 6])
    with pytest.raises(ValueError, match=r"coefficients must be \[\*, 12, D\], got shape \(2, 6, 3\)"):
        attend.attend(values, attend.match(w))
    with pytest.raises(ValueError, match="floor must be a finite number >= 0"):
        ContinuousAttention(LINE, floor=-1.0)
    with pytest.raises(ValueError, match=r"ContinuousAttention: alpha must be > 0\.5, got 0\.5"):
        ContinuousAttention(PLANE, 0.5)
    with pytest.raises(ValueError, match=r"bounds\[0\] must be > 0.333333 in 1 dimension\(s\), got 0.2"):
        ContinuousAttention(LINE, learnable=True, bounds=(0.2, 2.0))
    with pytest.raises(ValueError, match="learnable and per go with a number"):
        ContinuousAttention(LINE, Alpha(1.5), learnable=True)
    with pytest.raises(ValueError, match="per must name an axis of the batch"):
        ContinuousAttention(LINE, 1.5, learnable=True, per=(-1, 6))(values, w)
    # Without moments to match, any alpha with a density will do: here Cauchy's.
    assert ContinuousAttention(LINE, 0.0, query_dim=3)(values, query=torch.randn(2, 3))[0].isfinite().all()
