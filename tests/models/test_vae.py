"""The bound of an auto-encoder is a bound, its divergence the divergence, its gradient the gradient."""

from __future__ import annotations

import math

import pytest
import torch
from scipy import integrate

from omegamax.functional import sparsemax
from omegamax.models.latents import LATENTS, latent
from omegamax.models.vae import VAE

pytestmark = pytest.mark.usefixtures("_double")

# Every distribution with a small code: kind, variables, vertices.
SMALL = [
    ("gaussian", 1, 1),
    ("gumbel_softmax", 1, 2),
    ("gumbel_softmax", 1, 3),
    ("straight_through", 1, 2),
    ("straight_through", 1, 3),
    ("hard_concrete", 1, 2),
    ("hard_concrete", 1, 3),
    ("gaussian_sparsemax", 1, 2),
    ("gaussian_sparsemax", 1, 3),
    ("mixed_dirichlet", 1, 2),
    ("mixed_dirichlet", 1, 3),
    ("logistic_normal", 1, 2),
    ("logistic_normal", 1, 3),
]
UNBIASED = [case for case in SMALL if case[0] != "straight_through"]
# Where a draw is a smooth function of noise and parameters, and so is the estimate of the divergence.
SMOOTH = [
    ("gaussian", 2, 1),
    ("gumbel_softmax", 2, 2),
    ("gumbel_softmax", 2, 4),
    ("hard_concrete", 2, 2),
    ("hard_concrete", 2, 4),
    ("gaussian_sparsemax", 2, 2),
    ("logistic_normal", 2, 2),
    ("logistic_normal", 2, 4),
]


@pytest.fixture
def _double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


class Given(torch.nn.Module):
    """An encoder that says the same of every picture."""

    def __init__(self, numbers):
        super().__init__()
        self.numbers = numbers

    def forward(self, pictures):
        return self.numbers.expand(len(pictures), -1)


def small(kind, variables, vertices, draws=2):
    """An auto-encoder of three pixels whose decoder makes much of the code, and the encoder's numbers."""
    torch.manual_seed(7)
    distribution = latent(kind, variables, vertices)
    vae = VAE(distribution, pixels=3, hidden=6, layers=1, draws=draws)
    for weights in vae.decoder.parameters():
        weights.data.mul_(3)
    numbers = 0.4 * torch.randn(1, distribution.numbers)  # broad distributions: few draws see all faces
    vae.encoder = Given(numbers)
    return vae, numbers


PICTURE = torch.tensor([[1.0, 0.0, 1.0]])


def interval(count):
    """Nodes in (0, 1), one minus them, and weights: the double exponential rule, for poles at both ends."""
    u = torch.linspace(-3.6, 3.6, count)
    odds = math.pi * u.sinh()
    x, rest = odds.sigmoid(), (-odds).sigmoid()
    return x, rest, (u[1] - u[0]) * math.pi * u.cosh() * x * rest


def simplex(vertices, count):
    """Nodes ``[Q, K]`` and weights on all faces of a simplex of two or three vertices."""
    x, rest, w = interval(count)
    corners = torch.eye(vertices)
    zero = torch.zeros(count)
    pairs = [(0, 1)] if vertices == 2 else [(0, 1), (0, 2), (1, 2)]
    edges = []
    for first, second in pairs:
        columns = [zero] * vertices
        columns[first], columns[second] = x, rest
        edges.append(torch.stack(columns, -1))
    points, weights = [corners, *edges], [torch.ones(vertices), *[w] * len(pairs)]
    if vertices == 3:
        inside = [x[:, None].expand(-1, count), rest[:, None] * x, rest[:, None] * rest]
        points.append(torch.stack(inside, -1).flatten(0, 1))
        weights.append((w[:, None] * rest[:, None] * w).flatten())
    return torch.cat(points), torch.cat(weights)


def nodes_of(vae):
    """Nodes ``[Q, 1, n, K]`` and weights ``[Q]`` that integrate over all codes of one variable, and the prior there."""
    kind, vertices = vae.latent, vae.latent.vertices
    if vertices == 1:
        x = torch.linspace(-12, 12, 4001)
        return x.reshape(-1, 1, 1, 1), torch.full((4001,), float(x[1] - x[0])), kind.prior.log_prob(x)
    # A projection bends what it maps: many nodes.
    stretched = type(kind).__name__ == "StretchedLatent"
    y, w = simplex(vertices, 400 if stretched else 80)
    log_prior = kind.prior.log_prob(y)
    if type(kind).__name__ in (
        "GumbelSoftmaxLatent",
        "StretchedLatent",
        "LogisticNormalLatent",
    ):  # torch's Dirichlet does not know the border
        log_prior = torch.where((y > 0).all(-1), log_prior, -math.inf)
    return y.reshape(-1, 1, 1, vertices), w, log_prior


def fit(vae, point):
    return vae._fit(PICTURE, point).squeeze(1)


def log_likelihood(vae):
    y, w, log_prior = nodes_of(vae)
    return (w.log() + log_prior + fit(vae, y)).logsumexp(0).item()


