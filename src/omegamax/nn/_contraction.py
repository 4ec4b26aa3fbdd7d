"""The past of a signal, pressed together to make room for what is new."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._checks import is_plain
from omegamax.basis import Basis, RidgeFit
from omegamax.basis.grid import F64, cell_centres

# Numbers of new vectors for which matrices are kept before they are forgotten.
_MOST_LENGTHS = 64


class Contraction(torch.nn.Module):
    r"""The coefficients of a signal after L vectors have come.

    .. math:: X'(t) = X(t / \tau) \text{ on } [0, \tau], \qquad X'(t_l) = x_l \text{ at L cell centres of } [\tau, 1]

    The old signal is evaluated at M points and fitted again together with the new vectors, by ridge regression on the
    same functions. Both steps are linear, and without gaps or attention their matrices are constant.
    """

    def __init__(self, basis: Basis, factor: float, samples: int, penalty: float):
        super().__init__()
        self.fit = RidgeFit(basis, None, penalty)
        self.factor = factor
        self.samples = samples
        self._fits: dict[tuple[bool, int], RidgeFit] = {}

    @property
    def basis(self) -> Basis:
        """Return the functions of the signal."""
        return self.fit.basis

    def forward(
        self, coefficients: Tensor, hidden: Tensor, empty: Tensor, lengths: Tensor | None, points: Tensor | None
    ) -> Tensor:
        """Return the new coefficients ``[B, N, D]``.

        Args:
            coefficients: of the past, ``[B, N, D]``; 0 where there is none.
            hidden: the new vectors ``[B, L, D]``, in the same dtype.
            empty: where there is no past, ``[B]``: there the new vectors fill all of [0, 1].
            lengths: how many of the new vectors are there, ``[B]``; None: all.
            points: where the past is evaluated, ``[B, M]``; None: at M cell centres.
        """
        dtype, device, width = coefficients.dtype, coefficients.device, hidden.shape[-2]
        if lengths is not None:
            return self._gather(coefficients, hidden, empty, lengths, points)
        operator = self._constant(width, dtype, device, past=True)
        kept, added = operator[:, : self.samples], operator[:, self.samples :]
        past = kept @ (self._evaluate(points, coefficients) @ coefficients)
        alone = self._constant(width, dtype, device, past=False)
        return past + torch.where(empty[:, None, None], alone @ hidden, added @ hidden)

    def _gather(
        self, coefficients: Tensor, hidden: Tensor, empty: Tensor, lengths: Tensor, points: Tensor | None
    ) -> Tensor:
        """Return the same for examples of different lengths; those of length 0 stay as they are."""
        device, width = coefficients.device, hidden.shape[-2]
        index = torch.arange(width, device=device)
        present = index < lengths[:, None]
        start = torch.where(empty, 0.0, self.factor).to(F64)[:, None]
        cells = (2 * index + 1).to(F64) / (2 * lengths[:, None].clamp(min=1))
        old = self._cells(device).expand(len(hidden), -1)
        positions = torch.cat([self.factor * old, start + (1 - start) * cells], -1).unsqueeze(-1)
        mask = torch.cat([~empty[:, None].expand_as(old), present], -1)
        operator = self.fit.operator(positions=positions, mask=mask, dtype=coefficients.dtype, device=device)
        past = self._evaluate(points, coefficients) @ coefficients
        hidden = torch.where(present.unsqueeze(-1), hidden, 0.0)  # a zero column would not stop a NaN
        new = operator @ torch.cat([past, hidden], -2)
        return torch.where((lengths == 0)[:, None, None], coefficients, new)

    def _evaluate(self, points: Tensor | None, like: Tensor) -> Tensor:
        """Return the functions at M points, ``[M, N]`` or ``[B, M, N]``."""
        points = self._cells(like.device) if points is None else points
        return self.basis(points.unsqueeze(-1)).to(like.dtype)

    def _cells(self, device: torch.device) -> Tensor:
        return cell_centres(self.samples, 0, F64, device)

    def _constant(self, width: int, dtype: torch.dtype, device: torch.device, past: bool) -> Tensor:
        """Return the matrix ``[N, M + L]`` of the fit to the past and L new vectors, or ``[N, L]`` to these alone."""
        fit = self._fits.get((past, width))
        if fit is None:
            new = cell_centres(width, 0, F64, device)
            if past:
                new = torch.cat([self.factor * self._cells(device), self.factor + (1 - self.factor) * new])
            fit = RidgeFit(self.basis, new.unsqueeze(-1), self.fit.penalty)
            if is_plain(new):
                if len(self._fits) >= _MOST_LENGTHS:
                    self._fits.clear()
                self._fits[past, width] = fit
        return fit.operator(dtype=dtype, device=device)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Contraction:
        self._fits.clear()  # the basis is about to be rounded or moved
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_fits": {}}  # a copy, or a pickle, finds out for itself

    def extra_repr(self) -> str:
        return f"factor={self.factor:g}, samples={self.samples}"


def place_quantiles(histogram: Tensor, count: int, share: float) -> Tensor:
    r"""Return the points ``[B, count]`` of [0, 1] at the quantiles :math:`(i + 1/2)/M` of attention.

    The distribution is the histogram ``[B, bins]``, made to sum to one, with weight ``share``, and the uniform one with
    the rest. Without attention it is uniform.
    """
    bins = histogram.shape[-1]
    total = histogram.sum(-1, keepdim=True)
    attended = total > 0
    p = torch.where(attended, histogram / torch.where(attended, total, 1.0), 1 / bins)
    p = share * p + (1 - share) / bins
    after = p.cumsum(-1)
    u = cell_centres(count, 0, p.dtype, p.device)
    index = (after.unsqueeze(-2) < u.unsqueeze(-1)).sum(-1).clamp(max=bins - 1)  # the bin of each point
    mass, end = p.gather(-1, index), after.gather(-1, index)
    # Rounding of the sum may leave the last point behind the end, in a bin without mass.
    inside = 1 - (end - u) / torch.where(mass > 0, mass, 1.0)
    return ((index + inside) / bins).clamp(0, 1)
