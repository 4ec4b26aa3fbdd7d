"""A sentence put to a trained network: its translation, and where it looked for each word."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from omegamax.data.translation import EOS
from omegamax.densities import Density
from omegamax.tasks.translation.search import SearchConfig, Translation, translate
from omegamax.tasks.translation.task import TranslationTask

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_CELL = 0.34  # inches of a word's row or column
_MOST = 80  # words of a sentence that can be read in a picture
_MARGINS = 1.9, 1.4  # inches for words, titles and colours
_LETTER, _LINE = 0.09, 0.2  # inches of a title's letter and line


@dataclass(frozen=True, eq=False)
class TranslationExplanation:
    """What a network says of a sentence.

    Args:
        source: its subwords, the end last, m of them.
        target: subwords of the translation, the end last, n.
        translation: all that was found; None where the translation was given.
        weights: ``[n, m]``, where it looked for each subword.
        densities: over the source, one for each subword of the target; None where attention is discrete alone.
        support: how many tokens could have followed at each place, ``[n]``.
    """

    source: tuple[str, ...]
    target: tuple[str, ...]
    translation: Translation | None
    weights: Tensor
    densities: list[Density] | None
    support: Tensor


@torch.no_grad()
def explain(
    task: TranslationTask, text: str, target: str | None = None, search: SearchConfig | None = None
) -> TranslationExplanation:
    """Ask a trained network for a translation, and where it looked.

    Args:
        task: in evaluation mode, as :meth:`TranslationTask.load` leaves it.
        text: sentence to translate.
        target: a translation to look into; None: the one that the network finds.
        search: how to look for it.

        >>> from omegamax.data.translation import PairVocabulary, TinyPairs
        >>> from omegamax.models.translation import TranslatorConfig
        >>> pairs = TinyPairs(30)
        >>> task = TranslationTask(PairVocabulary.learn(pairs, kind="words"), TranslatorConfig.tiny()).eval()
        >>> explain(task, pairs[0].source, "the man").target
        ('the', 'man', '</s>')
    """
    vocabulary = task.vocabulary
    source = vocabulary.encode_source(text)
    if len(source) < 2:
        raise ValueError("explain: text must have words, got none")
    source = source if len(source) <= task.length else [*source[: task.length - 1], EOS]
    found = None
    if target is None:
        found = translate(task, [text], search)[0]
        tokens = list(found.hypotheses[0].tokens)
    else:
        tokens = vocabulary.encode_target(target)
    pair = (torch.tensor([source], device=task.device), torch.tensor([tokens], device=task.device))
    alignment = task.model.align(*pair)
    support = task.model.count_support({"source": pair[0], "target": pair[1]})[0]
    return TranslationExplanation(
        tuple(show_piece(vocabulary.source.tokens[token]) for token in source),
        tuple(show_piece(vocabulary.target.tokens[token]) for token in tokens),
        found,
        alignment.weights[0].cpu(),
        alignment.densities,
        support.cpu(),
    )


def show_piece(piece: str) -> str:
    """Write a subword for a picture, without the sign for the blank before a word.

    >>> [show_piece(piece) for piece in ("▁dog", "s", "▁")]
    ['dog', 's', '▁']
    """
    return piece.removeprefix("\u2581") or piece


def draw(said: Mapping[str, TranslationExplanation]) -> Figure:
    """Draw the alignment of each network beside each other, and beneath it its densities; exact zeros are white."""
    from omegamax import viz
    from omegamax.viz.key import draw_key
    from omegamax.viz.style import pyplot

    longest = max(max(len(each.source), len(each.target)) for each in said.values())
    if longest > _MOST:
        raise ValueError(f"draw: sentences must have at most {_MOST} subwords, got {longest:,}; give shorter ones")
    rows = 1 + any(each.densities is not None for each in said.values())
    wide = max(_CELL * len(each.source) for each in said.values()) + _MARGINS[0]
    high = max(_CELL * len(each.target) for each in said.values()) + _MARGINS[1]
    # A title begins above the first word, behind about half of the margin.
    titles = {name: textwrap.fill(name, int((wide - _MARGINS[0] / 2) / _LETTER)) for name in said}
    more = _LINE * max(title.count("\n") for title in titles.values())
    with viz.style():
        size = (len(said) * wide, rows * high + more)
        figure, axes = pyplot().subplots(rows, len(said), figsize=size, layout="constrained", squeeze=False)
        for column, (name, each) in enumerate(said.items()):
            labels = each.target, each.source
            viz.alignment(each.weights, *labels, numbers=False, title=titles[name], ax=axes[0, column], key=False)
            if each.densities is not None:
                viz.density_rows(each.densities, *labels, title="its density", ax=axes[1, column], key=False)
            elif rows > 1:
                axes[1, column].set_axis_off()
        draw_key(figure, grow=True)
    return figure
