"""Waves as basis functions."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_number, check_sizes
from omegamax._checks import check_floating, check_points
from omegamax.basis._base import Basis, check_matrix
from omegamax.basis.grid import mesh_points


class Fourier(Basis):
    r"""Cosines and sines, :math:`\psi(t) = [\cos(w_1^\top t), ..., \cos(w_F^\top t), \sin(w_1^\top t), ...]`.

    J = 2F: the first F functions are the cosines, the next F the sines. The zero frequency gives the constant 1 and a
    sine that is 0 everywhere, whose coefficient a ridge fit leaves at 0.

    Args:
        frequencies: ``[F, n]``, angular: in one dimension :math:`w = 2 \pi k` has period 1/k.

        >>> Fourier(torch.tensor([[0.0], [torch.pi]]))(torch.tensor([[0.5], [1.0]])).round(decimals=4).abs()
        tensor([[1., 0., 0., 1.],
                [1., 1., 0., 0.]])
    """

    frequencies: Tensor

    def __init__(self, frequencies: Tensor):
        super().__init__()
        frequencies = check_matrix("Fourier", "frequencies", frequencies)
        check_floating("Fourier", "frequencies", frequencies)
        self.dimension = frequencies.shape[1]
        self._hold("frequencies", frequencies)

    @classmethod
    def grid(
        cls,
        count: int | tuple[int, ...],
        n: int,
        period: float = 1.0,
        *,
        dtype: torch.dtype | None = None,
        device: torch.device | str | None = None,
    ) -> Fourier:
        r"""Return the waves :math:`w = 2 \pi k / \text{period}` for integer vectors k with :math:`|k_i| \le` ``count``.

        k and -k give the same two waves up to sign, so one of each pair is kept: zero first, then those whose last
        non-zero coordinate is positive. In one dimension k = 0, ..., count.

        Args:
            count: highest multiple along each axis, in array order (the last is that of x), or the same for all.
            n: dimension.
            period: over which every function repeats. With 1 the ends of the unit interval are joined, as are the
                opposite sides of an image; 2 keeps them apart.

            >>> Fourier.grid(1, 2).frequencies / (2 * torch.pi)
            tensor([[ 0.,  0.],
                    [ 1.,  0.],
                    [-1.,  1.],
                    [ 0.,  1.],
                    [ 1.,  1.]])
        """
        sizes = check_sizes("Fourier.grid", "count", count, n)
        check_number("Fourier.grid", "period", period, above=0)
        k = mesh_points([torch.arange(-c, c + 1, device=device) for c in sizes])
        # The last axis runs fastest and zero sits in the middle: the second half holds one of each pair.
        k = k[len(k) // 2 :]
        return cls(k.to(dtype or torch.get_default_dtype()) * (2 * math.pi / period))

    def __len__(self) -> int:
        return 2 * len(self.frequencies)

    def forward(self, t: Tensor) -> Tensor:
        check_points(type(self).__name__, "t", t, self.dimension)
        # A sum of products and not a matmul, which autocast would take to half precision.
        phase = (t.unsqueeze(-2) * self.frequencies).sum(-1)
        return torch.cat([phase.cos(), phase.sin()], -1)

    def extra_repr(self) -> str:
        return f"J={len(self)}, n={self.dimension}"
