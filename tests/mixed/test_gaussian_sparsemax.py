"""The projected Gaussian against quadrature, counting, and closed forms."""

import math

import numpy as np
import pytest
import torch
from scipy import integrate, stats
from torch.distributions import kl_divergence

from mixed.oracle import assert_counts, covariance, face_counts, projected_density, vertex_prob
from omegamax import mixed, sparsemax
from omegamax.mixed import GaussianSparsemax

F = torch.float64


def make_distribution(kind, vertices, seed=0, **options):
    generator = torch.Generator().manual_seed(seed + vertices)
    loc = 0.6 * torch.randn(vertices, dtype=F, generator=generator)
    diag = 0.2 + torch.rand(vertices, dtype=F, generator=generator)
    factor = 0.5 * torch.randn(vertices, 2, dtype=F, generator=generator)
    given = {
        "scale": {"scale": diag.sqrt()},
        "cov": {"cov": covariance(vertices, seed)},
        "tril": {"scale_tril": torch.linalg.cholesky(covariance(vertices, seed))},
        "factor": {"cov_factor": factor[:, :1], "cov_diag": diag},
        "factors": {"cov_factor": factor, "cov_diag": diag},
    }[kind]
    return GaussianSparsemax(loc, **given, **options)


every_kind = pytest.mark.parametrize("kind", ["scale", "cov", "tril", "factor", "factors"])


@every_kind
@pytest.mark.parametrize("vertices, order", [(1, 2), (2, 40), (3, 40), (4, 16)])
def test_mass_of_all_faces_is_one(kind, vertices, order):
    p = make_distribution(kind, vertices)
    y, w = mixed.face_nodes(vertices, order, dtype=F)
    assert abs((p.prob(y) * w).sum().item() - 1) < 1e-12


@every_kind
@pytest.mark.parametrize("vertices", [2, 3, 4])
def test_face_probabilities_sum_to_one(kind, vertices):
    assert abs(make_distribution(kind, vertices).face_probs().sum().item() - 1) < 1e-10


@every_kind
def test_density_is_the_integral_along_the_fibre(kind):
    p = make_distribution(kind, 3)
    for y in ([1, 0, 0], [0, 0, 1], [0.3, 0.7, 0], [0, 0.999, 0.001], [0.2, 0.3, 0.5]):
        wanted = projected_density(p.loc, p.cov, y)
        assert p.prob(torch.tensor(y, dtype=F)).item() == pytest.approx(wanted, rel=2e-8)


@every_kind
def test_faces_are_hit_as_often_as_their_probability_says(kind):
    p = make_distribution(kind, 3, seed=5)
    samples = 200_000
    y = p.sample((samples,))
    assert_counts(face_counts(y), p.face_probs(), samples)
    # Along the first edge, in ten bins.
    edge = y[(y[:, 0] > 0) & (y[:, 1] > 0) & (y[:, 2] == 0), 0]
    shares = torch.histc(edge, 10, 0, 1) / samples
    t, w = np.polynomial.legendre.leggauss(8)
    t, w = torch.tensor((t + 1) / 2), torch.tensor(w / 2)
    bins = (torch.arange(10, dtype=F)[:, None] + t) / 10
    probs = (p.prob(torch.stack([bins, 1 - bins, torch.zeros_like(bins)], -1)) * w / 10).sum(-1)
    assert_counts(shares, probs, samples)


@pytest.mark.parametrize("vertices", [3, 4])
def test_every_form_of_one_covariance_gives_one_density(vertices):
    p = make_distribution("factors", vertices)
    y, _ = mixed.face_nodes(vertices, 6, dtype=F)
    wanted = p.log_prob(y)
    for other in (
        GaussianSparsemax(p.loc, cov=p.cov),
        GaussianSparsemax(p.loc, scale_tril=torch.linalg.cholesky(p.cov)),
    ):
        torch.testing.assert_close(other.log_prob(y), wanted, rtol=0, atol=1e-10)
    p = make_distribution("scale", vertices)
    torch.testing.assert_close(GaussianSparsemax(p.loc, cov=p.cov).log_prob(y), p.log_prob(y), rtol=0, atol=1e-10)


