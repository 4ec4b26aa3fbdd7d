"""Pictures of structures carry what they were given."""

import matplotlib.pyplot as plt
import pytest
import torch

from omegamax import viz

WORDS = ["she", "saw", "him"]
TREE = torch.tensor([[0.0, 1.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.75, 0.25]])


def texts(ax):
    return [text.get_text() for text in ax.texts]


def test_arcs_are_those_above_zero_and_as_opaque_as_they_are_probable():
    ax = viz.arcs(TREE, WORDS, title="tree")
    assert [round(arc.get_alpha(), 9) for arc in ax.patches] == [1.0, 0.8]
    upright = [line for line in ax.lines if len(line.get_xdata()) == 2]
    assert [round(line.get_alpha(), 9) for line in upright] == [1.0, 0.4]  # saw and him, from the root
    assert texts(ax) == [*WORDS, "0.75", "0.25"]
    assert ax.get_title(loc=plt.rcParams["axes.titlelocation"]) == "tree"


def test_arcs_point_from_heads_to_modifiers():
    ax = viz.arcs(TREE, WORDS)
    she, saw, him = (text.get_position()[0] for text in ax.texts[:3])
    left, right = (arc.get_path().vertices for arc in ax.patches)
    assert she < left[-1, 0] < left[0, 0] < saw < right[0, 0] < right[-1, 0] < him
    tips = [line.get_xdata()[0] for line in ax.lines if len(line.get_xdata()) == 1]
    assert sorted(tips) == sorted([left[-1, 0], saw, right[-1, 0], him])


def test_arcs_go_above_those_they_span_or_cross():
    heads = {(1, 0): 1.0, (3, 1): 0.5, (2, 0): 0.5, (0, 3): 1.0}  # 1-3 and 0-2 cross, 0-3 spans all
    marginals = torch.zeros(4, 4)
    for (modifier, head), weight in heads.items():
        marginals[modifier, head] = weight
    ax = viz.arcs(marginals, list("abcd"))
    tops = [arc.get_path().vertices[1, 1] for arc in ax.patches]
    ends = [tuple(arc.get_path().vertices[[0, 3], 0].round()) for arc in ax.patches]
    assert len(set(zip(tops, ends, strict=True))) == len(heads)
    assert tops[0] == max(tops) and tops[1] == min(tops)  # 0-3 first by row, then 0-1
    assert tops[2] != tops[3]


def test_arcs_below_mirror_those_above():
    ax = viz.arcs(TREE, WORDS, below=TREE, numbers=False)
    heights = sorted(arc.get_path().vertices[1, 1] for arc in ax.patches)
    assert heights == [-h for h in reversed(heights)] and ax.get_ylim()[0] == -ax.get_ylim()[1]
    assert texts(ax) == WORDS


def test_arcs_of_a_single_word_is_a_root():
    ax = viz.arcs(torch.ones(1, 1), ["rain"])
    assert texts(ax) == ["rain"] and not ax.patches and len(ax.lines) == 2


def test_alignment_writes_words_and_weights_on_a_common_scale():
    weights = torch.tensor([[0.75, 0.25, 0.0], [0.001, 0.0, 0.5]], requires_grad=True)
    ax = viz.alignment(weights, ["ein", "Haus"], ["a", "house", "."], title="alignment")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["ein", "Haus"]
    assert [label.get_text() for label in ax.get_xticklabels()] == ["a", "house", "."]
    assert texts(ax) == ["0.75", "0.25", "0.50"]  # 0.001 has its colour, zeros are white
    assert ax.images[0].get_array().mask.tolist() == [[False, False, True], [False, True, False]]
    assert ax.images[0].get_clim() == (0, 1)
    assert not viz.alignment(weights, "ab", "cde", numbers=False).texts


@pytest.mark.parametrize(
    ("draw", "given"),
    [
        (lambda: viz.arcs(torch.ones(2, 3), WORDS), r"arcs: marginals .*\[3, 3\].*\(2, 3\)"),
        (lambda: viz.arcs(TREE, WORDS, below=torch.ones(3)), r"arcs: below .*\[3, 3\].*\(3,\)"),
        (lambda: viz.alignment(torch.ones(2, 3), WORDS, WORDS), r"alignment: .*\[3, 3\].*\(2, 3\)"),
    ],
)
def test_wrong_shapes_are_refused_with_what_came(draw, given):
    with pytest.raises(ValueError, match=given):
        draw()
