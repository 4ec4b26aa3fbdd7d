"""Maps whose probabilities stay within given bounds."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import check_bounds, check_scores, entry_parameter
from omegamax.functional._map import Map
from omegamax.functional._mask import masked
from omegamax.kernels.jacobians import centred


def _softmax_parts(p: Tensor, upper: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    """Which entries sit at their bound, and the probabilities of the others as shares of what is left."""
    capped = p >= upper
    free = torch.where(capped, 0.0, p)
    mass = free.sum(dim, keepdim=True)
    return capped, free / torch.where(mass > 0, mass, 1.0)


def _softmax_vjp(g: Tensor, p: Tensor, upper: Tensor, *, dim: int):
    capped, share = _softmax_parts(p, upper, dim)
    moved = g - (share * g).sum(dim, keepdim=True)
    # With every entry at its bound nothing can move.
    stuck = capped.all(dim, keepdim=True)
    return torch.where(capped, 0.0, p * moved), lambda: torch.where(capped & ~stuck, moved, 0.0)


def _softmax_jvp(tangents, p: Tensor, upper: Tensor, *, dim: int) -> Tensor:
    dz, du = tangents
    capped, share = _softmax_parts(p, upper, dim)
    out = torch.zeros_like(p)
    if dz is not None:
        out = torch.where(capped, 0.0, p * (dz - (share * dz).sum(dim, keepdim=True)))
    if du is not None:
        taken = torch.where(capped & ~capped.all(dim, keepdim=True), du, 0.0)
        out = out + taken - share * taken.sum(dim, keepdim=True)
    return out


def _sparsemax_parts(p: Tensor, upper: Tensor, lower: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Which entries are free, at their upper and at their lower bound; no bound moves anything if none is free."""
    free = (p > lower) & (p < upper)
    some = free.any(dim, keepdim=True)
    return free, some & (p >= upper) & (upper > lower), some & (p <= lower)


def _sparsemax_vjp(g: Tensor, p: Tensor, upper: Tensor, lower: Tensor, *, dim: int):
    free, high, low = _sparsemax_parts(p, upper, lower, dim)
    moved = centred(g, free, dim)
    return (
        torch.where(free, moved, 0.0),
        lambda: torch.where(high, moved, 0.0),
        lambda: torch.where(low, moved, 0.0),
    )


def _sparsemax_jvp(tangents, p: Tensor, upper: Tensor, lower: Tensor, *, dim: int) -> Tensor:
    dz, du, dl = tangents
    free, high, low = _sparsemax_parts(p, upper, lower, dim)
    push = torch.zeros_like(p)
    for part, tangent in ((free, dz), (high, du), (low, dl)):
        if tangent is not None:
            push = torch.where(part, tangent, push)
    count = free.sum(dim, keepdim=True).clamp(min=1)
    return push - torch.where(free, push.sum(dim, keepdim=True) / count, 0.0)


def _solve_sparsemax(z: Tensor, upper: Tensor, lower: Tensor, dim: int) -> Tensor:
    one = z.new_ones((1,) * z.dim(), dtype=torch.float64)
    return kernels.solve("box_simplex", z, lower, upper, one, dim)


_softmax = Map(
    "constrained_softmax",
    ["upper"],
    partial(kernels.solve, "capped_softmax"),
    _softmax_vjp,
    _softmax_jvp,
    numbers=False,
)
_sparsemax = Map("constrained_sparsemax", ["upper", "lower"], _solve_sparsemax, _sparsemax_vjp, _sparsemax_jvp)


def constrained_softmax(z: Tensor, upper: float | Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Softmax with a ceiling on each probability.

    .. math:: \arg\max_{p \in \Delta,\; p \le u} \langle p, z \rangle - \sum_i p_i \log p_i
              = \min(u, c \exp z)

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        upper: the ceilings, a float or a tensor broadcastable to ``z``; at least 1 in total. Gradients reach it.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: in [0, upper], summing to one along ``dim``.

        >>> constrained_softmax(torch.tensor([2.0, 1.0, 0.0]), upper=0.5)
        tensor([0.5000, 0.3655, 0.1345])

    Reference: Martins & Kreutzer (EMNLP 2017), Sec. 4.1.
    """
    name = "constrained_softmax"
    dim = check_scores(name, z, dim)
    upper = entry_parameter(name, "upper", upper, z)
    z = masked(name, z, mask)
    check_bounds(name, z, upper, None, dim)
    return _softmax(z, upper, dim=dim)


def constrained_sparsemax(
    z: Tensor,
    upper: float | Tensor,
    dim: int = -1,
    *,
    lower: float | Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Sparsemax with a ceiling, and if wanted a floor, on each probability.

    .. math:: \arg\max_{p \in \Delta,\; l \le p \le u} \langle p, z \rangle - \tfrac12 \lVert p \rVert^2
              = \mathrm{clip}(z - \tau(z), l, u)

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry (its floor then counts for nothing).
        upper: the ceilings, a float or a tensor broadcastable to ``z``; at least 1 in total. Gradients reach it.
        lower: the floors, likewise, at most 1 in total; none by default. Gradients reach it.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: in [lower, upper], summing to one along ``dim``.

        >>> constrained_sparsemax(torch.tensor([2.0, 1.0, 0.0]), upper=0.75)
        tensor([0.7500, 0.2500, 0.0000])
        >>> constrained_sparsemax(torch.tensor([2.0, 1.0, 0.0]), upper=0.75, lower=0.125)
        tensor([0.7500, 0.1250, 0.1250])

    Reference: Malaviya, Ferreira & Martins (ACL 2018), Prop. 1; the scan is Pardalos & Kovoor (1990).
    """
    name = "constrained_sparsemax"
    dim = check_scores(name, z, dim)
    upper = entry_parameter(name, "upper", upper, z)
    floor = entry_parameter(name, "lower", 0.0 if lower is None else lower, z)
    z = masked(name, z, mask)
    check_bounds(name, z, upper, floor, dim)
    if lower is not None:
        gone = z == -math.inf
        upper, floor = torch.where(gone, 0.0, upper), torch.where(gone, 0.0, floor)
    return _sparsemax(z, upper, floor, dim=dim)