def expected_bound(vae, numbers):
    """The bound, by quadrature over the codes; a smooth function of the numbers."""
    y, w, log_prior = nodes_of(vae)
    distribution = vae.latent.distribution(numbers)
    log_q = distribution.log_prob(y.squeeze(-1) if vae.latent.vertices == 1 else y).reshape(-1)
    kept = (log_q > -math.inf) & (log_prior > -math.inf)
    log_q, log_prior = torch.where(kept, log_q, 0.0), torch.where(kept, log_prior, 0.0)
    return (w * kept * log_q.exp() * (fit(vae, y) + log_prior - log_q)).sum()


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_prior_has_mass_one_and_no_face_of_the_distribution_is_impossible(case):
    vae, numbers = small(*case)
    _, w, log_prior = nodes_of(vae)
    assert (w * log_prior.exp()).sum().item() == pytest.approx(1, abs=1e-6)
    point = vae.latent.draw(vae.latent.distribution(numbers), 5000).point
    assert vae.latent.log_ratio(vae.latent.distribution(numbers), point).isfinite().all()


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_bound_is_below_the_log_likelihood_and_the_weighted_bound_near_it(case):
    vae, _ = small(*case)
    truth = log_likelihood(vae)
    with torch.no_grad():
        found = vae(PICTURE.expand(4000, -1)).value
        weighted = vae.weighted_bound(PICTURE.expand(20, -1), samples=2000, chunk=500)
    error = found.std().item() / math.sqrt(len(found))
    assert found.mean().item() < truth + 4 * error
    assert weighted.mean().item() == pytest.approx(truth, abs=0.02)
    few = vae.weighted_bound(PICTURE.expand(4000, -1), samples=5, chunk=2).mean().item()
    assert found.mean().item() - 4 * error < few < truth + 4 * error


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_bound_is_the_integral_over_all_codes(case):
    vae, numbers = small(*case)
    with torch.no_grad():
        found = vae(PICTURE.expand(10_000, -1)).value
    error = found.std().item() / math.sqrt(len(found))
    assert found.mean().item() == pytest.approx(expected_bound(vae, numbers).item(), abs=4 * error + 1e-4)


@pytest.mark.parametrize(
    "kind, exact", [("hard_concrete", 5e-6), ("gaussian_sparsemax", 1e-9), ("mixed_dirichlet", 1e-9)]
)
@pytest.mark.parametrize("seed", range(3))
def test_divergence_of_two_vertices_is_the_integral_over_the_edge_and_its_ends(kind, exact, seed):
    torch.manual_seed(seed)
    family = latent(kind, variables=1)
    distribution = family.distribution(1.2 * torch.randn(1, family.numbers))

    def density(first, second):
        return distribution.prob(torch.tensor([[[first, second]]])).item()

    def integrand(odds):  # over log-odds: poles at the ends go away
        first, second = 1 / (1 + math.exp(-odds)), 1 / (1 + math.exp(odds))
        p = density(first, second)
        return p * math.log(3 * p) * first * second

    inside, _ = integrate.quad(integrand, -600, 600, limit=400, epsabs=1e-12, points=[-100, -10, 0, 10, 100])
    ends = [density(1.0, 0.0), density(0.0, 1.0)]
    truth = inside + sum(p * math.log(3 * p) for p in ends)
    point = family.draw(distribution, 2).point
    assert family.divergence(distribution, point).item() == pytest.approx(truth, abs=exact)


@pytest.mark.parametrize("case", [("gumbel_softmax", 1, 2), ("gaussian_sparsemax", 1, 3)], ids=str)
def test_divergence_from_draws_is_right_on_average(case):
    family = latent(*case)
    numbers = torch.randn(1, family.numbers)
    many = family.distribution(numbers.expand(20_000, -1))
    found = family.divergence(many, family.draw(many, 2).point)
    vae, _ = small(*case)
    y, w, log_prior = nodes_of(vae)
    log_q = family.distribution(numbers).log_prob(y).reshape(-1)
    kept = (log_q > -math.inf) & (log_prior > -math.inf)
    truth = (w * kept * torch.where(kept, log_q, 0.0).exp() * torch.where(kept, log_q - log_prior, 0.0)).sum()
    assert found.mean().item() == pytest.approx(truth.item(), abs=4 * found.std().item() / math.sqrt(len(found)) + 1e-4)


@pytest.mark.parametrize("case", UNBIASED, ids=str)
def test_gradient_is_that_of_the_expected_bound_on_average(case):
    vae, numbers = small(*case, draws=3)
    truth = torch.zeros_like(numbers)
    for place in range(numbers.shape[-1]):
        step = torch.zeros_like(numbers)
        step[0, place] = 1e-5
        truth[0, place] = (expected_bound(vae, numbers + step) - expected_bound(vae, numbers - step)) / 2e-5
    rows = numbers.expand(20_000, -1).clone().requires_grad_()
    vae.encoder = Given(rows)
    (found,) = torch.autograd.grad(vae(PICTURE.expand(len(rows), -1)).value.sum(), rows)
    error = found.std(0) / math.sqrt(len(rows))
    assert ((found.mean(0) - truth[0]).abs() < 4.5 * error + 1e-4).all(), (found.mean(0), truth[0], error)
    assert (error < 0.05 * truth.abs().max() + 0.01).all()  # else this says nothing


