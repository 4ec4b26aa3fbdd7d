"""Boxes in place of cells: cells that come as boxes give the same answers; overlap, order, and what is refused."""

from __future__ import annotations

import pytest
import torch

from models.cases import OUTPUTS, batch, model
from omegamax.basis import GaussianRBF, grid_positions
from omegamax.models.mcan import OutputConfig
from omegamax.nn import ContinuousAttention, MultimodalAttention

F64 = torch.float64
KINDS = [kind for kind in OUTPUTS if kind != "tvmax"]


def boxed(given):
    """The cells of a batch of whole images as boxes, in another order."""
    h, w = given["grid"]
    middle, half = grid_positions((h, w), dtype=given["features"].dtype), torch.tensor([0.5 / w, 0.5 / h])
    boxes = torch.cat([middle - half, middle + half], -1).to(given["features"].dtype)
    order = torch.randperm(h * w, generator=torch.Generator().manual_seed(0))
    features = given["features"][:, order]
    boxes = boxes[order].expand(len(features), -1, -1)
    return {"question": given["question"], "features": features, "boxes": boxes}, order


def changed(kind, **settings):
    return OutputConfig(**{**OUTPUTS[kind].__dict__, "padding": False, **settings})


@pytest.mark.parametrize("kind", KINDS)
def test_cells_that_come_as_boxes_give_the_same_answer(kind):
    network = model(changed(kind)).double().eval()
    given = batch(dtype=F64)
    del given["feature_mask"], given["sizes"]
    other, order = boxed(given)
    wanted, found = network(given), network(other)
    torch.testing.assert_close(found.logits, wanted.logits, rtol=1e-7, atol=1e-7)
    assert found.attention.weights.shape == (3, 1, 20)
    torch.testing.assert_close(found.attention.discrete.flatten(1), wanted.attention.discrete.flatten(1)[:, order])


@pytest.mark.parametrize("kind", ["softmax", "continuous_sparsemax", "multimodal_fixed"])
def test_boxes_that_are_not_there_count_for_nothing(kind):
    network = model(changed(kind, heads=2)).eval()
    other, _ = boxed(batch())
    fewer = {**other, "features": other["features"][:, :12], "boxes": other["boxes"][:, :12]}
    mask = torch.arange(20).expand(3, 20) < 12
    hidden = torch.where(mask[..., None], other["features"], torch.nan)
    nowhere = torch.where(mask[..., None], other["boxes"], torch.nan)
    found = network({**other, "features": hidden, "boxes": nowhere, "feature_mask": mask})
    torch.testing.assert_close(found.logits, network(fewer).logits, rtol=1e-4, atol=1e-5)
    assert bool((found.attention.weights[:, 0, 12:] == 0).all()) and found.attention.empty().shape == (3, 1, 20)


def test_weight_is_spread_over_its_box():
    """By the definition: the variance of a mixture of uniform densities."""
    attend = ContinuousAttention(GaussianRBF.grid(3, 2, 0.1, dtype=F64))
    p = torch.tensor([0.2, 0.5, 0.3], dtype=F64)
    corners = torch.tensor([[0.0, 0.0, 0.4, 0.2], [0.3, 0.1, 0.9, 0.9], [0.5, 0.5, 0.6, 0.6]], dtype=F64)
    middle, side = (corners[:, :2] + corners[:, 2:]) / 2, corners[:, 2:] - corners[:, :2]
    found = attend.match(p, middle, extents=side)
    fine = (torch.arange(400, dtype=F64) + 0.5) / 400
    square = torch.cartesian_prod(fine, fine)
    mean, second = torch.zeros(2, dtype=F64), torch.zeros(2, 2, dtype=F64)
    for weight, corner, each in zip(p, corners[:, :2], side, strict=True):
        points = corner + each * square
        mean += weight * points.mean(0)
        second += weight * points.T @ points / len(points)
    torch.testing.assert_close(found.mean, mean, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(found.covariance_matrix, second - mean.outer(mean), rtol=1e-5, atol=1e-6)
    narrow = attend.match(p, middle, extents=torch.zeros_like(side))
    extra = (p[:, None] * side.square()).sum(0) / 12
    torch.testing.assert_close(found.covariance_matrix - narrow.covariance_matrix, torch.diag(extra))


def test_mixtures_and_gradients():
    torch.manual_seed(0)
    values, weights = torch.randn(2, 9, 3, dtype=F64), torch.rand(2, 9, dtype=F64)
    middle, side = torch.rand(2, 9, 2, dtype=F64), 0.1 + torch.rand(2, 9, 2, dtype=F64) / 5
    basis = GaussianRBF.grid(3, 2, 0.1, dtype=F64)
    for attend in (ContinuousAttention(basis), MultimodalAttention(basis, 2, iterations=2)):
        inputs = tuple(each.requires_grad_() for each in (values, weights, side))
        assert torch.autograd.gradcheck(lambda v, w, e, attend=attend: attend(v, w, middle, extents=e)[0], inputs)


def test_centre_alone_is_narrower_than_the_whole_box():
    given, _ = boxed(batch())
    areas = []
    for boxes in ("centre", "whole"):
        density = model(changed("continuous_softmax", boxes=boxes, floor=0.0)).eval()(given).attention.density
        areas.append(density.covariance_matrix.det())
    assert bool((areas[0] < areas[1]).all())


def test_what_boxes_cannot_have_is_named():
    given, _ = boxed(batch())
    with pytest.raises(ValueError, match="tvmax needs cells with neighbours, got boxes"):
        model(changed("tvmax"))(given)
    with pytest.raises(ValueError, match="boxes leave no grid to pad, got padding=True; give padding=False"):
        model("continuous_softmax")(given)
    with pytest.raises(ValueError, match=r"boxes must be \[B, L, 4\] for features"):
        model("softmax")({**given, "boxes": given["boxes"][:, :5]})
    attend = ContinuousAttention(GaussianRBF.grid(3, 2, 0.1), positions=(4, 5))
    with pytest.raises(ValueError, match=r"extents must be sides of boxes \[\*, 20, 2\] at given positions, got shape"):
        attend.match(torch.rand(20), extents=torch.rand(20, 2))
    with pytest.raises(ValueError, match="boxes must be one of 'centre', 'whole', got 'edge'"):
        OutputConfig("continuous_softmax", boxes="edge")
