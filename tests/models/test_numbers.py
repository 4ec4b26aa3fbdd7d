"""The numbers of a density: by hand, of mixtures, at the edges; and what they and a budget tell of a count."""

from __future__ import annotations

import math

import pytest
import torch

from models.cases import OUTPUTS, batch, config, model
from omegamax.basis import grid_positions
from omegamax.densities import BetaGaussian, Gaussian, Mixture, TruncatedParaboloid
from omegamax.models.mcan import MCAN, AnswerLoss, ImageGrid, OutputAttention, OutputConfig
from omegamax.models.mcan.numbers import count_numbers, density_numbers

F64 = torch.float64
MEAN = torch.tensor([[0.25, 0.75], [0.5, 0.5]], dtype=F64)
COVARIANCE = torch.tensor([[[0.04, 0.006], [0.006, 0.01]], [[0.09, 0.0], [0.0, 0.09]]], dtype=F64)


def test_numbers_by_hand():
    found = density_numbers(Gaussian.from_moments(MEAN, COVARIANCE))
    rho = 0.006 / math.sqrt(0.04 * 0.01)
    area = math.log(math.pi * 0.2 * 0.1 * math.sqrt(1 - rho**2))
    wanted = [
        [0.25, 0.75, math.log(0.2), math.log(0.1), rho, area],
        [0.5, 0.5, math.log(0.3), math.log(0.3), 0.0, math.log(math.pi * 0.09)],
    ]
    torch.testing.assert_close(found, torch.tensor(wanted, dtype=F64), rtol=1e-9, atol=1e-9)


def test_area_is_that_of_the_support_but_for_a_constant():
    """By the ellipse that a truncated paraboloid ends at."""
    p = TruncatedParaboloid.from_moments(MEAN, COVARIANCE)
    support = math.log(math.pi) + p.support_tril.logdet()
    difference = support - density_numbers(p)[:, -1]
    torch.testing.assert_close(difference[0], difference[1], rtol=1e-9, atol=1e-9)


def test_mixture_has_its_components_besides():
    parts = Gaussian.from_moments(MEAN.expand(1, 2, 2), COVARIANCE.expand(1, 2, 2, 2))
    p = Mixture(torch.tensor([[0.25, 0.75]], dtype=F64), parts)
    found = density_numbers(p, 4)
    assert found.shape == (1, count_numbers(4)) == (1, 11)
    torch.testing.assert_close(found[0, 6:], torch.tensor([2, 0.75, 0.25, 0, 0], dtype=F64))
    one = Gaussian.from_moments(p.mean, p.covariance_matrix)
    torch.testing.assert_close(found[:, :6], density_numbers(one))
    with pytest.raises(ValueError, match="must have at most 1 components, got 2"):
        density_numbers(p, 1)
    with pytest.raises(TypeError, match="density must be a Mixture of components, got Gaussian"):
        density_numbers(one, 2)


def test_numbers_have_gradients_and_stay_finite():
    mean, root = MEAN.clone().requires_grad_(), torch.linalg.cholesky(COVARIANCE).requires_grad_()
    assert torch.autograd.gradcheck(
        lambda m, r: density_numbers(BetaGaussian.from_moments(m, r @ r.mT, alpha=1.5)), (mean, root)
    )
    line = Gaussian(torch.zeros(1, 2), torch.tensor([[[1e-6, 1e-6], [1e-6, 1.0001e-6]]]))
    assert density_numbers(line).isfinite().all()


# --- In the network


@pytest.mark.parametrize(
    "kind", ["softmax", "tvmax", "continuous_sparsemax", "multimodal_random", "multimodal_selected"]
)
def test_numbers_reach_the_answer_and_start_from_nothing(kind):
    settings = {**OUTPUTS[kind].__dict__, "density_features": True}
    plain, told = model(kind).eval(), model(OutputConfig(**settings), dropout=0.0)
    missing = told.load_state_dict(plain.state_dict(), strict=False).missing_keys
    assert missing == ["output.numbers"]
    components = 3 if kind.startswith("multimodal") else None
    extra = sum(p.numel() for p in told.parameters()) - sum(p.numel() for p in plain.parameters())
    assert extra == 8 * count_numbers(components)
    given = batch(((4, 5), (2, 3), (3, 5)))
    torch.testing.assert_close(told.eval()(given).logits, plain(given).logits)
    AnswerLoss()(told.train()(given).logits, torch.rand(3, 4)).backward()
    assert told.output.numbers.grad.abs().max() > 0
    with torch.no_grad():
        told.output.numbers.normal_()
    assert not torch.allclose(told.eval()(given).logits, plain(given).logits)


def test_numbers_of_a_discrete_kind_are_those_of_its_weights():
    look = OutputAttention(3, 4, OutputConfig("softmax", density_features=True)).double()
    with torch.no_grad():
        look.numbers.copy_(torch.eye(3, 6))
    x = torch.randn(2, 12, 3, dtype=F64)
    context, attention = look(x, ImageGrid((3, 4)))
    p = attention.discrete.flatten(1)
    mean = p @ grid_positions((3, 4), dtype=F64)
    plain = torch.einsum("bl,bld->bd", p, x)
    torch.testing.assert_close((context - plain)[:, :2], mean)


def test_combined_adds_both_contexts():
    x, grid = torch.randn(2, 12, 3), ImageGrid((3, 4))
    looks = {
        name: OutputAttention(3, 4, OutputConfig(kind, functions=4, variance=0.02, combined=combined))
        for name, kind, combined in (
            ("discrete", "softmax", False),
            ("density", "continuous_softmax", False),
            ("both", "continuous_softmax", True),
        )
    }
    for look in looks.values():
        look.load_state_dict(looks["discrete"].state_dict())
    contexts = {name: look(x, grid)[0] for name, look in looks.items()}
    torch.testing.assert_close(contexts["both"], contexts["discrete"] + contexts["density"])
    with pytest.raises(ValueError, match=r"combined goes with a continuous kind, continuous_softmax, .* got 'softmax'"):
        OutputConfig("softmax", combined=True)


def test_budget_keeps_the_count_and_softmax_loses_it():
    """Cells of one kind among blank ones: the context of k-subsets grows with their number, an average does not."""
    contexts = {}
    for kind in ("softmax", "k_subsets"):
        look = OutputAttention(1, 1, OutputConfig(kind, k=4)).double()
        look.scores = lambda x: 50 * x.squeeze(-1)
        x = torch.zeros(4, 9, 1, dtype=F64)
        for row in range(4):
            x[row, : row + 1] = 1
        contexts[kind] = look(x, ImageGrid((3, 3)))[0].squeeze(-1)
    torch.testing.assert_close(contexts["softmax"], torch.ones(4, dtype=F64))
    torch.testing.assert_close(contexts["k_subsets"], torch.arange(1, 5, dtype=F64) / 4)


def test_records_without_the_new_settings_are_read():
    settings = config("continuous_softmax").to_dict()
    for name in ("combined", "density_features"):
        del settings["output"][name]
    assert MCAN(config("continuous_softmax").from_dict(settings)).config == config("continuous_softmax")
