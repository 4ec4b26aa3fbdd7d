"""The parts against torch's own, by hand, and by definition: attention units, grids, losses."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from omegamax.densities import BetaGaussian, Gaussian
from omegamax.metrics import on_grid
from omegamax.models.mcan import (
    LOSSES,
    AnswerLoss,
    Attention,
    GridAttention,
    GuidedAttention,
    ImageGrid,
    OutputAttention,
    OutputConfig,
    SelfAttention,
)
from omegamax.nn import Softmax

F64 = torch.float64


def close(a, b, **within):
    torch.testing.assert_close(a, b, **within)


# --- Attention


def copied(ours: Attention, dim: int, heads: int) -> torch.nn.MultiheadAttention:
    """Torch's module with the same weights."""
    theirs = torch.nn.MultiheadAttention(dim, heads, batch_first=True)
    with torch.no_grad():
        parts = (ours.query, ours.key, ours.value)
        theirs.in_proj_weight.copy_(torch.cat([p.weight for p in parts]))
        theirs.in_proj_bias.copy_(torch.cat([p.bias for p in parts]))
    theirs.out_proj.load_state_dict(ours.merge.state_dict())
    return theirs


@pytest.mark.parametrize("masked", [False, True])
def test_softmax_attention_is_that_of_torch(masked):
    ours = Attention(8, 2)
    theirs = copied(ours, 8, 2)
    x, source = torch.randn(3, 5, 8), torch.randn(3, 7, 8)
    mask = torch.rand(3, 7) > 0.4 if masked else None
    wanted, _ = theirs(x, source, source, key_padding_mask=None if mask is None else ~mask)
    close(ours(x, source, mask), wanted)


@pytest.mark.parametrize("transform", ["softmax", "entmax15"])
def test_nothing_to_see_gives_zero_heads(transform):
    look = Attention(8, 2, transform=transform)
    x, source = torch.randn(2, 5, 8), torch.randn(2, 7, 8, requires_grad=True)
    mask = torch.tensor([[True] * 7, [False] * 7])
    out = look(x, source, mask)
    close(out[1], look.merge.bias.expand(5, 8))
    out.sum().backward()
    assert (source.grad[1] == 0).all() and source.grad[0].isfinite().all()


def test_fused_softmax_is_the_library_s():
    """The map of a name against a module, which goes through the library's attention."""
    fused = Attention(8, 2)
    plain = Attention(8, 2, transform=Softmax())
    plain.load_state_dict(fused.state_dict())
    x, mask = torch.randn(3, 5, 8), torch.rand(3, 5) > 0.3
    close(fused(x, x, mask), plain(x, x, mask))


def test_dropout_is_for_training():
    look = Attention(8, 2, dropout=0.5)
    x = torch.randn(3, 5, 8)
    assert not torch.equal(look(x, x), look(x, x))
    assert torch.equal(look.eval()(x, x), look(x, x))


def test_units_by_hand():
    x, y = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    unit = SelfAttention(8, 2, 16)
    a = F.layer_norm(x + unit.own.part(x, x), (8,))
    close(unit(x), F.layer_norm(a + unit.feed.part(a), (8,)))
    unit = GuidedAttention(8, 2, 16)
    a = F.layer_norm(x + unit.own.part(x, x), (8,))
    a = F.layer_norm(a + unit.guided.part(a, y), (8,))
    close(unit(x, y), F.layer_norm(a + unit.feed.part(a), (8,)))


def test_heads_must_divide():
    with pytest.raises(ValueError, match="dim must be a multiple of heads, got 8 and 3"):
        Attention(8, 3)


# --- Grids


def test_grid_packs_small_images_in_front():
    mask = torch.zeros(2, 3, 4, dtype=torch.bool)
    mask[0] = True
    mask[1, :2, :3] = True
    grid = ImageGrid((3, 4), mask.flatten(1))
    assert grid.sizes.tolist() == [[3, 4], [2, 3]] and grid.holes is None
    cells = torch.arange(24).view(2, 12)
    assert grid.pack(cells)[0].tolist() == list(range(12))
    assert grid.pack(cells)[1, :6].tolist() == [12, 13, 14, 16, 17, 18]


def test_full_grid_needs_no_packing():
    x = torch.randn(2, 12, 3)
    grid = ImageGrid((3, 4), torch.ones(2, 12, dtype=torch.bool))
    assert grid.sizes is None and grid.holes is None and grid.pack(x) is x


def test_grid_finds_holes():
    mask = torch.ones(2, 3, 4, dtype=torch.bool)
    mask[1, 2] = False
    mask[1, 0, 1] = False
    grid = ImageGrid((3, 4), mask.flatten(1))
    assert grid.sizes.tolist() == [[3, 4], [2, 4]]
    assert grid.holes[0].all() and grid.holes[1].tolist() == [True, False] + [True] * 6 + [False] * 4


