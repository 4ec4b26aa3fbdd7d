"""What is drawn of a bag: exact zeros are marked, and the instances that count framed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from omegamax.data import Bag
from omegamax.tasks.mil import MILTask
from omegamax.tasks.mil.data import NamedBag
from omegamax.tasks.mil.explain import draw, explain

pytest.importorskip("matplotlib").use("agg")


@pytest.fixture
def shown():
    torch.manual_seed(0)
    tasks = [
        MILTask(omega, options, dim=16, beta=30.0) for omega, options in (("softmax", {}), ("normmax", {"alpha": 2.0}))
    ]
    tasks = {task.label: task for task in tasks}
    bag = Bag(torch.rand(4, 1, 28, 28), 1, torch.tensor([True, False, False, True]))
    return explain(tasks, NamedBag("a", bag))


def test_weights_are_those_of_the_network(shown):
    assert [look.name for look in shown.looks] == ["softmax", "normmax alpha=2"]
    for look in shown.looks:
        assert float(look.weights.sum()) == pytest.approx(1, abs=1e-5) and 0 < look.probability < 1
        assert len(look.line().split()) == 4 and look.line().count(". ") + look.line().endswith(".") == int(
            (look.weights == 0).sum()
        )


def test_picture_has_a_row_for_the_bag_and_one_for_each_network(shown):
    import matplotlib.pyplot as plt

    figure = draw([shown, shown])
    axes = figure.axes
    assert len(axes) == 6
    assert len(axes[0].images) == 4 and len(axes[0].lines) == 2  # frames of those that count
    assert axes[0].get_title(loc="left") == "a: positive" and axes[2].get_title(loc="left") == "normmax alpha=2"
    for ax, look in zip(axes[1:3], shown.looks, strict=True):
        assert [bar.get_height() for bar in ax.patches] == pytest.approx(look.weights.tolist())
        dots = [line for line in ax.lines if line.get_marker() == "o"]
        assert sum(len(line.get_xdata()) for line in dots) == int((look.weights == 0).sum())
    assert int((shown.looks[1].weights == 0).sum()) > 0  # or the last line says nothing
    plt.close(figure)


def test_picture_explains_frames_and_hollow_dots_where_they_occur(shown):
    import matplotlib.pyplot as plt

    def key(bag, networks):
        figure = draw([replace(bag, looks=bag.looks[:networks])])
        texts = [text.get_text() for legend in figure.legends for text in legend.get_texts()]
        figure.canvas.draw()
        boxes = [legend.get_window_extent() for legend in figure.legends]
        assert all(box.y1 <= min(ax.get_tightbbox().y0 for ax in figure.axes) + 1 for box in boxes)
        plt.close(figure)
        return texts

    frame, zero = "instance that makes the bag positive", "exactly 0"
    assert key(shown, 2) == [frame, zero] and key(shown, 1) == [frame]  # softmax has no zeros
    assert key(replace(shown, positive=None), 2) == [zero] and key(replace(shown, positive=None), 1) == []


def test_vectors_are_drawn_by_their_indices():
    import matplotlib.pyplot as plt

    bag = NamedBag("v", Bag(torch.randn(3, 5), 0))
    figure = draw([explain({"sparsemax": MILTask("sparsemax", features=5, dim=8)}, bag)])
    assert [text.get_text() for text in figure.axes[0].texts] == ["0", "1", "2"]
    plt.close(figure)
