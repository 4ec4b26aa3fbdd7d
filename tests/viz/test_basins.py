"""Basins: colours where one pattern wins, hatches where none does."""

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import pytest
import torch

from omegamax import viz
from omegamax.hopfield import Memory

matplotlib.use("agg")
PATTERNS = torch.tensor([[1.0, 0.0], [-1.0, 0.0]])


def drawn(beta):
    axis = torch.linspace(-1, 1, 8)
    q = torch.stack(torch.meshgrid(axis, axis, indexing="xy"), -1).reshape(-1, 2)
    found = Memory(PATTERNS, "sparsemax", beta).retrieve(q)
    return viz.basins(
        found.weights.reshape(8, 8, 2),
        PATTERNS,
        (-1, 1, -1, 1),
        states=found.state,
        trajectories=found.trajectory[:, ::9],
        title="two",
    )


def test_each_side_has_the_colour_of_its_pattern():
    ax = drawn(beta=10.0)
    image = np.asarray(ax.images[0].get_array())
    assert (image[:, :4] == image[0, 0]).all() and (image[:, 4:] == image[0, -1]).all()
    assert not np.allclose(image[0, 0], image[0, -1])
    assert ax.get_title("left") == "two" or ax.get_title() == "two"
    crosses = [line for line in ax.lines if line.get_marker() == "x"]
    assert len(crosses) == 1 and not len(crosses[0].get_xdata())
    plt.close("all")


def test_a_state_between_patterns_is_marked():
    ax = drawn(beta=0.1)  # everything ends at the origin
    (crosses,) = [line for line in ax.lines if line.get_marker() == "x"]
    np.testing.assert_allclose([crosses.get_xdata(), crosses.get_ydata()], 0, atol=1e-6)
    plt.close("all")


def test_shapes_are_refused_by_name():
    with pytest.raises(ValueError, match=r"basins: wanted weights \[H, W, N\] and patterns \[N, 2\]"):
        viz.basins(torch.ones(3, 3), PATTERNS, (0, 1, 0, 1))
