"""Value functions: ridge regression of values on basis functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from omegamax._arguments import check_number, check_type
from omegamax._checks import check_matrices, is_plain
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.basis._base import Basis
from omegamax.basis._ridge_cache import OperatorCache
from omegamax.basis._ridge_report import RidgeReport, condition_number, measure_errors
from omegamax.basis.grid import F64, Size, find_grid, grid_positions
from omegamax.basis.positions import BatchPositions, Lengths, Positions

# Largest condition number at which the normal equations, solved in double precision, are as good as the dtype asked
# for. Beyond it the singular values of the design itself are used, whose condition number is the root of this one.
_NORMAL_EQUATIONS = {torch.float64: 1e6, torch.float32: 1e9}


class RidgeFit(torch.nn.Module):
    r"""Coefficients B of the value function :math:`V(t) = B^\top \psi(t)` that best fits values at L positions.

    .. math:: B = \arg\min_B \sum_l \|B^\top \psi(t_l) - v_l\|^2 + \lambda \|B\|_F^2
                = (F F^\top + \lambda I)^{-1} F V, \qquad F = [\psi(t_1), ..., \psi(t_L)]

    The matrix in front of V is computed in double precision and kept, for each size, dtype and device that was met;
    a call is then one matrix product. There are no parameters, and nothing in the state dict.

    Args:
        basis: J functions of a point in n dimensions.
        positions: where the values are. An int L or a tuple ``(H, W)``: the cell centres of a regular grid,
            :func:`grid_positions`. A tensor ``[L, n]``: these points. None: they come with each call (in one
            dimension, if none come, L regular cells for L values).
        penalty: :math:`\lambda \ge 0`. With 0, or one that rounding swallows, coefficients have the least norm among
            the best. The right size of a penalty goes with the square of the basis functions.
        padding: fit zeros around the unit cube as well, on a grid of the same spacing that reaches half a side beyond
            it: :math:`\lfloor k/2 \rfloor` more cells on either side of an axis with k. V then falls to 0 beyond the
            border. For regular grids only: their size, or the tensor that :func:`grid_positions` makes of it.
        mean: divide the sum of squares by the number of values, so that the penalty weighs the same for any number of
            them: coefficients of the same signal then converge as it is observed at more and more positions.

    ``fit(values [*, L, D])`` gives coefficients ``[*, J, D]``, in the dtype of the values; half precision is computed
    in single. Further arguments, for batches that are not all alike:

    * ``lengths``: for regular grids the size of each example, ``[*]`` in one dimension, ``[*, n]`` in n, in array
      order ``(H, W)``; an example's values are the first of its rows, spread over the whole of the unit cube. For
      fixed points, how many of the first are there, ``[*]``. Rows behind are ignored, whatever they hold. An int or a
      tuple counts for the whole batch. On a GPU, lengths that stay on the CPU save a synchronisation.
    * ``positions [*, L, n]``: those of each example, differentiable; solved anew in each call, so slower.
    * ``mask [*, L]``: True where there is a value; also solved anew.

        >>> from omegamax.basis import GaussianRBF, RidgeFit
        >>> basis = GaussianRBF.grid(8, 1, variance=0.01)
        >>> fit = RidgeFit(basis, 20)
        >>> values = torch.linspace(0, 1, 20).sin().unsqueeze(-1)
        >>> coefficients = fit(values)
        >>> coefficients.shape
        torch.Size([8, 1])
        >>> print(fit.report(values))
        ridge fit of 8 functions to 20 positions, penalty 0.01
          rmse                0.00709
          relative error      0.01347
          maximum error       0.02043
          degrees of freedom  7.992
          condition number    52.5

    References: Martins et al. (NeurIPS 2020), Eq. 16; padding: Farinhas, "Visual attention with sparse and continuous
    transformations" (thesis, 2021), Eq. 3.17 and the second footnote of Ch. 6.
    """

    def __init__(
        self,
        basis: Basis,
        positions: int | tuple[int, ...] | Tensor | None = None,
        penalty: float = 0.01,
        padding: bool = False,
        *,
        mean: bool = False,
    ):
        super().__init__()
        check_type("RidgeFit", "basis", basis, Basis)
        penalty = check_number("RidgeFit", "penalty", penalty, least=0)
        if padding and isinstance(positions, Tensor):
            positions = find_grid(positions, basis.dimension)
            if positions is None:
                raise ValueError("RidgeFit: padding needs a regular grid, got positions of which the tensor holds none")
        self.basis = basis
        self._positions = Positions(positions, basis.dimension)
        self.penalty = penalty
        self.padding = bool(padding)
        self.mean = bool(mean)
        self._cache = OperatorCache()

    @property
    def positions(self) -> Tensor | None:
        """Return the positions given at construction, ``[L, n]``, float64; None if they come with each call."""
        given = self._positions
        if given.points is None and given.size is None:
            return None
        return given.inside(given.full_size(given.width(None, None)), self._home(torch.device("cpu")))

    def forward(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return coefficients ``[*, J, D]`` of values ``[*, L, D]``."""
        check_matrices("RidgeFit", "values", values, "[*, L, D]")
        dtype, device = working_dtype(values), values.device
        where = self.locate("RidgeFit", lengths, positions, mask, values.shape[-2], device)
        operator = self._operator(where, dtype, device)
        batch = _check_agreement("values", values, operator, where)
        kept = values.to(dtype)
        if where.present is not None:  # a zero column would not stop a NaN
            kept = torch.where(where.present.unsqueeze(-1), kept, 0.0)
        with disable_autocast(device):
            coefficients = (operator @ kept).to(values.dtype)
        return coefficients.expand(*batch, *coefficients.shape[-2:])

    def fit(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Tensor:
        """Return the same as calling the module."""
        return self(values, lengths, positions=positions, mask=mask)

    def reconstruct(
        self,
        coefficients: Tensor,
        positions: Tensor | int | tuple[int, ...] | None = None,
        *,
        lengths: Lengths | None = None,
    ) -> Tensor:
        """Return the value function ``[*, L, D]`` with coefficients ``[*, J, D]``, at positions ``[*, L, n]``.

        Args:
            positions: a tensor, or the size of a regular grid; by default the positions given at construction.
            lengths: of each example, as for the fit; rows behind are zero.
        """
        check_matrices("RidgeFit", "coefficients", coefficients, f"[*, {len(self.basis)}, D]", len(self.basis))
        device, dtype = coefficients.device, working_dtype(coefficients)
        if positions is not None and not isinstance(positions, Tensor):
            positions = grid_positions(self._positions.grid_size(positions), dtype=F64, device=device)
        width = self._positions.width(lengths, positions)
        where = self.locate("RidgeFit", lengths, positions, None, width, device)
        design = self._design(where.stack(device), where.present).to(dtype)
        _check_agreement("coefficients", coefficients, design, where)
        with disable_autocast(device):
            return (design @ coefficients.to(dtype)).to(coefficients.dtype)

    @torch.no_grad()
    def report(
        self,
        values: Tensor,
        lengths: Lengths | None = None,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> RidgeReport:
        """Tell how well the fit reproduces the values, and how hard it was; arguments as for the fit."""
        coefficients = self(values, lengths, positions=positions, mask=mask)
        device = values.device
        where = self.locate("RidgeFit", lengths, positions, mask, values.shape[-2], device)
        design = self._design(where.stack(device), where.present)
        if where.fixed and where.sizes is not None:
            known = {s: self._difficulty(*self._rows(s, device)) for s in dict.fromkeys(where.sizes)}
            hard = torch.tensor([known[s] for s in where.sizes], dtype=F64)
        else:
            hard = torch.stack(self._difficulty(design, None, where.present), -1)
        return RidgeReport(
            **measure_errors(values, design @ coefficients.to(F64), where.present),
            degrees_of_freedom=hard[..., 1].mean().item(),
            condition=hard[..., 0].max().item(),
            functions=len(self.basis),
            penalty=self.penalty,
        )

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
        """Return the matrix that takes values to coefficients, ``[J, L]``, or ``[*, J, L]`` for examples that differ.

        ``operator @ values`` are the coefficients. Columns of absent positions are zero (the values there must still be
        finite). Once known it is looked up, unless ``positions`` or ``mask`` are given.

        Args:
            width: L, the number of columns; by default that of the positions given at construction, or of the longest
                example.
            dtype: float32 or float64.
            device: by default that of ``positions`` or of the basis.
        """
        if width is None:
            width = self._positions.width(lengths, positions)
        if device is None:
            device = self._home(torch.device("cpu")) if positions is None else positions.device
        device = torch.device(device)
        return self.operator_at(self.locate("RidgeFit", lengths, positions, mask, width, device), dtype, device)

    def locate(
        self,
        name: str,
        lengths: Lengths | None,
        positions: Tensor | None,
        mask: Tensor | None,
        width: int,
        device: torch.device,
    ) -> BatchPositions:
        """Return where the ``width`` values of each example are, given the arguments of one call of ``name``."""
        return self._positions.locate(name, lengths, positions, mask, width, device)

    def operator_at(self, where: BatchPositions, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return :meth:`operator` for positions from :meth:`locate`."""
        if dtype not in (torch.float32, F64):
            raise TypeError(f"RidgeFit: dtype must be torch.float32 or torch.float64, got {dtype}")
        operator = self._operator(where, dtype, device)
        if where.batch and operator.dim() == 2:  # all of one size
            operator = operator.expand(*where.batch, *operator.shape)
        return operator

    def extra_repr(self) -> str:
        return f"penalty={self.penalty:g}, padding={self.padding}{', mean=True' * self.mean}"

    def _operator(self, where: BatchPositions, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return the operator, without a batch where all examples are of one size."""
        live = self._is_live()
        if not where.fixed or (where.sizes is None and (live or where.counts is None)):
            if self.padding:
                raise ValueError("RidgeFit: padding needs a regular grid, got positions or a mask in the call")
            design = self._design(where.stack(device), where.present)
            operator = self._solve(design, None, where.present, dtype).to(dtype)
            return operator if where.present is None else torch.where(where.present.unsqueeze(-2), operator, 0.0)
        if where.sizes == []:
            return torch.zeros(*where.batch, len(self.basis), where.width, dtype=dtype, device=device)

        def solve(size: Size) -> Tensor:
            return self._solve(*self._rows(size, device), None, dtype).to(device, dtype)

        def solve_once(size: Size) -> Tensor:
            """Return an operator to keep: of use to a later call with gradients, whatever the mode of this one."""
            with torch.inference_mode(False), torch.no_grad():
                return solve(size)

        if live:
            return OperatorCache().find(where, None, solve)
        return self._cache.find(where, (dtype, device, self.penalty, self.padding, self.mean), solve_once)

    def _rows(self, size: Size, device: torch.device) -> tuple[Tensor, Tensor | None]:
        """Return the basis at an example of this size, ``[l, J]``, and where zeros are fitted, ``[m, J]``."""
        home = self._home(device)
        outside = self._design(self._positions.outside(size, home), None) if self.padding else None
        return self._design(self._positions.inside(size, home), None), outside

    def _design(self, points: Tensor, present: Tensor | None) -> Tensor:
        """Return the basis at positions ``[*, L, n]``, 0 at absent ones; ``[*, L, J]``, float64."""
        if present is None:
            return self.basis(points).to(F64)
        # The basis sees a harmless point in place of an absent one, which may be NaN.
        design = self.basis(torch.where(present.unsqueeze(-1), points, 0.5)).to(F64)
        return torch.where(present.unsqueeze(-1), design, 0.0)

    def _solve(self, design: Tensor, outside: Tensor | None, present: Tensor | None, dtype: torch.dtype) -> Tensor:
        """Return the operator ``[*, J, L]`` for these rows ``[*, L, J]``."""
        if not self.mean:
            return solve_ridge(design, outside, self.penalty, dtype)
        # A sum of squares over L is one of what is divided by the root of L.
        w = _root_of_count(design, present)
        return w * solve_ridge(w * design, None if outside is None else w * outside, self.penalty, dtype)

    def _difficulty(
        self, design: Tensor, outside: Tensor | None, present: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Return condition number and degrees of freedom, ``[*]`` each, of a fit with these rows ``[*, L, J]``."""
        rows = design if outside is None else torch.cat([design, outside])
        rows = _root_of_count(design, present) * rows if self.mean else rows
        operator = self._solve(design, outside, present, design.dtype)
        return condition_number(rows, self.penalty), (design * operator.mT).sum((-2, -1))

    def _home(self, otherwise: torch.device) -> torch.device:
        """Return the device of the basis."""
        tensor = next(self.basis.buffers(), next(self.basis.parameters(), None))
        return otherwise if tensor is None else tensor.device

    def _is_live(self) -> bool:
        """Tell whether operators change from call to call, or are differentiated: nothing may then be kept."""
        points = self._positions.points
        return (points is not None and points.requires_grad) or next(self.basis.parameters(), None) is not None

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RidgeFit:
        self._cache.clear()  # the basis is about to be rounded or moved
        return super()._apply(fn, recurse)

    def __getstate__(self) -> dict:
        return {**self.__dict__, "_cache": OperatorCache()}  # a copy, or a pickle, finds out for itself


def solve_ridge(design: Tensor, outside: Tensor | None, penalty: float, dtype: torch.dtype) -> Tensor:
    r"""Return the matrix :math:`(F F^\top + F_0 F_0^\top + \lambda I)^{-1} F` that takes values to coefficients.

    It is ``[*, J, L]``. Where that has no inverse, to rounding, it is the limit of a vanishing penalty: coefficients of
    the least norm.

    Args:
        design: :math:`F^\top`, the basis at the observed positions, ``[*, L, J]``, float64.
        outside: :math:`F_0^\top`, the basis where zeros are observed, ``[M, J]``.
        dtype: in which the result will be used.
    """
    rows = design if outside is None else torch.cat([design, outside.expand(*design.shape[:-2], *outside.shape)], -2)
    count, functions = rows.shape[-2:]
    if penalty > 0:
        # (F F' + c I)^-1 F = F (F' F + c I)^-1: the smaller of the two systems.
        dual = outside is None and count < functions
        gram = rows @ rows.mT if dual else rows.mT @ rows
        if not _is_stiff(gram, penalty * _NORMAL_EQUATIONS[dtype]):
            eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
            root = torch.linalg.cholesky_ex(gram + penalty * eye)[0]
            return torch.cholesky_solve(design, root).mT if dual else torch.cholesky_solve(design.mT, root)
        eye = torch.eye(functions, dtype=rows.dtype, device=rows.device)
        rows = torch.cat([rows, penalty**0.5 * eye.expand(*rows.shape[:-2], functions, functions)], -2)
    return torch.linalg.pinv(rows)[..., : design.shape[-2]]


def _root_of_count(design: Tensor, present: Tensor | None) -> Tensor:
    """Return 1 over the root of the number of rows ``[*, L, J]`` that are present, ``[*, 1, 1]``."""
    if present is None:
        return design.new_full((1, 1), max(design.shape[-2], 1)).rsqrt()
    return present.sum(-1)[..., None, None].clamp(min=1).to(design.dtype).rsqrt()


def _is_stiff(gram: Tensor, limit: float) -> bool:
    """Tell whether the largest eigenvalue may be beyond ``limit``; NaN is not, nor what cannot be read."""
    if not is_plain(gram) or gram.numel() == 0:
        return False
    return bool(gram.detach().abs().sum(-1).amax() > limit)


def _check_agreement(argument: str, values: Tensor, operator: Tensor, where: BatchPositions) -> Sequence[int]:
    """Return the batch of the result; refuse positions of other examples than the values are."""
    batch, own = values.shape[:-2], operator.shape[:-2] or where.batch  # one operator serves examples of one size
    if not all(a == b or 1 in (a, b) for a, b in zip(reversed(batch), reversed(own), strict=False)):
        raise ValueError(
            f"RidgeFit: lengths, positions and mask must agree with {argument} of shape {tuple(values.shape)}, "
            f"got a batch of shape {tuple(own)}"
        )
    return torch.broadcast_shapes(batch, tuple(own))
