"""Samples on the triangle: each where its face is."""

import matplotlib.pyplot as plt
import pytest
import torch

from omegamax import viz

SAMPLES = torch.tensor(
    [[1.0, 0.0, 0.0]] * 5 + [[0.25, 0.75, 0.0]] * 2 + [[0.0, 0.5, 0.5]] + [[0.2, 0.3, 0.5], [0.4, 0.4, 0.2]]
)


def test_each_face_gets_its_share():
    ax = viz.faces(SAMPLES, title="samples", labels="abc")
    texts = [t.get_text() for t in ax.texts]
    assert texts[:4] == ["20%", "20%", "10%", "0%"]  # the interior, then the edges in order
    assert texts[4:] == ["50%", "a", "0%", "b", "0%", "c"]
    assert len(ax.lines[0].get_xdata()) == 2  # dots inside
    areas = [c.get_sizes()[0] for c in ax.collections]
    assert areas[0] == 900 and areas[1:] == [0, 0]
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "samples"


def test_histograms_stand_outside_their_edge_at_the_position_of_the_samples():
    ax = viz.faces(SAMPLES, bins=4, shares=False)
    first = torch.tensor(ax.patches[0].get_xy())
    # All samples of the first edge are three quarters of the way from the top to the left: in the last bin.
    edge = torch.tensor([[0.0, 1.0], [-(0.75**0.5), -0.5]], dtype=torch.float64)
    outward = edge.sum(0) / edge.sum(0).norm()
    height = (first - edge[0]) @ outward
    assert height.max().item() == pytest.approx(0.45 * 0.2 * 4)
    assert (height > 1e-9).sum() == 2
    along = (first - edge[0]) @ (edge[1] - edge[0]) / 3
    assert along[height > 1e-9].tolist() == pytest.approx([0.75, 1.0])
    assert not ax.texts


def test_few_points_are_drawn_of_many():
    ax = viz.faces(torch.full((5000, 3), 1 / 3), points=100)
    assert len(ax.lines[0].get_xdata()) == 100 and ax.texts[0].get_text() == "100%"


@pytest.mark.parametrize(
    "y, message", [(torch.ones(3), r"shape \[S, 3\], got \(3,\)"), (torch.ones(0, 3), "at least one sample")]
)
def test_what_is_not_samples_on_a_triangle_is_refused(y, message):
    with pytest.raises(ValueError, match=message):
        viz.faces(y)


def test_labels_are_three():
    with pytest.raises(ValueError, match="labels must be 3 names, got 2"):
        viz.faces(SAMPLES, labels="ab")
