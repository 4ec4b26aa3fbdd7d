"""A text put to a trained network: the classes it gives, and which words it looked at."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.data.text import EMPTY, split_words
from omegamax.densities import Density
from omegamax.models.text import WordAttention
from omegamax.tasks.answers import list_likeliest
from omegamax.tasks.report.colours import choose_colours
from omegamax.tasks.text.task import TextTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True, eq=False)
class TextExplanation:
    """What a network says of one text.

    Args:
        words: as they are written, those it read.
        classes: the likeliest ones first, each with its probability.
        weights: the attention of each word, ``[L]``, summing to one; of a rationale, each word's share in it.
        empty: which words have exactly none, bool ``[L]``.
        discrete: weights of the words, ``[L]``; None where it has a density that comes from none.
        density: of batch ``[1]``, over the unit interval that the text fills; None for discrete kinds.
        kind: of the attention, or of what chooses a rationale.
    """

    words: tuple[str, ...]
    classes: list[tuple[str, float]]
    weights: Tensor
    empty: Tensor
    discrete: Tensor | None
    density: Density | None
    kind: str


def explain(task: TextTask, text: str, top: int = 3) -> TextExplanation:
    """Ask a trained network for the class of a text.

    Args:
        task: in evaluation mode, as :meth:`TextTask.load` leaves it.
        text: of any length; words beyond those that the network was trained to read are left away.
        top: how many classes to tell.

        >>> from omegamax.data import Vocabulary
        >>> said = explain(TextTask(Vocabulary(["good"], ["bad", "good"])).eval(), "Good, isn't it?")
        >>> said.words, said.weights.shape
        (('Good', ',', 'is', "n't", 'it', '?'), torch.Size([6]))
    """
    if task.config.alignment is not None:
        raise ValueError("explain: task must read single texts, got one that aligns two; ask explain_pair")
    return explain_words(task, tuple(split_words(text))[: task.data_settings.get("length")] or (EMPTY,), top)


@torch.no_grad()
def explain_words(task: TextTask, words: tuple[str, ...], top: int = 3) -> TextExplanation:
    """Ask a trained network for the class of a text whose words are known, at least one; see :func:`explain`."""
    numbers = torch.tensor([task.vocabulary.find_words(words)], device=task.device)
    answer = task({"words": numbers})
    p = task.loss.probabilities(answer.logits)[0]
    look = answer.attention
    assert isinstance(look, WordAttention)
    discrete = None if look.discrete is None or (look.density is not None and not look.combined) else look.discrete[0]
    return TextExplanation(
        words,
        list_likeliest(p, task.vocabulary.answers, top),
        look.weights[0].cpu(),
        look.empty()[0].cpu(),
        None if discrete is None else discrete.cpu(),
        look.density,
        task.config.attention.kind if task.config.rationale is None else task.config.rationale.selector,
    )


def find_unknown_words(task: TextTask, text: str) -> list[str]:
    """List the words of a text that the network was not trained with, each once; it takes them all for the same one.

    >>> from omegamax.data import Vocabulary
    >>> find_unknown_words(TextTask(Vocabulary(["good"], ["0", "1"])), "Good gaffer, good")
    ['gaffer', ',']
    """
    words = list(dict.fromkeys(split_words(text)))
    return [word for word, number in zip(words, task.vocabulary.find_words(words), strict=True) if number == 1]


def draw(said: Mapping[str, TextExplanation]) -> Figure:
    """Draw the text once for each network, with the attention over its words."""
    from omegamax import viz
    from omegamax.viz.key import draw_key
    from omegamax.viz.style import pyplot
    from omegamax.viz.words import COLUMNS, LINE, count_lines

    heights = [LINE * count_lines(each.words) + 0.35 for each in said.values()]
    with viz.style():
        figure, axes = pyplot().subplots(
            len(said),
            1,
            figsize=(0.0753 * COLUMNS + 0.4, sum(heights) + 0.1),
            height_ratios=heights,
            layout="constrained",
            squeeze=False,
        )
        shades = choose_colours([each.kind for each in said.values()])
        for ax, shade, (name, each) in zip(axes[:, 0], shades, said.items(), strict=True):
            viz.words(each.words, each.discrete, density=each.density, empty=each.empty, colour=shade, ax=ax, key=False)
            ax.set_title(name, color=shade)
            ax.set_title(f"{each.classes[0][0]} {each.classes[0][1]:.2f}", loc="right", fontweight="normal")
        draw_key(figure, grow=True)
    return figure
