"""Indicators of boxes: value functions that are constant on cells."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_sizes
from omegamax._checks import check_floating, check_points, is_plain
from omegamax.basis._base import Basis, check_matrix
from omegamax.basis.grid import mesh_points


class Rectangles(Basis):
    r"""Indicators of J boxes, :math:`\psi_j(t) = 1` if :math:`l_j \le t < u_j` along every axis, else 0.

    Half-open, so that boxes side by side share no point; a box that reaches as far along an axis as any box does holds
    its end there too. The cells of a grid over :math:`[0, 1]^n` thus sum to one in all of it, at 1 as well.

    Args:
        lower, upper: ``[J, n]``, lower < upper.

        >>> Rectangles(torch.tensor([[0.0], [0.5]]), torch.tensor([[0.5], [1.0]]))(torch.tensor([[0.5], [1.0], [1.1]]))
        tensor([[0., 1.],
                [0., 1.],
                [0., 0.]])
    """

    lower: Tensor
    upper: Tensor
    _last: Tensor

    def __init__(self, lower: Tensor, upper: Tensor):
        super().__init__()
        lower, upper = check_matrix("Rectangles", "lower", lower), check_matrix("Rectangles", "upper", upper)
        for argument, value in (("lower", lower), ("upper", upper)):
            check_floating("Rectangles", argument, value)
        if lower.shape != upper.shape:
            raise ValueError(
                f"Rectangles: lower and upper must have one shape, got {tuple(lower.shape)} and {tuple(upper.shape)}"
            )
        if is_plain(lower, upper) and not bool((lower < upper).all()):
            raise ValueError("Rectangles: lower must be < upper everywhere")
        self.dimension = lower.shape[1]
        self._hold("lower", lower)
        self._hold("upper", upper)
        self._hold("_last", upper == upper.amax(0))

    @classmethod
    def grid(
        cls,
        per_axis: int | tuple[int, ...],
        n: int,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Rectangles:
        r"""Return the cells of a regular grid over :math:`[0, 1]^n`, in the order of :func:`grid_positions`.

        >>> Rectangles.grid((1, 2), 2).upper
        tensor([[0.5000, 1.0000],
                [1.0000, 1.0000]])
        """
        sizes = check_sizes("Rectangles.grid", "per_axis", per_axis, n)
        edges = [torch.linspace(0, 1, k + 1, dtype=dtype, device=device) for k in sizes]
        return cls(mesh_points([e[:-1] for e in edges]), mesh_points([e[1:] for e in edges]))

    def __len__(self) -> int:
        return len(self.lower)

    def forward(self, t: Tensor) -> Tensor:
        check_points(type(self).__name__, "t", t, self.dimension)
        dtype = torch.promote_types(t.dtype, self.lower.dtype)
        t = t.unsqueeze(-2)
        inside = (t >= self.lower) & ((t < self.upper) | (self._last & (t == self.upper)))
        return inside.all(-1).to(dtype)

    def extra_repr(self) -> str:
        return f"J={len(self)}, n={self.dimension}"
