"""Softmax of a Gaussian vector, against quadrature and change of variables."""

import math

import pytest
import torch
from scipy import integrate
from torch.distributions import Independent, Normal, TransformedDistribution, kl_divergence
from torch.distributions.transforms import SigmoidTransform

from omegamax import mixed
from omegamax.mixed import LogisticNormal, MaxEntropyMixed

F = torch.float64
LOC = torch.tensor([0.6, -0.2, 0.1], dtype=F)
ROOT = torch.tensor([[0.9, 0.0, 0.0], [0.3, 0.6, 0.0], [-0.2, 0.4, 0.8]], dtype=F)
FORMS = {
    "scale": {"scale": torch.tensor([0.7, 0.5, 1.1], dtype=F)},
    "cov": {"cov": ROOT @ ROOT.mT},
    "scale_tril": {"scale_tril": ROOT},
    "cov_factor": {"cov_factor": ROOT[:, :1], "cov_diag": torch.tensor([0.4, 0.6, 0.3], dtype=F)},
}
every_form = pytest.mark.parametrize("form", FORMS)


def covariance(form):
    given = FORMS[form]
    if form == "scale":
        return torch.diag(given["scale"].square())
    if form == "cov_factor":
        return given["cov_factor"] @ given["cov_factor"].mT + torch.diag(given["cov_diag"])
    return ROOT @ ROOT.mT


@every_form
def test_density_has_mass_one_and_the_moments_of_its_logarithms(form):
    p = LogisticNormal(LOC, **FORMS[form])
    y, w = mixed.face_nodes(3, order=90, dtype=F)
    inside = (y > 0).all(-1)
    y, mass = y[inside], (w * p.prob(y))[inside]
    assert abs(mass.sum().item() - 1) < 1e-9
    ratios = y[:, :2].log() - y[:, 2:].log()
    torch.testing.assert_close(mass @ ratios, LOC[:2] - LOC[2], rtol=0, atol=1e-8)
    contrast = torch.tensor([[1.0, 0.0, -1.0], [0.0, 1.0, -1.0]], dtype=F)
    wanted = contrast @ covariance(form) @ contrast.mT
    torch.testing.assert_close(
        (mass * ratios.T) @ ratios - torch.outer(mass @ ratios, mass @ ratios), wanted, rtol=0, atol=1e-7
    )
    torch.testing.assert_close(p.log_ratios().covariance_matrix, wanted, rtol=0, atol=1e-12)


@every_form
def test_density_is_that_of_the_log_ratios_whichever_vertex_is_left_out(form):
    p = LogisticNormal(LOC, **FORMS[form])
    y = torch.distributions.Dirichlet(torch.ones(3, dtype=F)).sample((20,))
    for last in range(3):
        rest = [i for i in range(3) if i != last]
        contrast = torch.eye(3, dtype=F)[rest] - torch.eye(3, dtype=F)[last]
        base = torch.distributions.MultivariateNormal(contrast @ LOC, contrast @ covariance(form) @ contrast.mT)
        wanted = base.log_prob(y.log() @ contrast.mT) - y.log().sum(-1)
        torch.testing.assert_close(p.log_prob(y), wanted, rtol=0, atol=1e-11)


def test_two_vertices_are_the_logistic_of_a_normal_variable():
    p = LogisticNormal(torch.tensor([0.3, -0.4], dtype=F), torch.tensor([0.5, 1.2], dtype=F))
    wanted = TransformedDistribution(Normal(torch.tensor(0.7, dtype=F), 1.3), SigmoidTransform())
    x = torch.linspace(0.01, 0.99, 33, dtype=F)
    torch.testing.assert_close(p.log_prob(torch.stack([x, 1 - x], -1)), wanted.log_prob(x), rtol=0, atol=1e-12)


@pytest.mark.parametrize("mean", [0.0, 0.3, -7.0, 30.0, 200.0])
@pytest.mark.parametrize("deviation", [1e-3, 0.1, 1.0, 3.0, 10.0, 100.0])
def test_entropy_and_mean_of_two_vertices_are_integrals_over_the_log_odds(mean, deviation):
    p = LogisticNormal(torch.tensor([mean, 0.0], dtype=F), deviation / math.sqrt(2))

    def integral(f):
        middle = [-mean / deviation, (1 - mean) / deviation, (-1 - mean) / deviation]
        points = [0.0, *(x for x in middle if abs(x) < 30)]
        value, _ = integrate.quad(
            lambda x: math.exp(-x * x / 2) / math.sqrt(2 * math.pi) * f(mean + deviation * x),
            -30, 30, points=points, limit=800, epsabs=1e-13, epsrel=1e-12,
        )  # fmt: skip
        return value

    logs = integral(lambda d: -abs(d) - 2 * math.log1p(math.exp(-abs(d))))
    entropy = 0.5 * math.log(2 * math.pi * math.e) + math.log(deviation) + logs
    assert p.entropy().item() == pytest.approx(entropy, abs=1e-10)
    first = integral(lambda d: 1 / (1 + math.exp(-d)) if d > 0 else math.exp(d) / (1 + math.exp(d)))
    assert p.mean.tolist() == pytest.approx([first, 1 - first], abs=1e-11)


def test_entropy_of_more_vertices_is_that_of_a_quadrature_or_of_draws():
    p = LogisticNormal(LOC, **FORMS["cov"])
    with pytest.raises(NotImplementedError, match=r"use omegamax\.mixed\.entropy"):
        p.entropy()
    exact = mixed.entropy(p, order=64)
    assert exact.error < 1e-5
    torch.manual_seed(0)
    value, error = mixed.entropy(p, samples=20_000)
    assert abs(value - exact.value) < 4 * error
    # h(Y) = h(log-ratios) + E[sum log y], of which only the logarithm of a sum of exponentials is an integral.
    y = p.sample((200_000,))
    other = p.log_ratios().entropy() + y.log().sum(-1).mean()
    assert abs(other - exact.value) < 0.02