@pytest.mark.parametrize("kind", ["cov", "factor", "factors"])
def test_vertices_of_many_entries_by_quasi_monte_carlo(kind):
    # Six entries: five zeros, beyond what is exact.
    p = make_distribution(kind, 6)
    for i in range(6):
        wanted = vertex_prob(p.loc, p.cov, i)
        got = p.prob(torch.eye(6, dtype=F)[i]).item()
        assert got == pytest.approx(wanted, rel=5e-3, abs=2e-5)


def test_points_with_many_zeros_agree_between_forms():
    p = make_distribution("factors", 7)
    full = GaussianSparsemax(p.loc, cov=p.cov, points=16384)
    y = p.sample((40,))
    y = y[(y == 0).sum(-1) > 3]
    assert len(y) > 10
    torch.testing.assert_close(p.log_prob(y), full.log_prob(y), rtol=0, atol=2e-3)


def test_a_row_does_not_depend_on_its_neighbours():
    p = make_distribution("cov", 6)
    y = torch.stack([torch.eye(6, dtype=F)[0], torch.full((6,), 1 / 6, dtype=F), torch.eye(6, dtype=F)[3]])
    alone = torch.stack([p.log_prob(row) for row in y])
    torch.testing.assert_close(p.log_prob(y), alone, rtol=0, atol=1e-12)


def test_identically_distributed_entries_share_their_mass_equally():
    p = GaussianSparsemax(torch.zeros(5, dtype=F), 0.7)
    probs = p.face_probs()
    for size in range(1, 6):
        own = probs[mixed.faces(5).sum(-1) == size]
        torch.testing.assert_close(own, own[:1].expand_as(own), rtol=1e-9, atol=0)
    assert abs(probs.sum().item() - 1) < 1e-7


def test_steep_factors_keep_their_accuracy():
    # Scales that differ a hundredfold: the distribution functions are steps to the Gaussian.
    loc, scale = torch.tensor([0.3, 0.1, -0.2], dtype=F), torch.tensor([2.0, 0.02, 0.3], dtype=F)
    p = GaussianSparsemax(loc, scale)
    for i in range(3):

        def integrand(t, i=i):
            others = [stats.norm.cdf((t - loc[j]) / scale[j]) for j in range(3) if j != i]
            return stats.norm.pdf(t + 1, loc[i], scale[i]) * np.prod(others)

        wanted, _ = integrate.quad(integrand, -20, 20, points=[0.1, -0.2, 0.0, 0.2], limit=500, epsabs=1e-15)
        assert p.prob(torch.eye(3, dtype=F)[i]).item() == pytest.approx(wanted, rel=1e-9, abs=1e-14)


def test_tails_are_finite_and_exact():
    # The third vertex is 40 deviations away: 1e-350 would underflow, its logarithm does not.
    p = GaussianSparsemax(torch.tensor([40.0, 0.0], dtype=F), math.sqrt(0.5))
    q = GaussianSparsemax(torch.tensor([40.0, 0.0, -300.0], dtype=F), math.sqrt(0.5))
    wanted = torch.special.log_ndtr(torch.tensor(-41.0, dtype=F))
    assert p.log_prob(torch.tensor([0.0, 1.0], dtype=F)).item() == pytest.approx(wanted.item(), rel=1e-14)
    assert q.log_prob(torch.tensor([0.0, 1.0, 0.0], dtype=F)).item() == pytest.approx(wanted.item(), rel=1e-12)


# --- Two vertices


def rectified(loc=(0.2, 0.0), scale=(0.4, 0.3)):
    return GaussianSparsemax(torch.tensor(loc, dtype=F), torch.tensor(scale, dtype=F))


