"""The matrix of a ridge fit, for any size, kept once it is known."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn.functional import pad

from omegamax._arguments import is_number
from omegamax.basis._base import Basis
from omegamax.basis._places import F64, Lengths, Places, Size
from omegamax.basis._ridge_cache import OperatorCache, extend
from omegamax.basis._ridge_solver import ridge_operator


class RidgeOperator(torch.nn.Module):
    """What :class:`RidgeFit` multiplies values with; its arguments are explained there."""

    def __init__(
        self,
        basis: Basis,
        positions: int | tuple[int, ...] | Tensor | None = None,
        penalty: float = 0.01,
        padding: bool = False,
    ):
        super().__init__()
        if not isinstance(basis, Basis):
            raise TypeError(f"RidgeFit: basis must be a Basis, got {type(basis).__name__}")
        if not is_number(penalty) or not 0 <= penalty < math.inf:
            raise ValueError(f"RidgeFit: penalty must be a finite number >= 0, got {penalty!r}")
        if padding and isinstance(positions, Tensor):
            raise ValueError("RidgeFit: padding needs a regular grid, got positions as a tensor")
        self.basis = basis
        self.places = Places(positions, basis.dimension)
        self.penalty = float(penalty)
        self.padding = bool(padding)
        self._cache = OperatorCache()

    @property
    def positions(self) -> Tensor | None:
        """The places given at construction, ``[L, n]``, float64; None if they come with each call."""
        if self.places.points is None and self.places.size is None:
            return None
        return self.places.inside(self.places.whole(self.places.width(None, None)), self._home(torch.device("cpu")))

    def operator(
        self,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        width: int | None = None,
        dtype: torch.dtype = torch.float32,
        device: torch.device | str | None = None,
    ) -> Tensor:
        """The matrix that takes values to coefficients, ``[J, L]``, or ``[*, J, L]`` for examples that differ.

        ``operator @ values`` are the coefficients. Columns of absent places are zero (the values there must still be
        finite). Once known it is looked up, unless ``positions`` or ``mask`` are given.

        Args:
            width: L, the number of columns; by default that of the places given at construction, or of the longest
                example.
            dtype: float32 or float64.
            device: by default that of ``positions`` or of the basis.
        """
        if dtype not in (torch.float32, F64):
            raise TypeError(f"RidgeFit: dtype must be torch.float32 or torch.float64, got {dtype}")
        if width is None:
            width = self.places.width(lengths, positions)
        if device is None:
            device = self._home(torch.device("cpu")) if positions is None else positions.device
        operator, _ = self._operator(lengths, positions, mask, width, dtype, torch.device(device))
        if lengths is not None and operator.dim() == 2:  # all of one size
            batch = self.places.sizes(lengths, width)[0] if positions is None else ()
            operator = operator.expand(*batch, *operator.shape)
        return operator

    def extra_repr(self) -> str:
        return f"penalty={self.penalty:g}, padding={self.padding}"

    def _operator(
        self,
        lengths: Lengths | None,
        positions: Tensor | None,
        mask: Tensor | None,
        width: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> tuple[Tensor, Tensor | None]:
        """The operator, without a batch where all examples are of one size, and which rows are there (None: all)."""
        if positions is not None or mask is not None:
            if self.padding:
                raise ValueError("RidgeFit: padding needs a regular grid, got positions or a mask in the call")
            points, present = self.places.each(lengths, positions, mask, width, device)
            solved = ridge_operator(self._design(points, present), None, self.penalty, dtype).to(dtype)
            return (solved if present is None else torch.where(present.unsqueeze(-2), solved, 0.0)), present
        setting, make = (dtype, device, self.penalty, self.padding), self._maker(dtype, device)
        one = make if self._is_live() else lambda size: self._cache.one(size, setting, make)
        if lengths is None:
            return one(self.places.whole(width)), None
        batch, sizes = self.places.sizes(lengths, width)
        present = None
        if any(math.prod(s) < width for s in sizes):
            present = self.places.present(batch, sizes, width, device)
        if len(set(sizes)) == 1:
            operator = one(sizes[0])
            return pad(operator, (0, width - operator.shape[-1])), present
        if not sizes:
            return torch.zeros(*batch, len(self.basis), width, dtype=dtype, device=device), present
        if self._is_live():
            slots, table = extend({}, None, list(dict.fromkeys(sizes)), width, make)
            gathered = table[[slots[s] for s in sizes]]
        else:
            gathered = self._cache.many(sizes, width, setting, make)
        return gathered.reshape(*batch, *gathered.shape[1:]), present

    def _maker(self, dtype: torch.dtype, device: torch.device) -> Callable[[Size], Tensor]:
        """What computes the operator for one size."""

        def solve(size: Size) -> Tensor:
            return ridge_operator(*self._rows(size, device), self.penalty, dtype).to(device, dtype)

        def once(size: Size) -> Tensor:
            # What is kept must be of use to a later call with gradients, whatever the mode of this one.
            with torch.inference_mode(False), torch.no_grad():
                return solve(size)

        return solve if self._is_live() else once

    def _rows(self, size: Size, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """The basis at the places of an example of this size, ``[l, J]``, and where zeros are fitted, ``[m, J]``."""
        home = self._home(device)
        outside = self._design(self.places.outside(size, home), None) if self.padding else None
        return self._design(self.places.inside(size, home), None), outside

    def _design(self, points: Tensor, present: Tensor | None) -> Tensor:
        """The basis at places ``[*, L, n]``, 0 at absent ones; ``[*, L, J]``, float64."""
        if present is None:
            return self.basis(points).to(F64)
        # The basis sees a harmless point in place of an absent one, which may be NaN.
        design = self.basis(torch.where(present.unsqueeze(-1), points, 0.5)).to(F64)
        return torch.where(present.unsqueeze(-1), design, 0.0)

    def _home(self, otherwise: torch.device) -> torch.device:
        """Where the basis lives."""
        tensor = next(self.basis.buffers(), next(self.basis.parameters(), None))
        return otherwise if tensor is None else tensor.device

    def _is_live(self) -> bool:
        """Whether operators change from call to call, or are differentiated: nothing may then be kept."""
        points = self.places.points
        return (points is not None and points.requires_grad) or next(self.basis.parameters(), None) is not None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RidgeOperator:
        self._cache.clear()  # the basis is about to be rounded or moved
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cache": OperatorCache()}  # a copy, or a pickle, finds out for itself