def test_shares_of_a_density_are_those_on_its_own_grid():
    density = Gaussian(torch.tensor([[0.3, 0.6], [0.7, 0.2]], dtype=F64), 0.02)
    full = GridAttention(torch.zeros(2, 4, 5), ImageGrid((4, 5)), density)
    close(full.weights, on_grid(density, (4, 5), samples=4))
    close(full.shares(2), on_grid(density, (4, 5), samples=2))
    grid = ImageGrid.of_sizes((4, 5), torch.tensor([[4, 3], [2, 5]]))
    ragged = GridAttention(torch.zeros(2, 4, 5), grid, density)
    close(ragged.weights[0, :, :3], on_grid(density, (4, 3), samples=4)[0])
    close(ragged.weights[1, :2], on_grid(density, (2, 5), samples=4)[1])
    assert (ragged.weights[0, :, 3:] == 0).all() and (ragged.weights[1, 2:] == 0).all()


def test_cells_are_empty_where_attention_is_exactly_zero_and_not_where_it_is_too_small_for_a_float():
    grid, weights = ImageGrid((4, 4)), torch.full((1, 4, 4), 1 / 16)
    narrow = {"loc": torch.tensor([[0.6, 0.6]]), "scale": 1e-4 * torch.eye(2)[None]}
    gaussian, compact = (GridAttention(weights, grid, BetaGaussian(**narrow, alpha=alpha)) for alpha in (1.0, 2.0))
    assert bool((gaussian.weights == 0).any()) and not bool(gaussian.empty().any())
    assert torch.equal(compact.empty(), compact.weights == 0) and bool(compact.empty().any())
    assert not bool(compact.empty()[0, 2, 2])
    weights[0, 1, 2] = 0.0
    assert GridAttention(weights, grid).empty().nonzero().tolist() == [[0, 1, 2]]


def test_scores_are_scaled_before_they_are_mapped():
    plain, scaled = (OutputAttention(8, 16, OutputConfig("sparsemax", scale=each)) for each in (1.0, 0.2))
    z, grid = torch.randn(3, 6), ImageGrid((2, 3))
    close(scaled.weigh(z, grid), plain.weigh(0.2 * z, grid))
    assert not torch.allclose(scaled.weigh(z, grid), plain.weigh(z, grid))
    with pytest.raises(ValueError, match="scale must"):
        OutputConfig("sparsemax", scale=0.0)


def test_weights_have_no_shares():
    with pytest.raises(ValueError, match="shares are those of a density"):
        GridAttention(torch.zeros(1, 2, 2), ImageGrid((2, 2))).shares()


# --- Losses


def test_binary_cross_entropy_sums_over_answers_and_averages_over_examples():
    logits, scores = torch.randn(3, 5, dtype=F64), torch.rand(3, 5, dtype=F64)
    p = logits.sigmoid()
    wanted = -(scores * p.log() + (1 - scores) * (1 - p).log()).sum() / 3
    close(AnswerLoss("bce")(logits, scores), wanted)


@pytest.mark.parametrize("name", [name for name in LOSSES if name != "bce"])
def test_gradient_of_a_map_s_loss_is_its_error(name):
    logits = torch.randn(3, 5, dtype=F64, requires_grad=True)
    scores = torch.rand(3, 5, dtype=F64)
    scores[1] = 0  # no known answer
    loss = AnswerLoss(name)
    value = loss(logits, scores)
    assert value >= 0
    (gradient,) = torch.autograd.grad(value, logits)
    p = loss.probabilities(logits.detach())
    close(p.sum(-1), torch.ones(3, dtype=F64))
    wanted = (p - scores / scores.sum(-1, keepdim=True)) / 3
    close(gradient[[0, 2]], wanted[[0, 2]])
    assert (gradient[1] == 0).all()


def test_sparse_loss_is_zero_with_a_margin():
    logits = torch.tensor([[3.0, 0.0, 0.0]])
    assert AnswerLoss("sparsemax")(logits, torch.tensor([[0.3, 0.0, 0.0]])) == 0
    assert AnswerLoss("softmax")(logits, torch.tensor([[0.3, 0.0, 0.0]])) > 0


def test_alpha_of_a_loss():
    logits, scores = torch.randn(3, 5), torch.rand(3, 5)
    close(AnswerLoss("entmax", alpha=2.0)(logits, scores), AnswerLoss("sparsemax")(logits, scores))


def test_bad_loss_is_named():
    with pytest.raises(ValueError, match=r"name must be one of 'bce', .* got 'hinge'"):
        AnswerLoss("hinge")
    with pytest.raises(ValueError, match="'bce' takes no options, got alpha"):
        AnswerLoss("bce", alpha=1.5)
    with pytest.raises(ValueError, match=r"must both be \[B, A\], got \(3, 5\) and \(3, 4\)"):
        AnswerLoss()(torch.zeros(3, 5), torch.zeros(3, 4))