@every_kind
def test_two_vertices_are_a_rectified_gaussian(kind):
    p = make_distribution(kind, 2)
    centre = ((1 + p.loc[0] - p.loc[1]) / 2).item()
    scale = (p.cov[0, 0] + p.cov[1, 1] - 2 * p.cov[0, 1]).sqrt().item() / 2
    reference = stats.norm(centre, scale)
    y = torch.tensor([[1, 0], [0, 1], [0.3, 0.7]], dtype=F)
    wanted = [reference.sf(1), reference.cdf(0), reference.pdf(0.3)]
    torch.testing.assert_close(p.prob(y), torch.tensor(wanted, dtype=F), rtol=1e-12, atol=0)
    wanted = [reference.sf(1), reference.cdf(0), reference.cdf(1) - reference.cdf(0)]
    torch.testing.assert_close(p.face_probs(), torch.tensor(wanted, dtype=F), rtol=1e-12, atol=0)
    # The same by the integral that more vertices use.
    torch.testing.assert_close(p._log_density(y), p.log_prob(y), rtol=0, atol=1e-12)


@pytest.mark.parametrize("loc", [(0.2, 0.0), (3.0, 0.0), (0.0, 30.0)])
def test_entropy_of_two_vertices_is_its_integral(loc):
    p = rectified(loc)
    y, w = mixed.face_nodes(2, 200, dtype=F)
    wanted = -(w * torch.special.xlogy(p.prob(y), p.prob(y))).sum()
    torch.testing.assert_close(p.entropy(), wanted, rtol=0, atol=1e-13)


def test_divergence_of_two_vertices_is_its_integral():
    p, q = rectified(), rectified((-0.5, 0.1), (0.5, 0.7))
    y, w = mixed.face_nodes(2, 100, dtype=F)
    wanted = (w * p.prob(y) * (p.log_prob(y) - q.log_prob(y))).sum()
    torch.testing.assert_close(kl_divergence(p, q), wanted, rtol=0, atol=1e-13)
    assert abs(kl_divergence(p, p).item()) < 1e-16


def test_mean_of_two_vertices_is_its_integral():
    p = rectified()
    y, w = mixed.face_nodes(2, 100, dtype=F)
    torch.testing.assert_close(p.mean, (w[:, None] * p.prob(y)[:, None] * y).sum(0), rtol=0, atol=1e-13)


def test_closed_forms_of_two_vertices_are_differentiable():
    loc = torch.tensor([[0.2, 0.0], [2.0, 0.1]], dtype=F, requires_grad=True)
    scale = torch.tensor([[0.4, 0.3], [0.2, 0.9]], dtype=F, requires_grad=True)
    other = rectified((0.3, 0.2), (0.5, 0.5))

    def values(loc, scale):
        p = GaussianSparsemax(loc, scale)
        return p.entropy(), p.mean, kl_divergence(p, other), kl_divergence(other, p), p.face_probs()

    assert torch.autograd.gradcheck(values, (loc, scale))
    assert torch.autograd.gradgradcheck(values, (loc, scale))


# --- Gradients


POINTS = torch.tensor([[1, 0, 0, 0], [0.2, 0.8, 0, 0], [0.2, 0.3, 0.5, 0], [0.1, 0.2, 0.3, 0.4]], dtype=F)


def test_log_prob_has_gradients_of_two_orders_for_a_diagonal():
    p = make_distribution("scale", 4)
    inputs = [p.loc.clone().requires_grad_(), p.scale.clone().requires_grad_()]

    def value(loc, scale):
        return GaussianSparsemax(loc, scale).log_prob(POINTS)

    assert torch.autograd.gradcheck(value, inputs, atol=1e-7)
    assert torch.autograd.gradgradcheck(value, inputs, atol=1e-6)


def test_log_prob_has_gradients_for_full_covariances_and_factors():
    p, q = make_distribution("tril", 4), make_distribution("factor", 4)
    tril = p.scale_tril.clone().requires_grad_()

    def full(loc, tril):
        return GaussianSparsemax(loc, scale_tril=tril.tril(), order=12, validate_args=False).log_prob(POINTS)

    def factors(loc, factor, diag):
        return GaussianSparsemax(loc, cov_factor=factor, cov_diag=diag, order=12).log_prob(POINTS[1:])

    assert torch.autograd.gradcheck(full, (p.loc.clone().requires_grad_(), tril), atol=1e-7, fast_mode=True)
    parts = [t.clone().requires_grad_() for t in (q.loc, q.cov_factor, q.cov_diag)]
    assert torch.autograd.gradcheck(factors, parts, atol=1e-7, fast_mode=True)


