"""Samples to a batch: captions padded, pictures or features stacked, regions of words on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from omegamax._arguments import check_integer
from omegamax.data.captions.sample import CaptionSample
from omegamax.data.captions.vocabulary import CaptionVocabulary
from omegamax.data.collate import stack_features, stack_images
from omegamax.data.vocabulary import PADDING


class CaptionCollate:
    """Makes a batch of pictures, each with one of its captions.

    The batch is a dict: ``caption`` ``[B, T + 2]`` int64, from start to end, 0 = padding; ``image`` ``[B, 3, H, W]`` in
    [0, 1], or ``features`` ``[B, L, D]`` with ``grid``, ``feature_mask`` and ``sizes`` as
    :class:`~omegamax.data.Collate` has them; ``id``; ``references``, the texts of all captions; ``objects``. Where it
    is known what words are about and there is a ``grid``, ``regions`` ``[B, T, h, w]``: the share of each cell that the
    things cover which the word is about; 0 for words about none.

    Args:
        vocabulary: numbers of words.
        grid: cells ``(h, w)`` that the network lays over images, for the regions of words; of features, their own.
        length: longest caption in words; what is beyond is cut off, and has no end. None: as long as need be.
    """

    def __init__(
        self, vocabulary: CaptionVocabulary, grid: tuple[int, int] | None = None, length: int | None = None
    ) -> None:
        if length is not None:
            check_integer("CaptionCollate", "length", length, least=1)
        self.vocabulary, self.grid, self.length = vocabulary, grid, length

    def __call__(self, pairs: Sequence[tuple[CaptionSample, int]]) -> dict[str, Any]:
        if not pairs:
            raise ValueError("CaptionCollate: no samples")
        samples = [sample for sample, _ in pairs]
        most = None if self.length is None else self.length + 1  # the start is no word
        numbers = [torch.tensor(self.vocabulary.encode(sample.captions[which])[:most]) for sample, which in pairs]
        batch: dict[str, Any] = {
            "caption": torch.nn.utils.rnn.pad_sequence(numbers, batch_first=True, padding_value=PADDING),
            "id": [sample.id for sample in samples],
            "references": [list(sample.references) for sample in samples],
            "objects": [list(sample.objects) for sample in samples],
        }
        if all(sample.image is not None for sample in samples):
            batch["image"] = stack_images(samples)
            grid = self.grid
        else:
            batch.update(stack_features(samples))
            grid = batch["grid"]
        if grid is not None and all(sample.masks is not None and sample.mentions for sample in samples):
            words = batch["caption"].shape[1] - 1  # those that are written, the end among them
            batch["regions"] = torch.stack([_regions(sample, which, grid, words) for sample, which in pairs])
        return batch


def _regions(sample: CaptionSample, which: int, grid: tuple[int, int], words: int) -> Tensor:
    """Return the cover of cells by what each word is about, ``[words, h, w]``."""
    assert sample.masks is not None
    cover = adaptive_avg_pool2d(sample.masks.float(), grid)  # [K, h, w]
    regions = torch.zeros(words, *grid)
    for place, things in enumerate(sample.mentions[which][:words]):
        if things:
            regions[place] = cover[list(things)].sum(0)
    return regions
