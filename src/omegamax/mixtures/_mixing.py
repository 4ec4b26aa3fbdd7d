"""Mixing weights from masses: as they are, or sparse, so that the number of components varies by itself."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from omegamax import functional
from omegamax._arguments import is_number
from omegamax._numerics import tsallis_log
from omegamax.maps import Omega, Shannon, Tsallis, get

Mix = Callable[[Tensor], Tensor]


def make_mixing(name: str, mixing: str | Omega | None, discount: float) -> Mix | None:
    """Return the M-step of the weights for these arguments of the function ``name``."""
    if not is_number(discount) or not 0 <= discount < 1:
        raise ValueError(f"{name}: discount must be a number in [0, 1), got {discount!r}")
    if mixing is None:
        return None
    omega = get(mixing)
    if isinstance(omega, Shannon):
        return partial(sharpen, alpha=1.0, discount=float(discount))
    if not isinstance(omega, Tsallis) or isinstance(omega.alpha, Tensor) or not 1 <= omega.alpha < float("inf"):
        raise ValueError(f"{name}: mixing must be softmax, sparsemax or entmax with a float alpha >= 1, got {mixing!r}")
    return partial(sharpen, alpha=float(omega.alpha), discount=float(discount))


def sharpen(mass: Tensor, alpha: float, discount: float) -> Tensor:
    r"""Apply the map of the family to the scores that it would give the masses for, after these are scaled up.

    .. math:: \pi = \operatorname{entmax}_\alpha\Bigl( \frac{\nabla \Omega_\alpha(N)}{1 - \delta} \Bigr)

    With :math:`\delta = 0` these are the masses. At alpha = 2 it is :math:`[N - c]_+ / (1 - \delta)` with c such that
    what is taken from the masses adds up to :math:`\delta`: the same from each component, and all of those that have
    less than that. A fixed point maximises :math:`J - c \sum_k \log \pi_k` over the components that are left.
    """
    alive = mass > 0
    if alpha == 2:  # its gradient, but for a constant, is the argument
        scores = mass / (1 - discount)
    else:
        scores = torch.where(alive, tsallis_log(mass, alpha), 0.0) / (1 - discount)
    return functional.entmax(scores, alpha, -1, mask=alive)


def annihilate(mass: Tensor, cost: Tensor) -> Tensor:
    r"""Return ``[N - c]_+`` made to sum to one: a component must be worth its own parameters. ``cost`` is ``[*]``.

    If none is, the largest stays.

    Reference: Figueiredo and Jain (2002), Unsupervised learning of finite mixture models.
    """
    kept = (mass - cost.unsqueeze(-1)).clamp(min=0)
    total = kept.sum(-1, keepdim=True)
    largest = torch.zeros_like(mass).scatter(-1, mass.argmax(-1, keepdim=True), 1.0)
    return torch.where(total > 0, kept / torch.where(total > 0, total, 1.0), largest)
