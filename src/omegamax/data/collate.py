"""Samples to a batch: questions and grids padded, answers scored, relevance on the grid."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.nn.functional import adaptive_avg_pool2d

from omegamax._arguments import check_choice, check_integer, check_sizes
from omegamax.data.boxes import pool_boxes
from omegamax.data.sample import KINDS, Sample
from omegamax.data.vocabulary import PADDING, Vocabulary


class Pictured(Protocol):
    """A sample with a picture, or with features of one."""

    @property
    def id(self) -> str: ...
    @property
    def image(self) -> Tensor | None: ...
    @property
    def features(self) -> Tensor | None: ...
    @property
    def boxes(self) -> Tensor | None: ...


def pool(relevance: Tensor, grid: tuple[int, int]) -> Tensor:
    """Return relevance ``[H, W]`` as probabilities of the cells of a grid ``[h, w]``: means over cells, summing to one.

    All zeros stay zeros: nothing to compare with.

    >>> pool(torch.tensor([[0.0, 3.0], [0.0, 1.0]]), (1, 2))
    tensor([[0., 1.]])
    """
    cells = adaptive_avg_pool2d(relevance[None].double(), grid)[0]
    total = cells.sum()
    return (cells / total if total > 0 else cells).float()


class Collate:
    """Makes a batch of samples, all with images of one size, or all with features of one depth.

    The batch is a dict: ``question`` ``[B, T]`` int64, 0 = padding; ``image`` ``[B, 3, H, W]`` in [0, 1], or
    ``features`` ``[B, L, D]`` with ``grid = (h, w)``, L = h w, ``feature_mask`` ``[B, L]`` (True: a real cell) and
    ``sizes`` ``[B, 2]`` (each picture's own h and w; its cells are the upper left ones); for samples with boxes also
    ``boxes`` ``[B, L, 4]``, 0 where there is none, with h = 1 and L the most regions of a picture; ``answers``
    ``[B, A]``; ``kind`` ``[B]``, 0 yes/no, 1 number, 2 other; ``relevance`` ``[B, h, w]``, each map summing to one, or
    all zeros where nothing is known or matters (left out if no sample has one, and with images if there is no
    ``grid``); ``id`` and ``region``, lists. A class and not a closure, so that worker processes can be sent one.

    Args:
        vocabulary: numbers of words and answers.
        grid: cells ``(h, w)`` that the model lays over images, for their relevance. Features have a grid of their own.
        length: longest question in words; what is beyond is cut off. None: as long as need be.
        unknown: what to do with answers that are not in the vocabulary: ``"error"`` or ``"drop"``.

    >>> sample = Sample("Is it red?", {"yes": 1.0}, "yes/no", "train-7", features=torch.zeros(2, 3, 8))
    >>> batch = Collate(Vocabulary.of(["Is it red?"], ["yes", "no"]))([sample, sample])
    >>> batch["question"].tolist(), batch["features"].shape, batch["grid"]
    ([[2, 3, 4], [2, 3, 4]], torch.Size([2, 6, 8]), (2, 3))
    """

    def __init__(
        self,
        vocabulary: Vocabulary,
        grid: tuple[int, int] | None = None,
        length: int | None = None,
        unknown: str = "error",
    ) -> None:
        check_choice("Collate", "unknown", unknown, ("error", "drop"))
        if grid is not None:
            check_sizes("Collate", "grid", grid, 2)
        if length is not None:
            length = check_integer("Collate", "length", length, least=1)
        self.vocabulary, self.grid, self.length, self.unknown = vocabulary, grid, length, unknown

    def __call__(self, samples: Sequence[Sample]) -> dict[str, Any]:
        if not samples:
            raise ValueError("Collate: no samples")
        words, scores = [], []
        for sample in samples:
            try:
                words.append(self.vocabulary.encode(sample.question)[: self.length])
                scores.append(self.vocabulary.scores(sample.answers, self.unknown))
            except ValueError as error:
                raise ValueError(f"sample {sample.id!r}: {error}") from error
        batch: dict[str, Any] = {
            "question": torch.nn.utils.rnn.pad_sequence(words, batch_first=True, padding_value=PADDING),
            "answers": torch.stack(scores),
            "kind": torch.tensor([KINDS.index(sample.kind) for sample in samples]),
            "id": [sample.id for sample in samples],
            "region": [sample.region for sample in samples],
        }
        if all(sample.image is not None for sample in samples):
            batch["image"] = stack_images(samples)
            sizes = None if self.grid is None else [self.grid] * len(samples)
        elif all(sample.features is not None for sample in samples):
            if len({sample.boxes is None for sample in samples}) > 1:
                raise ValueError("Collate: some samples have boxes and others a grid; a batch needs one or the other")
            batch.update(stack_features(samples))
            sizes = [tuple(size) for size in batch["sizes"].tolist()]
        else:
            raise ValueError("Collate: some samples have images and others features; a batch needs one or the other")
        if sizes is not None and any(sample.relevance is not None for sample in samples):
            batch["relevance"] = _relevance(samples, sizes)
        return batch


def stack_images(samples: Sequence[Pictured]) -> Tensor:
    """Return the images of samples, all of one size, in [0, 1], ``[B, 3, H, W]``."""
    images: list[Tensor] = []
    for sample in samples:
        image = sample.image
        assert image is not None
        if images and image.shape != images[0].shape:
            first, given = (f"{tuple(t.shape[1:])}" for t in (images[0], image))
            raise ValueError(
                f"Collate: images of a batch must have one size; {samples[0].id!r} has {first}, {sample.id!r} {given}"
            )
        images.append(image.float() / 255 if image.dtype == torch.uint8 else image.float())
    return torch.stack(images)


def stack_features(samples: Sequence[Pictured]) -> dict[str, Any]:
    """Return the features of samples, padded to the largest grid, with what says where there are any."""
    grids: list[Tensor] = [sample.features for sample in samples if sample.features is not None]
    depth = grids[0].shape[-1]
    for sample, cells in zip(samples, grids, strict=True):
        if cells.shape[-1] != depth:
            raise ValueError(
                f"Collate: features of a batch must have one depth; {samples[0].id!r} has {depth}, "
                f"{sample.id!r} {cells.shape[-1]}"
            )
    sizes = torch.tensor([cells.shape[:2] for cells in grids])
    h, w = sizes.amax(0).tolist()
    features = grids[0].new_zeros(len(grids), h, w, depth, dtype=torch.float32)
    mask = torch.zeros(len(grids), h, w, dtype=torch.bool)
    for row, cells in enumerate(grids):
        features[row, : cells.shape[0], : cells.shape[1]] = cells
        mask[row, : cells.shape[0], : cells.shape[1]] = True
    batch = {"features": features.flatten(1, 2), "feature_mask": mask.flatten(1), "grid": (h, w), "sizes": sizes}
    boxes = [sample.boxes.float() for sample in samples if sample.boxes is not None]
    if boxes:
        batch["boxes"] = torch.nn.utils.rnn.pad_sequence(boxes, batch_first=True)
    return batch


def _relevance(samples: Sequence[Sample], sizes: Sequence[tuple[int, ...]]) -> Tensor:
    h, w = (max(size[axis] for size in sizes) for axis in (0, 1))
    maps = torch.zeros(len(samples), h, w)
    for row, (sample, size) in enumerate(zip(samples, sizes, strict=True)):
        if sample.relevance is not None:
            maps[row, : size[0], : size[1]] = pool_relevance(sample, (size[0], size[1]))
    return maps


def pool_relevance(sample: Sample, grid: tuple[int, int]) -> Tensor:
    """Return the relevance of a sample that has one as probabilities of its cells or boxes, ``[h, w]``."""
    assert sample.relevance is not None
    if sample.boxes is None:
        return pool(sample.relevance, grid)
    return pool_boxes(sample.relevance, sample.boxes).unsqueeze(0)
