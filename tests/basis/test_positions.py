"""Cell centres in the order of an image's cells."""

from __future__ import annotations

import pytest
import torch

from omegamax.basis import grid_positions


def test_positions_are_cell_centres_in_the_order_of_an_image():
    height, width = 3, 4
    at = grid_positions((height, width), dtype=torch.float64)
    assert at.shape == (12, 2) and at.dtype == torch.float64
    for row in range(height):
        for column in range(width):
            x, y = at[row * width + column].tolist()
            assert (x, y) == ((column + 0.5) / width, (row + 0.5) / height)


def test_any_number_of_axes():
    assert torch.equal(grid_positions(5), grid_positions((5,)))
    assert torch.equal(grid_positions(5), torch.tensor([[0.1], [0.3], [0.5], [0.7], [0.9]]))
    at = grid_positions((2, 3, 4), dtype=torch.float64).reshape(2, 3, 4, 3)
    assert at[1, 2, 3].tolist() == [3.5 / 4, 2.5 / 3, 1.5 / 2]  # (x, y, z): array axes from last to first


def test_half_precision_does_not_lose_count():
    assert torch.equal(grid_positions(5000, dtype=torch.float16), grid_positions(5000, dtype=torch.float64).half())


@pytest.mark.parametrize("size, error", [((), TypeError), (0, ValueError), ((3, 0), ValueError), (2.0, TypeError)])
def test_errors_name_what_is_wrong(size, error):
    with pytest.raises(error, match=r"grid_positions: size must be"):
        grid_positions(size)
