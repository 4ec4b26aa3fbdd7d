"""Looks at the source: densities have the moments of the weights, and no word gets more than its fertility."""

import pytest
import torch
from tests.models.translation.networks import SOURCE, TARGET, make_fertile, make_recurrent

import omegamax
from omegamax.models.translation import FertilityConfig, TranslatorConfig


@pytest.mark.parametrize("density", ["continuous_softmax", "continuous_sparsemax"])
@torch.no_grad()
def test_density_has_the_moments_of_the_weights(density):
    found = make_recurrent(density=density, attention="softmax").align(SOURCE, TARGET)
    lengths = (SOURCE != 0).sum(-1)
    assert len(found.densities) == TARGET.shape[1]
    for place, p in enumerate(found.densities):
        for row, length in enumerate(lengths.tolist()):
            t = (torch.arange(length, dtype=torch.float64) + 0.5) / length
            w = found.weights[row, place, :length]
            mean = (w * t).sum()
            variance = (w * (t - mean) ** 2).sum() + 1 / (12 * length**2)  # each weight fills its cell
            assert torch.allclose(p.mean[row, 0], mean, rtol=0, atol=1e-9)
            assert torch.allclose(p.covariance_matrix[row, 0, 0], variance, rtol=0, atol=1e-9)


@torch.no_grad()
def test_context_is_that_of_attention_by_a_density_added_to_the_weights():
    model = make_recurrent(density="continuous_sparsemax", attention="softmax")
    look = model.look
    h, mask, query = torch.randn(3, 5, 16).double(), SOURCE != 0, torch.randn(3, 8).double()
    seen = look(query, look.keep(h, mask, SOURCE))
    both = omegamax.nn.ContinuousAttention(look.density.basis, 2.0, combined=True)
    wanted, _ = both(h, seen.weights, lengths=mask.sum(-1))
    assert torch.allclose(seen.context, wanted, rtol=0, atol=1e-9)


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])
@torch.no_grad()
def test_words_get_no_more_than_their_fertility(map):
    model = make_fertile("constant", map, value=0.7)()
    target = torch.tensor([[4, 6, 5, 7, 4, 6, 2]]).expand(3, 7)
    weights = model.align(SOURCE, target).weights
    assert torch.allclose(weights.sum(-1), torch.ones(3, 7).double(), rtol=0, atol=1e-9)
    last = (SOURCE != 0).sum(-1) - 1
    total = weights.sum(1)
    total[torch.arange(3), last] = 0.0  # the sink has no bound
    assert (total <= 0.7 + 1e-9).all() and torch.isclose(total[0, :4], torch.tensor(0.7).double()).any()


@pytest.mark.parametrize("map", ["softmax", "sparsemax"])
@torch.no_grad()
def test_each_step_solves_the_bounded_problem_of_what_is_left(map):
    model = make_fertile("constant", map, value=0.7)()
    look, fertility = model.look, model.look.fertility
    z = torch.randn(1, 5).double()
    left = torch.tensor([[0.7, 0.1, 0.0, 0.4, 0.7]]).double()
    p = fertility.weigh(z, left, f"constrained_{map}")
    upper = torch.tensor([[0.7, 0.1, 0.0, 0.4, 1.0]]).double()  # the last is the sink
    shifted = z + 0.2 * left * torch.tensor([1.0, 1, 1, 1, 0]).double()
    wanted = getattr(omegamax, f"constrained_{map}")(shifted, upper)
    assert torch.allclose(p, wanted, rtol=0, atol=1e-12) and look.name == f"constrained_{map}"


def test_predicted_fertility_is_learnt_through_the_bounds():
    model = make_fertile("predicted", "sparsemax", value=0.3)(dropout=0.0).train()
    model.loss({"source": SOURCE, "target": TARGET}).backward()
    assert model.look.fertility.predict.weight.grad.abs().sum() > 0


def test_table_gives_each_token_its_own():
    model = make_fertile("table")()
    model.look.fertility.table.copy_(torch.arange(8.0))
    assert model.encode(SOURCE)["look"]["left"][1].tolist() == [7.0, 5.0, 2.0, 0.0, 0.0]
    assert "look.fertility.table" in model.state_dict()


def test_fertility_wants_a_bounded_map():
    with pytest.raises(ValueError, match="fertility goes with"):
        TranslatorConfig(architecture="recurrent", attention="softmax", fertility=FertilityConfig())
    with pytest.raises(ValueError, match="kind"):
        FertilityConfig("some")
