"""Fewer channels: features in the directions in which those of many cells differ most."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import torch
from torch import Tensor, nn


class Principal(nn.Module):
    """Principal components of features, ``[B, D, h, w] -> [B, C, h, w]``: ``(x - mean) basis``, largest variance first.

    The components are not scaled to one variance, so that distances between cells stay as they were, up to what the
    components left out hold.

    Attributes:
        mean: ``[D]``.
        basis: ``[D, C]``, orthonormal columns.
        share: of the variance, kept by the components.
    """

    mean: Tensor
    basis: Tensor

    def __init__(self, mean: Tensor, basis: Tensor, share: float) -> None:
        super().__init__()
        self.register_buffer("mean", mean)
        self.register_buffer("basis", basis)
        self.share = share

    def forward(self, maps: Tensor) -> Tensor:
        cells = maps.movedim(1, -1) - self.mean
        return (cells @ self.basis).movedim(-1, 1)

    def save(self, path: str | PathLike[str]) -> None:
        """Write the components to a ``.safetensors`` file, whole or not at all."""
        from safetensors.torch import save_file

        path = Path(path)
        temporary = path.with_name(f".{path.name}.part")
        state = {key: value.cpu().contiguous() for key, value in self.state_dict().items()}
        save_file(state, temporary, {"share": repr(self.share)})
        temporary.replace(path)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Principal:
        """Read what :meth:`save` wrote."""
        from safetensors import SafetensorError, safe_open

        try:
            with safe_open(path, "pt") as file:
                return cls(file.get_tensor("mean"), file.get_tensor("basis"), float(file.metadata()["share"]))
        except (SafetensorError, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"{path} is damaged ({error}); extract the features again into another folder") from error


class Moments:
    """Mean and covariance of the cells seen so far, from which the components come.

    >>> moments = Moments()
    >>> maps = torch.randn(4, 1, 5, 5) * torch.tensor([3.0, 4.0, 0.0])[:, None, None]  # one direction of three
    >>> moments.add(maps)
    >>> principal = moments.principal(1)
    >>> principal.basis.flatten().abs()
    tensor([0.6000, 0.8000, 0.0000])
    >>> round(principal.share, 6)
    1.0
    """

    def __init__(self) -> None:
        self.count = 0
        self._sum: Tensor | None = None
        self._squares: Tensor | None = None

    def add(self, maps: Tensor) -> None:
        """Add the cells of maps ``[B, D, h, w]``."""
        # In single precision the products of features far from zero would lose the differences between them.
        cells = maps.detach().movedim(1, -1).flatten(0, -2).cpu().double()
        total, squares = cells.sum(0), cells.T @ cells
        self.count += len(cells)
        self._sum = total if self._sum is None else self._sum + total
        self._squares = squares if self._squares is None else self._squares + squares

    def principal(self, channels: int) -> Principal:
        """Return the first ``channels`` components."""
        if self._sum is None or self._squares is None:
            raise ValueError("Moments.principal: no cells were added")
        if not 1 <= channels <= len(self._sum):
            raise ValueError(f"the backbone has {len(self._sum)} channels; {channels} of them cannot be kept")
        mean = self._sum / self.count
        variances, directions = torch.linalg.eigh(self._squares / self.count - torch.outer(mean, mean))
        variances, directions = variances.flip(0).clamp(min=0), directions.flip(1)[:, :channels]
        whole = float(variances.sum())
        share = float(variances[:channels].sum()) / whole if whole > 0 else 1.0
        return Principal(mean.float(), directions.float().contiguous(), share)
