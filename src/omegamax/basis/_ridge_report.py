"""How well a ridge fit reproduces the values it was given."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor


@dataclass(frozen=True)
class RidgeReport:
    r"""Errors of the value function at the observed positions, and how hard the fit was.

    ``print`` shows it as a small table. With :math:`\hat v` the fitted value at each of the positions present:

    * ``rmse``: root of the mean of :math:`(\hat v - v)^2` over all entries; ``each_rmse [*]`` by example.
    * ``relative_error``: :math:`\|\hat V - V\|_F / \|V\|_F`; ``each_relative_error [*]`` by example; 0 for V = 0.
    * ``maximum_error``: the largest :math:`|\hat v - v|`.
    * ``degrees_of_freedom``: the trace of the map from values to fitted values, averaged over examples; at most the
      number of functions and that of positions.
    * ``condition``: the condition number of :math:`F F^\top + \lambda I`, the largest over examples.
    * ``functions``, ``positions`` (present, averaged over examples), ``penalty``: the setting.
    """

    rmse: float
    relative_error: float
    maximum_error: float
    degrees_of_freedom: float
    condition: float
    functions: int
    positions: float
    penalty: float
    each_rmse: Tensor = field(repr=False)
    each_relative_error: Tensor = field(repr=False)

    def __str__(self) -> str:
        lines = [
            f"ridge fit of {self.functions} functions to {self.positions:g} positions, penalty {self.penalty:g}",
            f"  rmse                {self.rmse:.4g}",
            f"  relative error      {self.relative_error:.4g}",
            f"  maximum error       {self.maximum_error:.4g}",
            f"  degrees of freedom  {self.degrees_of_freedom:.4g}",
            f"  condition number    {self.condition:.4g}",
        ]
        if self.each_rmse.numel() > 1:
            lines[1] += f"  (by example {self.each_rmse.min():.4g} to {self.each_rmse.max():.4g})"
            each = self.each_relative_error
            lines[2] += f"  (by example {each.min():.4g} to {each.max():.4g})"
        return "\n".join(lines)


def measure_errors(values: Tensor, fitted: Tensor, present: Tensor | None) -> dict:
    """Return those fields of a report that tell how far ``fitted`` is from ``values``, both ``[*, L, D]``."""
    values = values.to(fitted.dtype)
    if present is None:
        present = torch.ones(fitted.shape[:-1], dtype=torch.bool, device=fitted.device)
    here = present.unsqueeze(-1).expand(fitted.shape)
    off = torch.where(here, fitted - values, 0.0)
    values = torch.where(here, values, 0.0)
    count, wrong, size = (x.sum((-2, -1)) for x in (here, off.square(), values.square()))
    return {
        "rmse": (wrong.sum() / count.sum().clamp(min=1)).sqrt().item(),
        "relative_error": _ratio(wrong.sum(), size.sum()).item(),
        "maximum_error": off.abs().max().item() if off.numel() else 0.0,
        "positions": here[..., 0].sum(-1).double().mean().item() if here.shape[-1] else 0.0,
        "each_rmse": (wrong / count.clamp(min=1)).sqrt(),
        "each_relative_error": _ratio(wrong, size),
    }


def condition_number(rows: Tensor, penalty: float) -> Tensor:
    r"""Return that of :math:`F F^\top + \lambda I`, ``[*]``, for ``rows [*, L, J]`` :math:`F^\top`; inf if singular."""
    count, functions = rows.shape[-2:]
    squares = torch.linalg.svdvals(rows).square()
    if count == 0:
        squares = rows.new_zeros(*rows.shape[:-2], 1)
    # Below this a singular value is rounding.
    floor = (max(count, functions) * torch.finfo(rows.dtype).eps) ** 2 * squares[..., 0]
    least = squares[..., -1] if count >= functions else torch.zeros_like(floor)
    least = torch.where(least <= floor, 0.0, least)
    return (squares[..., 0] + penalty) / (least + penalty)


def _ratio(wrong: Tensor, size: Tensor) -> Tensor:
    return (wrong / torch.where(size > 0, size, 1.0)).sqrt()