def test_quasi_monte_carlo_and_hermite_values_have_their_own_gradients():
    y = torch.eye(6, dtype=F)[:2]
    p, q = make_distribution("tril", 6), make_distribution("factor", 6)

    def full(loc):
        return GaussianSparsemax(loc, scale_tril=p.scale_tril, points=64).log_prob(y)

    def factors(loc):
        return GaussianSparsemax(loc, cov_factor=q.cov_factor, cov_diag=q.cov_diag, order=32).log_prob(y)

    assert torch.autograd.gradcheck(full, p.loc.clone().requires_grad_())
    assert torch.autograd.gradcheck(factors, q.loc.clone().requires_grad_(), atol=1e-6)


def test_log_prob_has_a_gradient_to_the_point():
    p = make_distribution("scale", 3)

    def value(a):
        return p.log_prob(torch.stack([a, 1 - a, torch.zeros_like(a)], -1))

    assert torch.autograd.gradcheck(value, torch.tensor([0.2, 0.6], dtype=F, requires_grad=True))


@every_kind
def test_samples_are_projections_with_pathwise_gradients(kind):
    p = make_distribution(kind, 5)
    names = [n for n in ("loc", "scale", "scale_tril", "cov_factor", "cov_diag") if n in p.__dict__]
    inputs = [p.__dict__[n].clone().requires_grad_() for n in names]

    def draw(*values):
        torch.manual_seed(3)
        return GaussianSparsemax(**dict(zip(names, values, strict=True)), validate_args=False).rsample((2,))

    if kind == "tril":
        inputs[1] = p.scale_tril.clone().requires_grad_()
    torch.manual_seed(3)
    scores = p.rsample_scores((2,))
    torch.testing.assert_close(draw(*inputs), sparsemax(scores))
    assert torch.autograd.gradcheck(draw, inputs)


def test_pathwise_gradient_of_a_mean_is_unbiased():
    loc = torch.tensor([0.4, 0.0], dtype=F, requires_grad=True)
    samples = 100_000
    y = GaussianSparsemax(loc, 0.5).rsample((samples,))
    (got,) = torch.autograd.grad(y[:, 0].mean(), loc)
    (wanted,) = torch.autograd.grad(GaussianSparsemax(loc, 0.5).mean[0], loc)
    torch.testing.assert_close(got, wanted, rtol=0, atol=5 * 0.25 / math.sqrt(samples))


# --- Batches, dtypes, errors


def test_large_batches_go_in_pieces_and_agree():
    p = GaussianSparsemax(torch.randn(3, 1, 12, dtype=F), 0.5)
    y = p.sample((5,)).expand(5, 3, 400, 12)
    values = p.log_prob(y)
    assert values.shape == (5, 3, 400)
    torch.testing.assert_close(values[2, 1, 7], GaussianSparsemax(p.loc[1, 0], 0.5).log_prob(y[2, 1, 7]))


def test_face_probabilities_broadcast_with_the_batch():
    p = GaussianSparsemax(torch.randn(2, 3, 3, dtype=F), 0.5)
    every = p.face_probs()
    assert every.shape == (2, 3, 7)
    face = mixed.faces(3)[[3, 6, 0]]
    torch.testing.assert_close(p.log_face_prob(face).exp(), every[:, range(3), [3, 6, 0]])
    assert p.log_face_prob(mixed.faces(3)[:, None, None]).shape == (7, 2, 3)
    torch.testing.assert_close(p.nonzeros(), every @ mixed.faces(3).sum(-1).double())


