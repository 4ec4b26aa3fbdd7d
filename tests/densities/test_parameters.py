"""Parameters of every density, basis and mixed distribution that takes a scale: refused by name, or computed with."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import kl_divergence

from omegamax._numerics import factor_in_plane
from omegamax.basis import GaussianRBF, TruncatedParaboloidRBF
from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    Biweight,
    Gaussian,
    GridDensity,
    LocationScale,
    Mixture,
    Triweight,
    TruncatedParaboloid,
    fenchel_young_loss,
    gauss_legendre_nodes,
    wasserstein2,
)
from omegamax.mixed import GaussianSparsemax

F32, F64 = torch.float32, torch.float64
MATRICES = {
    **{
        kind.__name__: lambda m, kind=kind, **k: kind(torch.zeros(m.shape[-1]).to(m), m, **k)
        for kind in (BetaGaussian, Gaussian, TruncatedParaboloid, Biweight, Triweight)
    },
    "from_moments": lambda m, **k: BetaGaussian.from_moments(torch.zeros(m.shape[-1]).to(m), m, **k),
    "Gaussian.from_moments": lambda m, **k: Gaussian.from_moments(torch.zeros(m.shape[-1]).to(m), m, **k),
    "from_canonical": lambda m, **k: BetaGaussian.from_canonical(torch.zeros(m.shape[-1]).to(m), -m / 2, **k),
    "GaussianSparsemax": lambda m, **k: GaussianSparsemax(torch.zeros(m.shape[-1]).to(m), cov=m, **k),
    "Mixture": lambda m, **k: Mixture(torch.ones(1).to(m), BetaGaussian(torch.zeros(1, m.shape[-1]).to(m), m, **k)),
}
BASES = {kind.__name__: kind for kind in (GaussianRBF, TruncatedParaboloidRBF)}
every_matrix = pytest.mark.parametrize("make", MATRICES.values(), ids=list(MATRICES))
every_basis = pytest.mark.parametrize("kind", BASES.values(), ids=list(BASES))
every_dtype = pytest.mark.parametrize("dtype", [F32, F64])
every_unit = pytest.mark.parametrize("unit", [1e-8, 1.0, 1e8])


def matrix(n: int, unit: float, dtype: torch.dtype) -> Tensor:
    root = torch.randn(n, n, dtype=F64)
    return (unit * (root @ root.mT + torch.eye(n, dtype=F64))).to(dtype)


@every_matrix
@every_dtype
@every_unit
def test_asymmetric_matrices_are_refused(make, dtype, unit):
    for n in (2, 4):
        scale = matrix(n, unit, dtype)
        scale[0, n - 1] += 0.01 * scale[0, 0]
        with pytest.raises(ValueError, match=r"must be symmetric matrices .*got .* at \["):
            make(scale)
        with pytest.raises(ValueError, match="must be symmetric"):
            make(torch.stack([matrix(n, unit, dtype), scale])[1])


@every_matrix
@every_dtype
@every_unit
def test_matrices_that_are_symmetric_up_to_rounding_are_taken(make, dtype, unit):
    scale = matrix(3, unit, dtype)
    noisy = scale * (1 + torch.finfo(dtype).eps * torch.randn(3, 3).to(dtype))
    make(noisy)
    diagonal = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=dtype)) * unit
    diagonal[0, 1], diagonal[1, 0] = 1e-17 * unit, -3e-18 * unit
    make(diagonal)


def test_without_validation_the_symmetric_part_is_taken():
    scale = torch.tensor([[2.0, 0.6], [0.4, 1.0]])
    density = BetaGaussian(torch.zeros(2), scale, validate_args=False)
    torch.testing.assert_close(density.scale, (scale + scale.mT) / 2)


@every_basis
@every_dtype
def test_matrices_of_bases(kind, dtype):
    centers = torch.zeros(2, 3, dtype=dtype)
    scale = matrix(3, 1.0, dtype)
    kind(centers, scale.expand(2, 3, 3) * (1 + torch.finfo(dtype).eps * torch.randn(3, 3).to(dtype)))
    noisy = torch.diag(torch.tensor([1.0, 2.0, 3.0], dtype=dtype))
    noisy[0, 1], noisy[1, 0] = 1e-17, -3e-18
    kind(centers, noisy.expand(2, 3, 3))
    scale[0, 1] += 0.01
    with pytest.raises(ValueError, match=f"{kind.__name__}: scale must be symmetric"):
        kind(centers, scale.expand(2, 3, 3))
    for bad in (0.0, -1.0, math.nan, math.inf):
        with pytest.raises(ValueError, match=f"{kind.__name__}: scale must be > 0 and finite"):
            kind(centers, bad)
        with pytest.raises(ValueError, match=f"{kind.__name__}: scale must be"):
            kind(centers, torch.full((2,), bad, dtype=dtype))


@every_matrix
def test_singular_and_infinite_matrices_are_refused(make):
    for bad in (
        [[1.0, 1.0], [1.0, 1.0]],
        [[1.0, 0.0], [0.0, -1.0]],
        [[math.nan, 0.0], [0.0, 1.0]],
        [[math.inf, 0], [0, 1]],
    ):
        with pytest.raises(ValueError, match=r"(positive definite|PositiveDefinite)"):
            make(torch.tensor(bad, dtype=F64))


SCALARS = {
    "BetaGaussian": lambda s, loc: BetaGaussian(loc, s),
    "diagonal": lambda s, loc: BetaGaussian(loc, scale_diag=torch.as_tensor(s, dtype=loc.dtype).expand(1)),
    "tril": lambda s, loc: BetaGaussian(loc, scale_tril=torch.as_tensor(s, dtype=loc.dtype).expand(1, 1)),
    "0-d": lambda s, loc: BetaGaussian(loc, torch.as_tensor(s, dtype=loc.dtype)),
    "from_moments": lambda s, loc: BetaGaussian.from_moments(loc, s),
    "BetaLaplace": lambda s, loc: BetaLaplace(loc, s, 1.5),
    "LocationScale": lambda s, loc: LocationScale(lambda x: x**2 / 2, loc, s),
    "GaussianSparsemax": lambda s, loc: GaussianSparsemax(loc.expand(3), s),
}
every_scalar = pytest.mark.parametrize("make", SCALARS.values(), ids=list(SCALARS))


@every_scalar
@every_dtype
@pytest.mark.parametrize("bad", [0.0, -1.0, math.nan, math.inf, -math.inf])
def test_scales_that_are_not_positive_and_finite_are_refused(make, dtype, bad):
    with pytest.raises(ValueError, match=r"(must be > 0 and finite|Finite)"):
        make(bad, torch.zeros(1, dtype=dtype))


@every_scalar
@pytest.mark.parametrize("bad", [1e-300, 1e300])
def test_scales_that_single_precision_cannot_hold_are_refused(make, bad):
    with pytest.raises(ValueError, match=r"(must be > 0 and finite|Finite)"):
        make(bad, torch.zeros(1, dtype=F32))


@every_scalar
@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_locations_that_are_not_finite_are_refused(make, bad):
    with pytest.raises(ValueError, match="Expected parameter loc"):
        make(1.0, torch.full((1,), bad, dtype=F64))


@every_dtype
@pytest.mark.parametrize("scale", [1e-30, 1e-10, 1e10, 1e30])
def test_densities_of_any_width(dtype, scale):
    """What is left of a density in its own units is the same at every scale; densities far away are as those at 0."""
    for alpha in (0.8, 1.0, 1.5, 2.0):
        for loc in (0.0, 1e6):
            p, unit = (BetaGaussian(torch.full((2,), loc, dtype=dtype), s, alpha) for s in (scale, 1.0))
            torch.testing.assert_close(p.entropy() + p.log_peak, unit.entropy() + unit.log_peak, rtol=1e-5, atol=1e-5)
            assert p.log_prob(p.loc).isfinite() and p.sample((3,)).isfinite().all()


@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.5, 2.0])
@pytest.mark.parametrize("condition", [1e6, 1e12])
def test_a_diagonal_scale_is_the_same_in_every_form(alpha, condition):
    """Values and gradients of everything that depends on Sigma, however thin it is."""
    n = 3
    widths = torch.logspace(0, -math.log10(condition), n, dtype=F64)
    other = widths * torch.tensor([1.5, 0.8, 1.1], dtype=F64)
    loc, point = torch.randn(2, n, dtype=F64) * widths.sqrt() * 0.1

    def results(full: bool) -> list[Tensor]:
        leaf = widths.clone().requires_grad_()

        def make(diagonal: Tensor, mean: Tensor) -> BetaGaussian:
            form = {"scale": torch.diag_embed(diagonal)} if full else {"scale_diag": diagonal}
            return BetaGaussian(mean, alpha=alpha, **form)

        p, q = make(leaf, loc), make(other, 0 * loc)
        values = [p.log_prob(point), p.entropy(), p.covariance_matrix.diagonal().log().sum(), p.tsallis_entropy()]
        values += [wasserstein2(p, q), fenchel_young_loss(p, q), fenchel_young_loss(p, point)]
        if alpha == 1:
            values.append(kl_divergence(p, q))
        moments = BetaGaussian.from_moments(loc, torch.diag_embed(leaf) if full else torch.diag(leaf), alpha)
        values.append(moments.log_prob(point))
        return [part for v in values for part in (v, torch.autograd.grad(v, leaf, retain_graph=True)[0] * widths)]

    for a, b in zip(results(True), results(False), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-14 * max(1.0, b.abs().max().item()))


@every_dtype
def test_batches_of_none_and_of_one(dtype):
    for size in (0, 1):
        p = BetaGaussian(torch.zeros(size, 2, dtype=dtype), torch.eye(2, dtype=dtype).expand(size, 2, 2), 1.5)
        assert p.log_prob(p.loc).shape == (size,) and p.entropy().shape == (size,)
        for scale in (0.1, torch.eye(2, dtype=dtype).expand(4, 2, 2) + 0.1):
            assert p.expect(GaussianRBF(torch.zeros(4, 2, dtype=dtype), scale)).shape == (size, 4)


@pytest.mark.parametrize("validate", [None, True])
def test_every_family_has_batches_of_none_and_takes_no_points(validate):
    nodes, weights = gauss_legendre_nodes(2, 3)

    def make(batch: int) -> list:
        loc, scores = torch.zeros(batch, 3, 1), torch.zeros(batch, 3, len(nodes))
        return [
            BetaGaussian(loc, 1.0, 1.5, validate_args=validate),
            BetaLaplace(loc, 1.0, 1.5, validate_args=validate),
            LocationScale(torch.cosh, loc, 1.0, validate_args=validate),
            GridDensity(scores, nodes, weights, validate_args=validate),
        ]

    basis = GaussianRBF(torch.zeros(2, 1), 1.0)
    for none, some in zip(make(0), make(2), strict=True):
        for p, points in ((none, torch.zeros(4, 1, 1, 1)), (some, torch.zeros(0, 1, 1, 1))):
            mixture = Mixture(torch.full(p.batch_shape, 1 / 3), p, validate_args=validate)
            assert p.log_prob(points).shape == (len(points), *p.batch_shape)
            assert mixture.log_prob(points[..., 0]).shape == (len(points), *mixture.batch_shape)
            assert mixture.sample((4,)).shape == (4, *mixture.batch_shape, 1)
            assert mixture.expect(basis).shape == (*mixture.batch_shape, 2)


def test_mixed_dtypes_promote():
    p = BetaGaussian(torch.zeros(2, dtype=F32), torch.eye(2, dtype=F64), 1.5)
    assert p.loc.dtype == F64 and p.expect(GaussianRBF(torch.zeros(1, 2), 0.1)).dtype == F64


def test_factors_in_the_plane_are_those_of_torch():
    g = torch.Generator().manual_seed(0)
    rows = torch.randn(5, 2, 2, dtype=torch.float64, generator=g)
    square = (rows @ rows.mT).requires_grad_()

    def factor(matrix):
        return factor_in_plane((matrix + matrix.mT) / 2)

    assert torch.allclose(factor(square), torch.linalg.cholesky(square), rtol=1e-12, atol=0)
    assert torch.autograd.gradcheck(factor, square) and torch.autograd.gradgradcheck(factor, square)
    none = torch.tensor([[[1.0, 2.0], [2.0, 1.0]], [[-1.0, 0.0], [0.0, 1.0]], [[1.0, 0.0], [0.0, 1.0]]])
    none = torch.cat([none, torch.full((1, 2, 2), torch.nan)]).requires_grad_()
    found = factor(none)
    assert found.isnan().all(-1).all(-1).tolist() == [True, True, False, True]
    (slope,) = torch.autograd.grad(found[2].sum(), none)
    assert slope[:3].isfinite().all()
