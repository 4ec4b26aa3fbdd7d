"""Mixtures against torch's, quadrature in one and two dimensions, and against themselves with and without padding."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.distributions import Categorical, MixtureSameFamily, MultivariateNormal

from densities.line import integral
from omegamax import sparsemax
from omegamax.basis import Basis, Fourier, GaussianRBF
from omegamax.densities import (
    BetaGaussian,
    BetaLaplace,
    Biweight,
    Density,
    Gaussian,
    GridDensity,
    Laplace,
    LocationScale,
    Mixture,
    Triangular,
    TruncatedParaboloid,
    gauss_legendre_nodes,
)

F64 = torch.float64
WEIGHTS = torch.tensor([0.5, 0.2, 0.3], dtype=F64)
LOC = torch.tensor([[0.2], [0.35], [0.8]], dtype=F64)
SIZE = torch.tensor([[0.02], [0.01], [0.005]], dtype=F64)

# Unchecked, so that components without weight may be anything.
FAMILIES: dict[str, Callable[[Tensor, Tensor], Density]] = {
    "student": lambda loc, size: BetaGaussian(loc, scale_diag=size, alpha=0.8, validate_args=False),
    "gaussian": lambda loc, size: Gaussian(loc, size.unsqueeze(-1), validate_args=False),
    "paraboloid": lambda loc, size: TruncatedParaboloid(loc, scale_tril=size.unsqueeze(-1), validate_args=False),
    "each alpha": lambda loc, size: BetaGaussian(loc, scale_diag=size, alpha=_alphas(loc), validate_args=False),
    "laplace": lambda loc, size: Laplace(loc, size, validate_args=False),
    "triangular": lambda loc, size: Triangular(loc, size, validate_args=False),
    "location-scale": lambda loc, size: LocationScale(torch.cosh, loc, 8 * size, validate_args=False),
}
every_family = pytest.mark.parametrize("family", FAMILIES.values(), ids=FAMILIES)


def _alphas(loc: Tensor) -> Tensor:
    return loc.new_tensor([1.0, 2.0, 1.3, 3.0])[: len(loc)]


def grids(count: int = 3) -> GridDensity:
    nodes, node_weights = gauss_legendre_nodes(cells=8, order=4, low=0.0, high=1.0)
    scores = -20 * (nodes.to(F64).squeeze(-1) - torch.linspace(0.1, 0.9, count, dtype=F64).unsqueeze(-1)).abs()
    return GridDensity(scores, nodes.to(F64), node_weights.to(F64), alpha=1.5)


def plane(count: int = 3, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    """Weights, means and covariances in the unit square."""
    generator = torch.Generator().manual_seed(seed)
    weights = torch.rand(count, generator=generator, dtype=F64).softmax(-1)
    root = torch.randn(count, 2, 2, generator=generator, dtype=F64)
    eye = torch.eye(2, dtype=F64)
    return weights, torch.rand(count, 2, generator=generator, dtype=F64), 0.01 * (root @ root.mT + eye)


def line(components: Density, f: Callable[[Tensor], Tensor], weights: Tensor = WEIGHTS) -> float:
    """The integral of f under the mixture, component by component and piece by piece."""
    total = 0.0
    for k, weight in enumerate(weights.tolist()):
        loc = components.loc[k].item()
        radius = components.support_radius[k].item()
        if isinstance(components, BetaGaussian):  # Mahalanobis' distance
            radius *= components.scale_tril[k].item()

        def integrand(t: Tensor, k: int = k) -> Tensor:
            p = components.prob(t[:, None, None])[:, k]
            return torch.where(p > 0, f(t) * p, 0.0)

        total += weight * integral(integrand, loc - radius, loc, loc + radius)
    return total


# --- Values


def test_agrees_with_torch_on_gaussians():
    weights, mean, covariance = plane(4)
    ours = Mixture(weights, Gaussian(mean, covariance))
    theirs = MixtureSameFamily(Categorical(weights), MultivariateNormal(mean, covariance))
    t = torch.rand(50, 2, dtype=F64)
    assert torch.allclose(ours.log_prob(t), theirs.log_prob(t), atol=1e-13)
    assert torch.allclose(ours.prob(t), theirs.log_prob(t).exp(), atol=1e-13)
    assert torch.allclose(ours.mean, theirs.mean, atol=1e-15)
    assert torch.allclose(ours.variance, theirs.variance, atol=1e-15)
    assert torch.allclose(ours.covariance_matrix.diagonal(), ours.variance)
    assert ours.sample().shape == theirs.sample().shape == (2,)
    assert ours.sample((5, 3)).shape == theirs.sample((5, 3)).shape == (5, 3, 2)
    assert ours.sample((0,)).shape == (0, 2)


def test_cdf_agrees_with_torch_and_with_quadrature():
    t = torch.linspace(-0.3, 1.3, 30, dtype=F64).unsqueeze(-1)
    ours = Mixture(WEIGHTS, Gaussian(LOC, scale_diag=SIZE))
    theirs = MixtureSameFamily(
        Categorical(WEIGHTS), torch.distributions.Normal(LOC.squeeze(-1), SIZE.squeeze(-1).sqrt())
    )
    assert torch.allclose(ours.cdf(t), theirs.cdf(t.squeeze(-1)), atol=1e-13)
    with pytest.raises(NotImplementedError, match=r"Mixture.cdf: needs one dimension, got 2"):
        Mixture(*_gaussians()).cdf(torch.zeros(2, dtype=F64))


@every_family
def test_moments_and_expectations_agree_with_quadrature(family: Callable[[Tensor, Tensor], Density]):
    components = family(LOC, SIZE)
    p = Mixture(WEIGHTS, components)
    basis = GaussianRBF(LOC.new_tensor([[0.1], [0.6], [0.9]]), LOC.new_tensor([[0.1], [0.2], [0.05]]).unsqueeze(-1))
    assert line(components, torch.ones_like) == pytest.approx(1, abs=1e-10)
    mean = line(components, lambda t: t)
    assert p.mean.item() == pytest.approx(mean, abs=1e-9)
    assert p.variance.item() == pytest.approx(line(components, lambda t: (t - mean) ** 2), rel=1e-8)
    for j, value in enumerate(p.expect(basis).tolist()):
        assert value == pytest.approx(line(components, lambda t, j=j: basis(t.unsqueeze(-1))[:, j]), abs=1e-9)


@pytest.mark.parametrize("alpha", [1.5, 2.0])
def test_the_plane_agrees_with_quadrature(alpha: float):
    weights, mean, covariance = plane()
    p = Mixture(weights, BetaGaussian.from_moments(mean, covariance, alpha))
    # Each component in its own polar coordinates: Gauss-Legendre along the rays, equal steps around.
    radial, radial_weights = gauss_legendre_nodes(cells=1, order=24, low=0.0, high=1.0)
    angles = torch.arange(48, dtype=F64) * (2 * math.pi / 48)
    directions = torch.stack([angles.cos(), angles.sin()], -1)
    disc = (radial.to(F64)[:, None] * directions).reshape(-1, 2)
    basis = Fourier(torch.tensor([[3.0, 0.0], [2.0, 1.0]], dtype=F64))
    total, first, second, waves = 0.0, 0.0, 0.0, 0.0
    for k in range(3):
        root = p.components.support_tril[k]
        t = p.components.loc[k] + disc @ root.mT
        area = root.det() * (radial_weights * radial.squeeze(-1)).to(F64).repeat_interleave(48) * (2 * math.pi / 48)
        mass = weights[k] * p.components.prob(t[:, None])[:, k] * area
        total, first, waves = total + mass.sum(), first + mass @ t, waves + mass @ basis(t)
        second = second + (mass[:, None] * t).T @ t
    assert torch.allclose(total, torch.ones((), dtype=F64), atol=1e-12)
    assert torch.allclose(p.mean, first, atol=1e-12)
    assert torch.allclose(p.covariance_matrix, second - first[:, None] * first, atol=1e-12)
    assert torch.allclose(p.expect(basis), waves, atol=1e-10)


def test_the_covariance_is_centred():
    far = 1e8 + torch.tensor([[-1.0], [1.0]], dtype=F64)
    p = Mixture(torch.tensor([0.5, 0.5], dtype=F64), Gaussian(far, 0.25))
    assert p.variance.item() == 1.25


def test_disjoint_supports():
    p = Mixture(WEIGHTS, TruncatedParaboloid.from_moments(LOC.new_tensor([[0.0], [10.0], [20.0]]), 0.2))
    t = LOC.new_tensor([[0.5], [5.0], [10.0], [20.9], [21.1]]).requires_grad_()
    assert p.support_contains(t).tolist() == [True, False, True, True, False]
    assert p.prob(t)[[1, 4]].tolist() == [0, 0]
    assert p.log_prob(t)[[1, 4]].tolist() == [-math.inf] * 2
    assert p.prob(t[:1]).item() == pytest.approx(0.5 * 0.75 * 0.75, rel=1e-14)
    (slope,) = torch.autograd.grad(p.log_prob(t).sum(), t)
    assert slope[[1, 4]].tolist() == [[0], [0]] and slope.isfinite().all()
    expected = LOC.new_tensor([[1, 0, 0], [0, 0, 0], [0, 1, 0], [0, 0, 1], [0, 0, 0]])
    assert torch.equal(p.responsibilities(t), expected)


def test_responsibilities_are_bayes():
    weights, mean, covariance = plane()
    p = Mixture(weights, Gaussian(mean, covariance))
    t = torch.rand(7, 2, dtype=F64)
    joint = weights * p.components.prob(t.unsqueeze(-2))
    assert torch.allclose(p.responsibilities(t), joint / p.prob(t).unsqueeze(-1), atol=1e-13)
    far = torch.full((2,), 1e8, dtype=F64)  # where every density underflows
    assert p.responsibilities(far).sum().item() == pytest.approx(1)


# --- Gradients


def _gaussians() -> tuple[Tensor, Gaussian]:
    weights, mean, covariance = plane()
    return weights, Gaussian(mean, covariance)


@pytest.mark.parametrize("order", [gradcheck, gradgradcheck])
@pytest.mark.parametrize("alpha", [0.8, 1.0, 1.25, 2.0])
def test_derivatives(alpha: float, order: Callable):
    scores = torch.tensor([0.3, -0.2], dtype=F64, requires_grad=True)
    loc = torch.tensor([[0.2, 0.3], [0.7, 0.6]], dtype=F64, requires_grad=True)
    tril = torch.tensor([[[0.3, 0.0], [0.1, 0.2]], [[0.2, 0.0], [-0.1, 0.3]]], dtype=F64, requires_grad=True)
    t = torch.tensor([[0.3, 0.3], [0.5, 0.5], [3.0, -3.0]], dtype=F64, requires_grad=True)

    def results(scores, loc, tril, t):
        p = Mixture(scores.softmax(-1), BetaGaussian(loc, alpha=alpha, scale_tril=tril.tril(), validate_args=False))
        log_p = p.log_prob(t)
        log_p = torch.where(log_p.isfinite(), log_p, 0.0)
        return log_p, p.prob(t), p.responsibilities(t), p.mean, p.covariance_matrix

    assert order(results, (scores, loc, tril, t))


def test_derivatives_of_expectations():
    basis = GaussianRBF(LOC.new_tensor([[0.1], [0.6]]), LOC.new_tensor([[[0.1]], [[0.2]]]))

    def expectation(scores, loc, size):
        return Mixture(scores.softmax(-1), TruncatedParaboloid(loc, scale_diag=size, validate_args=False)).expect(basis)

    inputs = tuple(x.clone().requires_grad_() for x in (WEIGHTS, LOC, SIZE))
    assert gradcheck(expectation, inputs)
    assert gradgradcheck(expectation, inputs)


def gradients_of(p: Mixture, t: Tensor, basis: Basis, inputs: tuple[Tensor, ...]) -> list[Tensor]:
    results = [p.prob(t).sum() + p.log_prob(t[:3]).sum(), p.mean.sum(), p.covariance_matrix.sum()]
    results += [p.expect(basis).square().sum(), p.responsibilities(t).square().sum()]
    grads = [torch.autograd.grad(r, inputs, retain_graph=True, materialize_grads=True) for r in results]
    return [torch.stack(each) for each in zip(*grads, strict=True)]


@every_family
@pytest.mark.parametrize("bad", [(1e300, 1e-300), (-1e300, 1e300), (0.0, 5e-324), (math.inf, 1.0)])
def test_padding_changes_nothing(family: Callable[[Tensor, Tensor], Density], bad: tuple[float, float]):
    small = [x.clone().requires_grad_() for x in (WEIGHTS, LOC, SIZE)]
    pad = [WEIGHTS.new_zeros(1), WEIGHTS.new_tensor([[bad[0]]]), WEIGHTS.new_tensor([[bad[1]]])]
    large = [torch.cat([x.detach(), extra]).requires_grad_() for x, extra in zip(small, pad, strict=True)]
    t = torch.tensor([[0.2], [0.36], [0.81], [40.0]], dtype=F64)
    basis = GaussianRBF(LOC.new_tensor([[0.1], [0.6]]), LOC.new_tensor([[[0.1]], [[0.2]]]))
    p, q = (Mixture(w, family(loc, size)) for w, loc, size in (small, large))
    assert torch.equal(p.support_contains(t), q.support_contains(t))
    pairs = [(p.log_prob(t), q.log_prob(t)), (p.responsibilities(t), q.responsibilities(t)[:, :-1])]
    pairs += [(p.mean, q.mean), (p.covariance_matrix, q.covariance_matrix), (p.expect(basis), q.expect(basis))]
    for ours, padded in pairs:  # one more term of 0 may change the order of a sum, and nothing else
        assert torch.allclose(padded, ours, rtol=1e-14, atol=0)
    assert (q.responsibilities(t)[:, -1] == 0).all()
    assert q.component_count.item() == p.component_count.item() == 3
    for ours, padded in zip(gradients_of(p, t, basis, small), gradients_of(q, t, basis, large), strict=True):
        assert torch.allclose(padded[:, :-1], ours, rtol=1e-12, atol=1e-12)
        assert (padded[:, -1] == 0).all()


@pytest.mark.parametrize("form", ["scale", "scale_diag", "scale_tril"])
def test_a_component_without_weight_may_be_singular(form: str):
    singular = torch.stack([torch.eye(2, dtype=F64), torch.zeros(2, 2, dtype=F64)])
    if form == "scale_diag":
        singular = singular.diagonal(dim1=-2, dim2=-1).clone()
    singular.requires_grad_()
    components = Gaussian(torch.zeros(2, 2, dtype=F64), validate_args=False, **{form: singular})
    p = Mixture(torch.tensor([1.0, 0.0], dtype=F64), components)
    t = torch.tensor([0.3, 0.4], dtype=F64)
    assert p.log_prob(t).item() == Gaussian(torch.zeros(2, dtype=F64), 1.0).log_prob(t).item()
    for result in (p.log_prob(t), p.covariance_matrix.sum(), p.rsample((4,)).sum()):
        (slope,) = torch.autograd.grad(result, singular, retain_graph=True)
        assert slope.isfinite().all() and (slope[1] == 0).all()


def test_components_of_any_kind_without_weight_count_for_nothing():
    class Bad(Gaussian):
        """A kind of its own in all that counts: what has no weight is wrong, and stays so."""

        def expect(self, basis):
            return torch.where(self.loc > 1, math.nan, super().expect(basis))

    components = Mixture(torch.ones(2, 1, dtype=F64), Bad(LOC.new_tensor([[[0.3]], [[2.0]]]), 1.0))
    p = Mixture(torch.tensor([1.0, 0.0], dtype=F64), components)  # of mixtures, which are not taken apart
    basis = GaussianRBF(LOC.new_tensor([[0.1]]), 1.0)
    assert components.expect(basis)[1].isnan().all()
    assert torch.equal(p.expect(basis), Gaussian(LOC.new_tensor([0.3]), 1.0).expect(basis))


def test_sparse_weights_switch_components_off():
    scores = torch.tensor([1.0, 0.8, -3.0], dtype=F64, requires_grad=True)
    p = Mixture(sparsemax(scores), Gaussian(LOC, scale_diag=SIZE))
    assert p.component_count.item() == 2
    t = torch.tensor([[0.25], [0.8]], dtype=F64)
    assert gradcheck(lambda z: Mixture(sparsemax(z), Gaussian(LOC, scale_diag=SIZE)).log_prob(t), scores)


# --- Samples


@every_family
def test_samples_follow_the_cdf(family: Callable[[Tensor, Tensor], Density]):
    torch.manual_seed(0)
    p = Mixture(WEIGHTS, family(LOC, SIZE))
    t = p.sample((4000, 1)).sort(0).values
    steps = (torch.arange(4000, dtype=F64).unsqueeze(-1) + 0.5) / 4000
    assert t.shape == (4000, 1, 1)
    assert (p.cdf(t) - steps).abs().max() < 1.63 / math.sqrt(4000)  # Kolmogorov and Smirnov, at 1 %
    assert p.support_contains(t).all()


def test_samples_of_a_batch():
    torch.manual_seed(0)
    _, mean, covariance = plane(6)
    components = BetaGaussian.from_moments(mean.reshape(2, 3, 2), covariance.reshape(2, 3, 2, 2), 1.5)
    p = Mixture(torch.tensor([[0.4, 0.6, 0.0], [0.0, 0.5, 0.5]], dtype=F64), components)
    t = p.sample((20000,))
    assert t.shape == (20000, 2, 2) and not t.requires_grad
    assert torch.allclose(t.mean(0), p.mean, atol=0.01)
    for i in range(2):
        assert torch.allclose(t[:, i].T.cov(), p.covariance_matrix[i], rtol=0.05, atol=2e-3)
    shared = Mixture(torch.full((4000, 2), 0.5), Gaussian(torch.zeros(2, 1), 1.0))
    assert shared.sample().unique().numel() > 3900  # each of a batch has its own draw of a shared component


def test_what_has_no_weight_is_never_drawn():
    p = Mixture(torch.tensor([0.0, 1e-6, 1 - 1e-6, 0.0]), Gaussian(torch.tensor([[9.0], [0.0], [0.0], [9.0]]), 1e-4))
    assert p.sample((20000,)).max() < 1


@every_family
def test_the_motion_of_a_sample(family: Callable[[Tensor, Tensor], Density]):
    """At every point the cdf stays what it is: dF/dtheta + p dt/dtheta = 0, with F by differences."""
    torch.manual_seed(1)
    loc = LOC.new_tensor([[0.2], [0.3], [0.45]])  # one support, without gaps
    inputs = [x.clone().requires_grad_() for x in (WEIGHTS, loc, SIZE)]
    p = Mixture(inputs[0], family(*inputs[1:]))
    assert p.has_rsample
    t = p.rsample((5,))
    step = 1e-6
    for point in range(5):
        moved = torch.autograd.grad(t[point].sum(), inputs, retain_graph=True)
        with torch.no_grad():
            for which in range(3):
                for k in range(3):
                    shifted = [[x.clone() for x in inputs] for _ in range(2)]
                    shifted[0][which][k] += step
                    shifted[1][which][k] -= step
                    high, low = (Mixture(w, family(*rest), validate_args=False).cdf(t[point]) for w, *rest in shifted)
                    flow = (high - low) / (2 * step)
                    speed = moved[which][k].sum()
                    assert torch.allclose(speed * p.prob(t[point]), -flow, rtol=1e-5, atol=1e-8)


def test_gradients_of_samples_agree_with_the_derivative_of_the_expectation():
    torch.manual_seed(0)
    loc = LOC.new_tensor([[0.2], [0.3], [0.45]])
    inputs = [x.clone().requires_grad_() for x in (WEIGHTS.log(), loc, SIZE)]
    p = Mixture(inputs[0].softmax(-1), TruncatedParaboloid(inputs[1], scale_diag=inputs[2]))
    t = p.rsample((40000,))
    drawn = torch.autograd.grad(t.pow(3).mean(), inputs)
    # E[t^3] in closed form, from the moments of each.
    p = Mixture(inputs[0].softmax(-1), TruncatedParaboloid(inputs[1], scale_diag=inputs[2]))
    mean, variance = p.components.mean, p.components.variance
    exact = torch.autograd.grad((p.weights.unsqueeze(-1) * (mean**3 + 3 * mean * variance)).sum(), inputs)
    for ours, theirs in zip(drawn, exact, strict=True):
        assert torch.allclose(ours, theirs, rtol=0.03, atol=0.003)


def test_a_gap_keeps_the_gradients_of_the_components_exact():
    torch.manual_seed(0)
    loc = LOC.new_tensor([[0.0], [10.0]]).requires_grad_()
    weights = WEIGHTS.new_tensor([0.3, 0.7])
    p = Mixture(weights, TruncatedParaboloid.from_moments(loc, 0.2))
    t = p.rsample((20000,))
    (slope,) = torch.autograd.grad(t.mean(), loc)
    first = (t < 5).double().mean().item()
    assert slope.flatten().tolist() == pytest.approx([first, 1 - first], abs=1e-9)


def test_samples_in_the_plane_move_with_their_component():
    torch.manual_seed(0)
    weights, mean, covariance = plane()
    mean.requires_grad_()
    p = Mixture(weights, Gaussian(mean, covariance))
    assert p.has_rsample
    (slope,) = torch.autograd.grad(p.rsample((20000,)).mean(0).sum(), mean)
    assert torch.allclose(slope, weights.unsqueeze(-1).expand(3, 2), atol=0.02)
    learnt = Mixture(weights.clone().requires_grad_(), p.components)
    assert not learnt.has_rsample and learnt.sample((3,)).shape == (3, 2)
    with pytest.raises(NotImplementedError, match="in 2 dimensions the weights have no pathwise gradient; detach"):
        learnt.rsample()


# --- Shapes and kinds


def test_grids_can_be_mixed():
    p = Mixture(WEIGHTS, grids())
    assert p.mean.item() == pytest.approx((WEIGHTS @ grids().mean).item())
    t = torch.linspace(0.05, 0.95, 7, dtype=F64).unsqueeze(-1)
    assert torch.allclose(p.prob(t), grids().prob(t.unsqueeze(-2)) @ WEIGHTS, atol=1e-13)
    assert p.sample((5,)).shape == (5, 1)
    padded = Mixture(torch.cat([WEIGHTS, WEIGHTS.new_zeros(1)]), _with_a_bad_row(grids()))
    assert torch.equal(padded.prob(t), p.prob(t)) and torch.equal(padded.mean, p.mean)
    assert not p.has_rsample
    with pytest.raises(NotImplementedError, match="GridDensity has none; use sample"):
        p.rsample()


def _with_a_bad_row(grid: GridDensity) -> GridDensity:
    scores = torch.cat([grid.scores, torch.full_like(grid.scores[:1], -1e300)])
    return GridDensity(scores, grid.nodes, grid.node_weights, grid.alpha, validate_args=False)


def test_batches_broadcast():
    weights, mean, covariance = plane(4)
    components = Gaussian(mean, covariance)
    many = torch.rand(5, 1, 4, dtype=F64).softmax(-1)
    t = torch.rand(7, 5, 3, 2, dtype=F64)
    for inner in (components, components.expand((3, 4)), components.expand((1, 4))):
        p = Mixture(many, inner)
        assert p.batch_shape == ((5, 3) if inner.batch_shape == (3, 4) else (5, 1))
        assert p.components.batch_shape == p.weights.shape == (*p.batch_shape, 4)
        log_p = p.log_prob(t)
        assert log_p.shape == (7, 5, 3)
        assert log_p[2, 4, 1].item() == pytest.approx(Mixture(many[4, 0], components).log_prob(t[2, 4, 1]).item())
        assert p.responsibilities(t).shape == (7, 5, 3, 4) and p.support_contains(t).shape == (7, 5, 3)
        assert p.mean.shape == (*p.batch_shape, 2) and p.covariance_matrix.shape == (*p.batch_shape, 2, 2)
        assert p.sample((6,)).shape == (6, *p.batch_shape, 2)
        assert p.component_count.shape == p.batch_shape
    assert Mixture(weights, components.expand((5, 4))).mean.shape == (5, 2)


def test_shared_components_without_weight_anywhere():
    weights = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]], dtype=F64)
    scale = torch.tensor([[1.0], [2.0], [0.0]], dtype=F64, requires_grad=True)
    p = Mixture(weights, Gaussian(LOC, scale_diag=scale, validate_args=False))
    (slope,) = torch.autograd.grad(p.log_prob(LOC[:2]).sum() + p.variance.sum(), scale)
    assert slope.isfinite().all() and slope[2].item() == 0 and (slope[:2] != 0).all()
    assert p.component_count.tolist() == [2, 1]


def test_expand():
    weights, components = _gaussians()
    p = Mixture(weights, components)
    wide = p.expand((4, 5))
    assert wide.batch_shape == (4, 5) and wide.components.batch_shape == (4, 5, 3)
    t = torch.rand(4, 5, 2, dtype=F64)
    assert torch.equal(wide.log_prob(t), p.log_prob(t))
    assert torch.equal(wide.covariance_matrix[3, 2], p.covariance_matrix)
    assert wide.sample((2,)).unique(dim=1).shape == (2, 4, 5, 2)
    assert wide.component_count.shape == (4, 5)


def test_stack_pads():
    weights, mean, covariance = plane(4)
    mean.requires_grad_()
    three = Mixture(weights[:3] / weights[:3].sum(), BetaGaussian(mean[:3], covariance[:3]))
    parts = [
        Mixture(torch.ones(1, dtype=F64), TruncatedParaboloid(mean[:1], 0.1)),  # diagonal
        three,
        Mixture(weights, Gaussian(mean, covariance)),
    ]
    p = Mixture.stack(parts)
    assert p.batch_shape == (3,) and p.weights.shape == (3, 4) and p.component_count.tolist() == [1, 3, 4]
    assert type(p.components) is BetaGaussian
    t = torch.rand(20, 2, dtype=F64)
    for i, part in enumerate(parts):
        assert torch.allclose(p.log_prob(t.unsqueeze(1))[:, i], part.log_prob(t), atol=1e-12)
        assert torch.allclose(p.covariance_matrix[i], part.covariance_matrix, atol=1e-13)
        (ours,) = torch.autograd.grad(p.prob(t.unsqueeze(1))[:, i].sum(), mean, retain_graph=True)
        (theirs,) = torch.autograd.grad(part.prob(t).sum(), mean, retain_graph=True)
        assert torch.allclose(ours, theirs, atol=1e-11)
    same = Mixture.stack([three, three])
    assert torch.equal(same.components.scale, three.components.scale.expand(2, 3, 2, 2)) and same.alpha == 2.0


def test_stack_of_other_families():
    one, two = WEIGHTS.new_ones(1), WEIGHTS.new_tensor([0.5, 0.5])
    p = Mixture.stack([Mixture(one, Laplace(LOC[:1], SIZE[:1])), Mixture(two, Triangular(LOC[:2], SIZE[:2]))])
    assert type(p.components) is BetaLaplace and p.components.alpha.tolist() == [[1, 1], [2, 2]]
    assert p.prob(LOC[:1])[0].item() == pytest.approx(1 / (2 * SIZE[0].item()))
    p = Mixture.stack([Mixture(one, grids(1)), Mixture(two, grids(2)).expand((3,))])
    assert p.batch_shape == (2, 3) and p.mean[0, 1].item() == pytest.approx(grids(1).mean.item())
    families = [LocationScale(torch.cosh, LOC[:k], SIZE[:k]) for k in (1, 2)]
    p = Mixture.stack([Mixture(one, families[0]), Mixture(two, families[1])])
    assert torch.allclose(p.variance[1], Mixture(two, families[1]).variance)
    with pytest.raises(ValueError, match=r"Mixture.stack: the components must share one g"):
        Mixture.stack([Mixture(one, families[0]), Mixture(one, LocationScale(torch.exp, LOC[:1], SIZE[:1]))])
    with pytest.raises(ValueError, match=r"agree in the shape of their loc, got \(1,\) and \(2,\)"):
        Mixture.stack([Mixture(one, Gaussian(LOC[:1], 1.0)), Mixture(one, Gaussian(torch.zeros(1, 2), 1.0))])
    with pytest.raises(TypeError, match="one family that the library knows, got Gaussian, Laplace"):
        Mixture.stack([Mixture(one, Gaussian(LOC[:1], 1.0)), Mixture(one, Laplace(LOC[:1], 1.0))])
    with pytest.raises(TypeError, match="at least one Mixture"):
        Mixture.stack([])


def test_alpha_if_there_is_one():
    assert Mixture(WEIGHTS, Biweight(LOC, 1.0)).alpha == 1.5
    shared = torch.tensor(1.3, dtype=F64, requires_grad=True)
    assert Mixture(WEIGHTS, BetaGaussian(LOC, 1.0, shared)).alpha is not None
    equal = Mixture(WEIGHTS, BetaGaussian(LOC, 1.0, torch.full((3,), 1.3)))
    assert equal.alpha.shape == () and equal.alpha.item() == pytest.approx(1.3)
    mixed = Mixture(WEIGHTS, FAMILIES["each alpha"](LOC, SIZE))
    assert not hasattr(mixed, "alpha")
    with pytest.raises(AttributeError, match="no alpha in common"):
        _ = mixed.alpha


def test_float32_and_half():
    p = Mixture(WEIGHTS, TruncatedParaboloid(LOC, scale_diag=SIZE))
    single = Mixture(WEIGHTS.float(), TruncatedParaboloid(LOC.float(), scale_diag=SIZE.float()))
    t = torch.linspace(-0.2, 1.2, 40, dtype=F64).unsqueeze(-1)
    basis = GaussianRBF(torch.tensor([[0.1], [0.6]]), 0.1)
    assert single.log_prob(t.float()).dtype == torch.float32
    assert torch.allclose(single.prob(t.float()).double(), p.prob(t), atol=2e-5)
    assert torch.allclose(single.variance.double(), p.variance, atol=1e-6)
    assert torch.allclose(single.expect(basis).double(), p.expect(basis).double(), atol=1e-6)
    assert single.rsample((3,)).dtype == torch.float32
    wide = Mixture(WEIGHTS.float(), TruncatedParaboloid(LOC, scale_diag=SIZE))
    assert wide.mean.dtype == wide.expect(basis).dtype == F64
    for dtype in (torch.float16, torch.bfloat16):
        half = Mixture(torch.full((3,), 1 / 3, dtype=dtype), Gaussian(LOC.to(dtype), scale_diag=SIZE.to(dtype)))
        assert half.mean.dtype == half.weights.dtype == torch.float32
        assert half.weights.sum().item() == pytest.approx(1, abs=1e-6)


def _through(weights: Tensor, loc: Tensor, size: Tensor, t: Tensor) -> Tensor:
    basis = GaussianRBF(LOC.new_tensor([[0.1], [0.6]]), 0.1)
    p = Mixture(weights, TruncatedParaboloid(loc, scale_diag=size))
    flat = [p.log_prob(t), p.mean, p.covariance_matrix.flatten(-2), p.responsibilities(t), p.expect(basis)]
    return torch.cat([x.flatten() for x in flat])


def test_vmap():
    weights = torch.tensor([[0.5, 0.5, 0.0], [0.2, 0.3, 0.5]], dtype=F64)
    loc, size = torch.rand(2, 3, 1, dtype=F64), SIZE.expand(2, 3, 1)
    t = LOC[0]
    mapped = torch.func.vmap(_through, in_dims=(0, 0, 0, None))(weights, loc, size, t)
    assert torch.allclose(mapped, torch.stack([_through(weights[i], loc[i], size[i], t) for i in range(2)]))
    slopes = torch.func.vmap(torch.func.grad(lambda w, m, s: _through(w, m, s, m[0]).nan_to_num(neginf=0).sum()))(
        weights, loc, size
    )
    assert slopes.isfinite().all() and slopes[0, 2].item() == 0


def test_compile():
    weights = torch.tensor([0.6, 0.4, 0.0], dtype=F64)
    compiled = torch.compile(_through, backend="eager", fullgraph=True)
    assert torch.allclose(compiled(weights, LOC, SIZE, LOC[1]), _through(weights, LOC, SIZE, LOC[1]))


# --- Refusals


def test_no_entropy_in_closed_form():
    p = Mixture(*_gaussians())
    with pytest.raises(NotImplementedError, match=r"Mixture.entropy: no closed form"):
        p.entropy()
    with pytest.raises(NotImplementedError, match=r"Mixture.tsallis_entropy: no closed form"):
        p.tsallis_entropy()
    assert repr(p) == "Mixture(batch_shape=(), components: 3 of type Gaussian)"


def test_refusals():
    components = Gaussian(LOC, 1.0)
    with pytest.raises(TypeError, match="weights must be a floating-point tensor"):
        Mixture(torch.tensor([1, 0, 0]), components)
    with pytest.raises(TypeError, match=r"weights must be a torch\.Tensor, got list"):
        Mixture([0.5, 0.5], components)
    with pytest.raises(TypeError, match="components must be a density, got MultivariateNormal"):
        Mixture(WEIGHTS, MultivariateNormal(torch.zeros(2), torch.eye(2)))
    with pytest.raises(ValueError, match="K >= 1"):
        Mixture(torch.tensor(1.0), components)
    with pytest.raises(ValueError, match=r"a batch shape \[\*, 2\], one component for each weight, got \(3,\)"):
        Mixture(torch.tensor([0.5, 0.5]), components)
    with pytest.raises(ValueError, match="do not broadcast"):
        Mixture(WEIGHTS.expand(2, 3), components.expand((4, 3)))
    for bad in ([0.5, 0.4, 0.2], [1.2, -0.2, 0.0], [math.nan, 0.5, 0.5]):
        with pytest.raises(ValueError, match="weights"):
            Mixture(torch.tensor(bad), components, validate_args=True)
    with pytest.raises(ValueError, match="value"):
        Mixture(WEIGHTS, components, validate_args=True).log_prob(torch.full((1,), math.nan, dtype=F64))


def test_hostile_values():
    p = Mixture(WEIGHTS, TruncatedParaboloid(LOC, scale_diag=SIZE), validate_args=False)
    unchecked = Mixture(WEIGHTS, TruncatedParaboloid(LOC, scale_diag=SIZE, validate_args=False), validate_args=False)
    t = LOC.new_tensor([[1e300], [-math.inf], [math.nan]])
    values = unchecked.log_prob(t)
    assert values[:2].tolist() == [-math.inf] * 2 and values[2].isnan()
    assert p.log_prob(t[:1]).item() == -math.inf
    empty = Mixture(torch.zeros(0, 3), Gaussian(torch.zeros(0, 3, 1), 1.0))
    assert empty.mean.shape == (0, 1) and empty.log_prob(torch.zeros(1)).shape == (0,)
    assert empty.sample((2,)).shape == (2, 0, 1)