def test_straight_through_gradient_is_biased_and_that_of_its_divergence_is_not():
    family = latent("straight_through", 1, 3)
    numbers = torch.randn(1, 3, requires_grad=True)
    distribution = family.distribution(numbers)
    (found,) = torch.autograd.grad(family.divergence(distribution, family.draw(distribution, 1).point).sum(), numbers)
    p = numbers.softmax(-1)
    (truth,) = torch.autograd.grad((p * (3 * p).log()).sum(), numbers)
    torch.testing.assert_close(found, truth)


@pytest.mark.parametrize("case", SMOOTH, ids=str)
def test_gradient_with_the_same_noise_is_that_of_finite_differences(case):
    torch.manual_seed(3)
    distribution = latent(*case)
    vae = VAE(distribution, pixels=5, hidden=4, layers=1, draws=2)
    pictures = (torch.rand(3, 5) < 0.5).double()
    weights = torch.nn.utils.parameters_to_vector(vae.parameters()).detach()

    def bound(flat):
        torch.nn.utils.vector_to_parameters(flat, vae.parameters())
        torch.manual_seed(11)
        return vae(pictures).value.sum()

    value = bound(weights)
    found = torch.cat([g.flatten() for g in torch.autograd.grad(value, list(vae.parameters()))])
    direction = torch.randn_like(weights)
    with torch.no_grad():
        truth = (bound(weights + 1e-6 * direction) - bound(weights - 1e-6 * direction)) / 2e-6
    assert (found @ direction).item() == pytest.approx(truth.item(), rel=1e-6, abs=1e-7)


def test_projected_code_tells_no_more_than_the_point_before():
    family = latent("hard_concrete", variables=2, vertices=4)
    distribution = family.distribution(torch.randn(3, family.numbers))
    point = family.draw(distribution, 5).point
    code = family.code(point)
    torch.testing.assert_close(code, sparsemax(1.2 * point))
    assert (point > 0).all() and (code == 0).any()
    torch.testing.assert_close(family.read(point), code.flatten(-2))


@pytest.mark.parametrize("case", SMALL, ids=str)
def test_codes_are_on_the_faces_that_a_distribution_promises(case):
    vae, _ = small(*case)
    shown, code = vae.reconstruct(PICTURE.expand(2000, -1).reshape(2000, 1, 3))
    assert shown.shape == (2000, 1, 3) and ((shown > 0) & (shown < 1)).all()
    kind, variables, vertices = case
    assert code.shape == (2000, variables, vertices)
    if kind == "gaussian":
        return
    assert (code >= 0).all()
    torch.testing.assert_close(code.sum(-1), torch.ones(2000, variables))
    sizes = set((code > 0).sum(-1).flatten().tolist())
    assert sizes == {
        "gumbel_softmax": {vertices},
        "logistic_normal": {vertices},
        "straight_through": {1},
    }.get(kind, set(range(1, vertices + 1)))


def test_float32_bound_is_close_to_that_in_float64():
    for kind in LATENTS:
        torch.manual_seed(0)
        vae = VAE(latent(kind, 3, 1 if kind == "gaussian" else 4), pixels=6, hidden=8, draws=2)
        pictures = (torch.rand(400, 6) < 0.5).double()
        wide = vae(pictures)
        narrow = vae.float()(pictures.float())
        for a, b in zip(wide, narrow, strict=True):
            assert b.dtype == torch.float32 and b.isfinite().all()
            spread = 6 * a.std().item() / math.sqrt(len(a)) + 1e-3
            assert b.mean().item() == pytest.approx(a.mean().item(), abs=spread)


def test_decoder_starts_from_the_mean_picture():
    vae = VAE(latent("gaussian", 2, 1), pixels=4, hidden=3)
    vae.centre(torch.tensor([[0.2, 0.5], [0.0, 1.0]]))
    torch.testing.assert_close(vae.decoder[-1].bias.sigmoid(), torch.tensor([0.2, 0.5, 0.001, 0.999]))


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match=r"latent: kind must be one of 'gaussian'.*got 'bernoulli'"):
        latent("bernoulli", 3)
    with pytest.raises(ValueError, match="GaussianLatent: vertices must be 1"):
        latent("gaussian", 3, 2)
    with pytest.raises(ValueError, match="GumbelSoftmaxLatent: vertices must be an integer >= 2, got 1"):
        latent("gumbel_softmax", 3, 1)
    with pytest.raises(ValueError, match="StraightThroughLatent: temperature must be a finite number > 0, got 0"):
        latent("straight_through", 3, temperature=0)
    with pytest.raises(ValueError, match="variables must be an integer >= 1, got 0"):
        latent("mixed_dirichlet", 0)
    with pytest.raises(ValueError, match="VAE: draws must be an integer >= 1, got 0"):
        VAE(latent("gaussian", 2, 1), draws=0)
    with pytest.raises(ValueError, match="VAE: pictures must have 784 pixels each, got"):
        VAE(latent("gaussian", 2, 1))(torch.zeros(2, 3))