@every_form
def test_divergence_of_two_is_closed_and_that_of_a_quadrature(form):
    p, q = LogisticNormal(LOC, **FORMS["scale"]), LogisticNormal(-0.5 * LOC, **FORMS[form])
    value, error = mixed.kl_divergence(p, q)
    y, w = mixed.face_nodes(3, order=90, dtype=F)
    inside = (y > 0).all(-1)
    y, w = y[inside], w[inside]
    wanted = (w * p.prob(y) * (p.log_prob(y) - q.log_prob(y))).sum()
    assert error == 0 and abs(value - wanted) < 1e-8
    assert kl_divergence(p, p).abs() < 1e-12


def test_divergence_from_the_maximum_entropy_distribution_is_closed_for_two_vertices():
    p = LogisticNormal(torch.tensor([0.3, -0.4], dtype=F), 0.8)
    value, error = mixed.kl_divergence(p, MaxEntropyMixed(2, torch.zeros((), dtype=F)))
    assert error == 0
    torch.testing.assert_close(value, math.log(3) - p.entropy())


@every_form
def test_gradients(form):
    given = [LOC.clone().requires_grad_()] + [v.clone().requires_grad_() for v in FORMS[form].values()]
    y = torch.tensor([0.5, 0.3, 0.2], dtype=F)

    def log_prob(loc, *parameters):
        if form == "cov":
            parameters = [(parameters[0] + parameters[0].mT) / 2]
        if form == "scale_tril":
            parameters = [parameters[0].tril()]
        p = LogisticNormal(loc, **dict(zip(FORMS[form], parameters, strict=True)), validate_args=False)
        return p.log_prob(y)

    assert torch.autograd.gradcheck(log_prob, given) and torch.autograd.gradgradcheck(log_prob, given)


def test_gradients_of_entropy_and_mean():
    given = (
        torch.tensor([0.6, -0.2], dtype=F, requires_grad=True),
        torch.tensor([0.7, 1.1], dtype=F, requires_grad=True),
    )
    assert torch.autograd.gradcheck(lambda *a: LogisticNormal(*a, validate_args=False).entropy(), given)
    assert torch.autograd.gradcheck(lambda *a: LogisticNormal(*a, validate_args=False).mean, given)


@every_form
def test_samples_have_the_moments_of_the_log_ratios_and_carry_gradients(form):
    torch.manual_seed(0)
    loc = LOC.clone().requires_grad_()
    y = LogisticNormal(loc, **FORMS[form]).rsample((40_000,))
    ratios = y[:, :2].log() - y[:, 2:].log()
    base = LogisticNormal(LOC, **FORMS[form]).log_ratios()
    error = base.variance.sqrt() / 200
    assert ((ratios.mean(0) - base.mean).abs() < 4 * error).all()
    torch.testing.assert_close(ratios.T.cov(), base.covariance_matrix, rtol=0.05, atol=0.03)
    (gradient,) = torch.autograd.grad(ratios[:, 0].mean(), loc)
    torch.testing.assert_close(gradient, torch.tensor([1.0, 0.0, -1.0], dtype=F))


def test_edge_cases():
    one = LogisticNormal(torch.zeros(2, 1), 0.5)
    assert torch.equal(one.log_prob(torch.ones(2, 1)), torch.zeros(2))
    assert torch.equal(kl_divergence(one, one), torch.zeros(2))
    assert LogisticNormal(torch.zeros(0, 3), 0.5).sample().shape == (0, 3)
    half = LogisticNormal(torch.zeros(3, dtype=torch.float16), 0.5)
    assert half.sample().dtype == torch.float32
    far = LogisticNormal(torch.tensor([0.0, 500.0, 0.0]), 1e-3)  # entries that round to 0 stay inside
    assert far.log_prob(far.sample((20,))).isfinite().all()
    border = torch.tensor([[0.5, 0.5, 0.0], [1.0, 0.0, 0.0]])
    assert torch.equal(LogisticNormal(torch.zeros(3), 1.0).log_prob(border), torch.full((2,), -math.inf))
    wide = Independent(LogisticNormal(torch.zeros(4, 3), 1.0), 1)
    assert wide.log_prob(wide.sample((5,))).shape == (5,)


@pytest.mark.parametrize("size", [1e-15, 1e-6, 1e6, 1e15])
def test_density_neither_overflows_nor_vanishes_at_any_scale(size):
    p = LogisticNormal(torch.tensor([0.0, 1e-3, 0.0]), size)
    q = LogisticNormal(torch.tensor([0.0, 1e-3, 0.0], dtype=F), size)
    y = torch.tensor([0.3, 0.3, 0.4])
    torch.testing.assert_close(p.log_prob(y).double(), q.log_prob(y.double()), rtol=1e-3, atol=1e-4)


def test_misuse_is_refused_by_name():
    with pytest.raises(ValueError, match="LogisticNormal: needs exactly one of scale, cov"):
        LogisticNormal(LOC)
    with pytest.raises(ValueError, match=r"LogisticNormal: loc must have shape \[\*, K\]"):
        LogisticNormal(torch.tensor(0.0), 1.0)
    with pytest.raises(NotImplementedError, match=r"LogisticNormal\.mean: for 2 vertices only, got 3"):
        _ = LogisticNormal(LOC, 1.0).mean