@pytest.mark.parametrize("dtype, within", [(torch.float32, 2e-5), (torch.float16, 2e-2), (torch.bfloat16, 1e-1)])
@pytest.mark.parametrize("kind", ["scale", "cov", "factor"])
def test_lower_precision_is_computed_in_float32(kind, dtype, within):
    p = make_distribution(kind, 4)
    names = [n for n in ("loc", "scale", "cov", "cov_factor", "cov_diag") if n in p.__dict__]
    low = GaussianSparsemax(**{n: p.__dict__[n].to(dtype) for n in names}, validate_args=False)
    assert low.sample().dtype == torch.float32
    values = low.log_prob(POINTS.to(torch.float32))
    assert values.dtype == torch.float32
    torch.testing.assert_close(values.double(), p.log_prob(POINTS), rtol=within, atol=within)


@pytest.mark.parametrize(
    "given, message",
    [
        ({}, "exactly one of scale, cov, scale_tril.*got none of them"),
        ({"scale": 1.0, "cov": torch.eye(3)}, "exactly one of .*got scale, cov"),
        ({"cov_diag": torch.ones(3)}, "exactly one of .*got cov_diag"),
        ({"cov": torch.eye(2)}, r"cov must have shape \[\*, 3, 3\], got \(2, 2\)"),
        ({"scale": torch.ones(2)}, r"scale must have shape \[\*, 3\], got \(2,\)"),
        ({"scale": 1.0, "order": 0}, "order must be an int of at least 2, got 0"),
        ({"scale": -1.0}, "scale"),
        ({"cov": -torch.eye(3)}, "cov"),
    ],
)
def test_bad_parameters_are_refused_by_name(given, message):
    with pytest.raises(ValueError, match=message):
        GaussianSparsemax(torch.zeros(3), **given)


def test_looking_at_another_form_of_the_covariance_changes_nothing():
    p, y = make_distribution("scale", 5), torch.eye(5, dtype=F)[:2]
    before = p.log_prob(y)
    torch.testing.assert_close(p.scale_tril @ p.scale_tril.mT, p.cov)
    assert torch.equal(p.log_prob(y), before)
    torch.testing.assert_close(p.expand((3, 1)).log_prob(y), before.expand(3, 2))
    q = make_distribution("factor", 5)
    torch.testing.assert_close(q.scale.square(), q.cov.diagonal())
    torch.testing.assert_close(q.scale_tril @ q.scale_tril.mT, q.cov)


def test_ranks_without_a_product_rule_agree_with_the_others():
    generator = torch.Generator().manual_seed(1)
    factor = 0.4 * torch.randn(6, 3, dtype=F, generator=generator)
    loc, diag = torch.zeros(6, dtype=F), torch.full((6,), 0.3, dtype=F)
    y = torch.eye(6, dtype=F)[:2]
    wide = GaussianSparsemax(loc, cov_factor=factor, cov_diag=diag)
    torch.testing.assert_close(wide.log_prob(y), GaussianSparsemax(loc, cov=wide.cov).log_prob(y))
    none = GaussianSparsemax(loc, cov_factor=factor[:, :0], cov_diag=diag)
    torch.testing.assert_close(none.log_prob(y), GaussianSparsemax(loc, diag.sqrt()).log_prob(y))
    assert none.sample((3,)).shape == (3, 6)


def test_bad_types_and_batches_are_refused():
    with pytest.raises(TypeError, match=r"loc must be a floating-point tensor, got dtype torch\.int64"):
        GaussianSparsemax(torch.zeros(3, dtype=torch.int64), 1.0)
    with pytest.raises(ValueError, match="batch shapes must broadcast, got loc"):
        GaussianSparsemax(torch.zeros(2, 3), torch.ones(4, 3))
    with pytest.raises(NotImplementedError, match=r"2 vertices only, got 3; use omegamax\.mixed\.entropy"):
        GaussianSparsemax(torch.zeros(3), 1.0).entropy()
    with pytest.raises(AttributeError, match="no cov_factor"):
        _ = GaussianSparsemax(torch.zeros(3), 1.0).cov_factor
