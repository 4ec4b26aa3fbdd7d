"""The part that every ``alphas`` shares: where the learnt alphas of a network's heads went."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omegamax.cli.explanation import Explanation, add_checkpoint

if TYPE_CHECKING:
    from torch import Tensor

SUMMARY = "show where the learnt alphas of transformers went: a table and a picture, layer by layer"
_PANEL = 3.2, 2.6  # inches


class HeadAlphas(NamedTuple):
    """The alphas ``[layers, heads]`` of a network, or of a part of it, and where they began."""

    values: Tensor
    start: float


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``alphas``."""
    add_checkpoint(parser)
    help = "the picture (alphas.png)"
    parser.add_argument("--out", type=Path, default=Path("alphas.png"), metavar="FILE", help=help)


def show_alphas(found: Mapping[str, HeadAlphas]) -> Explanation:
    """Make the table of alphas, and the picture: each head over its layer, and beneath it how many have which."""
    from omegamax import viz
    from omegamax.viz.style import pyplot

    rows = [
        [name, str(layer), "  ".join(f"{alpha:.3f}" for alpha in heads)]
        for name, each in found.items()
        for layer, heads in enumerate(each.values.tolist(), 1)
    ]
    with viz.style():
        size = (_PANEL[0] * len(found), 2 * _PANEL[1])
        figure, axes = pyplot().subplots(2, len(found), figsize=size, layout="constrained", squeeze=False)
        for column, (name, each) in enumerate(found.items()):
            viz.alphas(each.values, start=each.start, title=name, ax=axes[0, column])
            viz.alpha_histogram(each.values, ax=axes[1, column])
    return Explanation(["network", "layer", "alphas of its heads"], rows, figure, "Where the alphas went")
