"""A learnt alpha stays where it belongs and gets gradients."""

import copy

import pytest
import torch

import omegamax
from omegamax.nn import Alpha


def test_alpha_starts_at_its_initial_value():
    torch.testing.assert_close(Alpha(1.3).value.item(), 1.3, rtol=0, atol=1e-6)
    start = torch.tensor([1.1, 1.5, 1.9])
    torch.testing.assert_close(Alpha(start, per=3).value, start)


@pytest.mark.parametrize("bounds", [(1.0, 2.0), (1.1, 1.7), (0.3, 9.1), (1.0001, 4.0)])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_alpha_cannot_leave_its_interval(bounds, dtype):
    alpha = Alpha(1.5, bounds=bounds).to(dtype)
    for raw in (-1e38, -1e4, -20.0, -1.0, 0.0, 3.0, 20.0, 1e4, 1e38):
        with torch.no_grad():
            alpha.raw.fill_(raw)
        assert bounds[0] <= alpha.value <= bounds[1]


@pytest.mark.parametrize("sign", [-1, 1])
def test_alpha_survives_huge_optimiser_steps(sign):
    alpha = Alpha(1.5)
    optimiser = torch.optim.SGD(alpha.parameters(), lr=1e8)
    for _ in range(3):
        optimiser.zero_grad()
        (sign * omegamax.entmax(torch.tensor([1.0, 0.5, -1.0]), alpha(torch.zeros(3))).square().sum()).backward()
        optimiser.step()
    assert 1 <= alpha.value <= 2
    assert omegamax.entmax(torch.tensor([1.0, 0.5, -1.0]), alpha.value.detach()).isfinite().all()


@pytest.mark.parametrize(
    ("per", "scores", "shape"),
    [
        (None, (2, 4, 3, 5), ()),
        (4, (2, 4, 3, 5), (1, 4, 1, 1)),
        (4, (4, 3, 5), (4, 1, 1)),
        ((0, 2), (2, 4, 3, 5), (2, 1, 1, 1)),
        ((-2, 3), (2, 4, 3, 5), (1, 1, 3, 1)),
    ],
)
def test_alpha_broadcasts_to_the_scores(per, scores, shape):
    assert Alpha(per=per)(torch.zeros(scores)).shape == shape


def test_alpha_is_a_module_like_any_other():
    alpha = Alpha(1.2, per=4)
    twin = Alpha(1.8, per=4)
    twin.load_state_dict(alpha.state_dict())
    torch.testing.assert_close(twin.value, alpha.value)
    torch.testing.assert_close(copy.deepcopy(alpha).value, alpha.value)
    assert repr(alpha) == "Alpha(bounds=(1, 2), per=(-3, 4))"


def test_bad_arguments_are_refused_by_name():
    for init in (1.0, 2.0, 2.5, float("nan")):
        with pytest.raises(ValueError, match="Alpha: init must lie strictly between the bounds 1 and 2"):
            Alpha(init)
    with pytest.raises(ValueError, match="0 < low < high < inf"):
        Alpha(1.5, bounds=(2.0, 1.0))
    with pytest.raises(TypeError, match="bounds must be two floats"):
        Alpha(1.5, bounds=1.0)
    with pytest.raises(ValueError, match="at least one index, got 0"):
        Alpha(per=0)
    for per in ("head", 2.0, (-3, 4, 1), (-3, 4.0)):
        with pytest.raises(TypeError, match=r"Alpha: per must be a number of heads or a pair \(axis, size\), got"):
            Alpha(per=per)
    with pytest.raises(ValueError, match=r"must be a float or have shape \(3,\)"):
        Alpha(torch.tensor([1.2, 1.5]), per=3)
    with pytest.raises(IndexError, match="axis -3 is out of range"):
        Alpha(per=2)(torch.zeros(2, 3))
