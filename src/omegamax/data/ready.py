"""A split put together once and kept in memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from omegamax.data.collate import Collate
from omegamax.data.sample import Sample
from omegamax.models.grid_cnn import GridCNN

Batch = dict[str, Any]
Progress = Callable[[Iterable[Batch]], Iterable[Batch]]


class Ready(Dataset[Batch]):
    """All samples of a split as one batch, of which others are cut: for small sets that are read many times.

    Making a picture or reading a file takes longer than a small network's step; this way it is done once. Bytes of
    pictures stay bytes until they are asked for. Give it to a loader with ``collate_fn=Ready.collate``, which takes the
    batch as it comes.

    Args:
        batch: as :class:`~omegamax.data.Collate` makes it.

        >>> from omegamax.data import Scenes
        >>> scenes = Scenes(10, image_size=32)
        >>> ready = Ready.of(scenes, Collate(scenes.vocabulary, grid=(4, 4)))
        >>> loader = DataLoader(ready, batch_size=4, collate_fn=Ready.collate)
        >>> [batch["image"].shape for batch in loader]
        [torch.Size([4, 3, 32, 32]), torch.Size([4, 3, 32, 32]), torch.Size([2, 3, 32, 32])]
    """

    def __init__(self, batch: Batch) -> None:
        self.batch = batch

    @classmethod
    def of(
        cls,
        dataset: Dataset[Sample],
        collate: Collate,
        *,
        workers: int = 0,
        chunk: int = 256,
        progress: Progress | None = None,
    ) -> Ready:
        """Put all samples of a set together.

        Args:
            dataset: with a length.
            collate: makes the batches that are joined, ``chunk`` samples each, in ``workers`` processes. They begin as
                ``multiprocessing`` is set to; forks take much less time than those that import all anew.
            progress: wraps the loop over batches, such as a progress bar does.
        """
        # Packed where they are made: from there to here is the longest part of the way.
        loader: Iterable[Batch] = DataLoader(dataset, chunk, collate_fn=_Packed(collate), num_workers=workers)
        return cls(_join(list(loader if progress is None else progress(loader))))

    def __len__(self) -> int:
        return len(self.batch["question"])

    def __getitem__(self, index: int) -> Batch:
        """Return a batch of one."""
        return self.__getitems__([range(len(self))[index]])

    def __getitems__(self, indices: Sequence[int]) -> Batch:
        """Return the batch of these samples; questions are as long as the longest of all."""
        rows = torch.as_tensor(indices)
        batch = {key: _rows(value, rows) for key, value in self.batch.items() if key != "image"}
        return {**batch, "image": _unpack(self.batch["image"][rows])} if "image" in self.batch else batch

    @staticmethod
    def collate(batch: Any) -> Batch:
        """Return the function that a loader calls on a batch; it returns the batch as it is."""
        return batch

    @torch.no_grad()
    def featurise(self, cnn: GridCNN, chunk: int = 256) -> Ready:
        """Put features ``[N, h w, D]`` in place of images: those of a network that is not trained on."""
        device, indices = cnn.project.weight.device, torch.arange(len(self)).split(chunk)
        images = self.batch["image"]
        features = torch.cat([cnn(_unpack(images[rows].to(device))).cpu() for rows in indices])
        rest = {key: value for key, value in self.batch.items() if key != "image"}
        return Ready({**rest, "features": features, "grid": cnn.grid})


def _rows(value: Any, rows: Tensor) -> Any:
    if isinstance(value, Tensor):
        return value[rows]
    return [value[row] for row in rows] if isinstance(value, list) else value  # else the grid, which all share


class _Packed:
    """Batches with pictures as bytes where no more was in them."""

    def __init__(self, collate: Collate) -> None:
        self.collate = collate

    def __call__(self, samples: Sequence[Sample]) -> Batch:
        batch = self.collate(samples)
        if "image" not in batch:
            return batch
        levels = (255 * batch["image"]).round_()
        packed = levels.to(torch.uint8)
        return {**batch, "image": packed} if torch.equal(levels.div_(255), batch["image"]) else batch


def _unpack(images: Tensor) -> Tensor:
    return images.float() / 255 if images.dtype == torch.uint8 else images


def _join(batches: Sequence[Batch]) -> Batch:
    joined: Batch = {}
    if len({"boxes" in batch for batch in batches}) > 1:
        raise ValueError("Ready: some samples have boxes and others a grid; a set needs one or the other")
    longest = max(batch["question"].shape[1] for batch in batches)
    if "grid" in batches[0]:
        h, w = (max(batch["grid"][axis] for batch in batches) for axis in (0, 1))
        batches = [_on_grid(batch, h, w) for batch in batches]
    if any("relevance" in batch for batch in batches):
        batches = [_with_relevance(batch, batches) for batch in batches]
    for key, first in batches[0].items():
        values = [batch[key] for batch in batches]
        if key == "question":
            values = [F.pad(value, (0, longest - value.shape[1])) for value in values]
        if key == "image" and len({value.dtype for value in values}) > 1:  # some of bytes, others of more
            values = [_unpack(value) for value in values]
        if key == "grid":
            joined[key] = first
        else:
            joined[key] = torch.cat(values) if isinstance(first, Tensor) else [x for value in values for x in value]
    return joined


def _with_relevance(batch: Batch, batches: Sequence[Batch]) -> Batch:
    """Return the batch with empty relevance maps where it has none."""
    if "relevance" in batch:
        return batch
    h, w = next(other["relevance"].shape[1:] for other in batches if "relevance" in other)
    return {**batch, "relevance": torch.zeros(len(batch["question"]), h, w)}


def _on_grid(batch: Batch, h: int, w: int) -> Batch:
    """Return the batch padded with empty cells to ``h x w``."""
    rows, columns = batch["grid"]
    more = (0, w - columns, 0, h - rows)
    changed: Batch = {"grid": (h, w)}
    for key in ("features", "feature_mask", "boxes"):
        if key not in batch:
            continue
        cells = batch[key].unflatten(1, (rows, columns))
        changed[key] = F.pad(cells, more if cells.dim() == 3 else (0, 0, *more)).flatten(1, 2)
    if "relevance" in batch:
        changed["relevance"] = F.pad(batch["relevance"], more)
    return {**batch, **changed}
