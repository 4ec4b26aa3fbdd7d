"""Two sentences put to a trained network: the classes it gives, and which words it compared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.data.text import EMPTY, split_words
from omegamax.models.text import WordAlignment
from omegamax.tasks.answers import list_likeliest
from omegamax.tasks.text.task import TextTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.42  # inches of a word's row or column
_MOST = 80  # words of a sentence that can be read in a picture
_MARGINS = 1.9, 1.3  # inches for words, titles and colours


@dataclass(frozen=True, eq=False)
class PairExplanation:
    """What a network says of two sentences.

    Args:
        words: of the first, as they are written, n of them.
        second: of the second, m.
        classes: the likeliest ones first, each with its probability.
        onward: ``[n, m]``, what each word of the first was compared with.
        back: ``[m, n]``, what each word of the second was compared with.
    """

    words: tuple[str, ...]
    second: tuple[str, ...]
    classes: list[tuple[str, float]]
    onward: Tensor
    back: Tensor

    @property
    def mutual(self) -> bool:
        """Tell whether both directions are the same, as in a matching."""
        return torch.equal(self.onward, self.back.mT)


def explain_pair(task: TextTask, first: str, second: str, top: int = 3) -> PairExplanation:
    """Ask a trained network whether the second sentence follows from the first.

    Args:
        task: with an alignment, in evaluation mode, as :meth:`TextTask.load` leaves it.
        first: sentence that is given.
        second: sentence that may follow.
        top: how many classes to tell.

        >>> from omegamax.data import Vocabulary
        >>> from omegamax.models.text import TextConfig
        >>> task = TextTask(Vocabulary(["dog"], ["no", "yes"]), TextConfig.small(alignment="matching")).eval()
        >>> explain_pair(task, "A dog sleeps", "A dog").onward.sum(0)
        tensor([1., 1.])
    """
    if task.config.alignment is None:
        raise ValueError("explain_pair: task must have an alignment, got one that reads single texts; ask explain")
    most = task.data_settings.get("length")
    words, other = (tuple(split_words(text))[:most] or (EMPTY,) for text in (first, second))
    return explain_word_pair(task, words, other, top)


@torch.no_grad()
def explain_word_pair(task: TextTask, first: tuple[str, ...], second: tuple[str, ...], top: int = 3) -> PairExplanation:
    """Ask about two sentences whose words are known, at least one of each; see :func:`explain_pair`."""
    pair = first, second
    words, other = (torch.tensor([task.vocabulary.find_words(each)], device=task.device) for each in pair)
    answer = task({"words": words, "second": other})
    alignment = answer.attention
    assert isinstance(alignment, WordAlignment)
    classes = list_likeliest(task.loss.probabilities(answer.logits)[0], task.vocabulary.answers, top)
    return PairExplanation(pair[0], pair[1], classes, alignment.onward[0].cpu(), alignment.back[0].cpu())


def draw_pairs(said: Mapping[str, PairExplanation]) -> Figure:
    """Draw the alignment of each network, in both directions unless they are the same; exact zeros are left white."""
    from omegamax import viz
    from omegamax.viz.key import draw_key
    from omegamax.viz.style import pyplot

    first = next(iter(said.values()))
    longest = max(len(first.words), len(first.second))
    if longest > _MOST:
        raise ValueError(f"draw_pairs: sentences must have at most {_MOST} words, got {longest:,}; give shorter ones")
    columns = 1 if all(each.mutual for each in said.values()) else 2
    wide, high = _CELL * len(first.second) + _MARGINS[0], _CELL * len(first.words) + _MARGINS[1]
    with viz.style():
        size = (columns * wide, len(said) * high)
        figure, axes = pyplot().subplots(len(said), columns, figsize=size, layout="constrained", squeeze=False)
        for row, (name, each) in zip(axes, said.items(), strict=True):
            label, p = each.classes[0]
            ways = {"": each.onward} if each.mutual else {"each row": each.onward, "each column": each.back.mT}
            for ax, (way, weights) in zip(row, ways.items(), strict=False):
                title = f"{name}: {label} {p:.2f}" if ax is row[0] else ""
                viz.alignment(weights, each.words, each.second, title=title, ax=ax, key=False)
                ax.set_xlabel(f"{way} sums to one" if way else "one-to-one")
            for ax in row[len(ways) :]:
                ax.set_axis_off()
        draw_key(figure, grow=True)
    return figure
