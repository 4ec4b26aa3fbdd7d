"""A regulariser's parameter, learnt."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_above


class Alpha(torch.nn.Module):
    r"""An alpha that gradient descent can move, and that no step can push out of its interval.

    .. math:: \alpha = \mathit{low} + (\mathit{high} - \mathit{low})\, \sigma(\mathit{raw})

    Args:
        init: strictly between the bounds; a float, or one for each index, ``[size]``.
        bounds: ``(low, high)``.
        per: ``None``, one alpha for all; ``n``, one for each of n heads, axis -3 of scores ``[*, H, L, S]``; or
            ``(axis, size)``, one for each index of any axis of the scores.

    ``forward(z)`` gives alpha in a shape that broadcasts to the scores ``z``; :attr:`value` in its own.

        >>> alpha = Alpha(1.5, bounds=(1.0, 2.0), per=8)
        >>> alpha(torch.zeros(2, 8, 5, 5)).shape
        torch.Size([1, 8, 1, 1])

    Reference: Correia, Niculae & Martins (EMNLP 2019), for one learnt alpha in each head.
    """

    def __init__(
        self,
        init: float | Tensor = 1.5,
        bounds: tuple[float, float] = (1.0, 2.0),
        per: int | tuple[int, int] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ):
        super().__init__()
        self.low, self.high = _check_bounds(bounds)
        self.axis, size = _check_per(per)
        # A number is checked where it can be read, also while a network is made without memory.
        start = init.double() if isinstance(init, Tensor) else torch.tensor(init, dtype=torch.float64, device="cpu")
        if device is None and not isinstance(init, Tensor):
            device = torch.get_default_device()
        if not bool(((start > self.low) & (start < self.high)).all()):
            raise ValueError(
                f"Alpha: init must lie strictly between the bounds {self.low:g} and {self.high:g}, got {init}"
            )
        shape = () if size is None else (size,)
        if start.dim() and start.shape != shape:
            raise ValueError(f"Alpha: init must be a float or have shape {shape}, got shape {tuple(start.shape)}")
        raw = torch.logit((start - self.low) / (self.high - self.low)).expand(shape)
        self.raw = torch.nn.Parameter(raw.to(device=device, dtype=dtype or torch.get_default_dtype()).clone())

    @property
    def value(self) -> Tensor:
        """Give alpha, ``[]`` or ``[size]``; at least in single precision, lest a bound be rounded over."""
        raw = self.raw.float() if self.raw.dtype in (torch.float16, torch.bfloat16) else self.raw
        # A saturated sigmoid gives the bound itself, up to the rounding of the sum.
        return (self.low + (self.high - self.low) * raw.sigmoid()).clamp(self.low, self.high)

    def forward(self, z: Tensor) -> Tensor:
        if self.axis is None:
            return self.value
        if not -z.dim() <= self.axis < z.dim():
            raise IndexError(f"Alpha: axis {self.axis} is out of range for scores of shape {tuple(z.shape)}")
        shape = [1] * z.dim()
        shape[self.axis] = self.raw.numel()
        return self.value.reshape(shape)

    def extra_repr(self) -> str:
        per = "" if self.axis is None else f", per=({self.axis}, {self.raw.numel()})"
        return f"bounds=({self.low:g}, {self.high:g}){per}"


def hold(module: torch.nn.Module, name: str, value: object) -> None:
    """Store an argument on a module: a tensor that is not a parameter as a buffer, so that it moves along."""
    if isinstance(value, Tensor) and not isinstance(value, torch.nn.Parameter):
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)


def hold_alpha(
    module: torch.nn.Module,
    alpha: float | Tensor,
    learnable: bool,
    per: int | tuple[int, int] | None,
    bounds: tuple[float, float],
    above: float,
) -> None:
    """Store ``alpha`` on a module, as a number or as an :class:`Alpha`; all of it has to be > ``above``, or 1."""
    name = type(module).__name__
    check_above(name, "alpha", alpha, above)
    if not learnable:
        if per is not None:
            raise ValueError(f"{name}: per goes with learnable=True; without it give alpha as a tensor, got per={per}")
        hold(module, "alpha", alpha)
        return
    if above >= 1:
        check_above(name, "bounds[0]", bounds[0], above)
    module.alpha = Alpha(alpha, bounds, per)


def alpha_for(alpha: float | Tensor | Alpha, z: Tensor) -> float | Tensor:
    """Return a stored alpha as a function of the scores takes it."""
    return alpha(z) if isinstance(alpha, Alpha) else alpha


def _check_bounds(bounds: tuple[float, float]) -> tuple[float, float]:
    try:
        low, high = (float(b) for b in bounds)
    except (TypeError, ValueError):
        raise TypeError(f"Alpha: bounds must be two floats (low, high), got {bounds!r}") from None
    if not (0 < low < high < math.inf):
        raise ValueError(f"Alpha: bounds must satisfy 0 < low < high < inf, got {bounds}")
    return low, high


def _check_per(per: int | tuple[int, int] | None) -> tuple[int | None, int | None]:
    """Return axis and size; refuse what is neither a count nor such a pair."""
    if per is None:
        return None, None
    pair = (-3, per) if isinstance(per, int) else per
    if not (isinstance(pair, tuple | list) and len(pair) == 2 and all(type(number) is int for number in pair)):
        raise TypeError(f"Alpha: per must be a number of heads or a pair (axis, size), got {per!r}")
    axis, size = pair
    if size < 1:
        raise ValueError(f"Alpha: per must name at least one index, got {per}")
    return axis, size
