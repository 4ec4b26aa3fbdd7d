"""How sharp a map makes its probabilities, and the scale of the scores that makes another map as sharp."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import apply_mask, check_dim, check_floating
from omegamax.maps.omega import Omega
from omegamax.maps.registry import get, records

NAME = "match_sharpness"
MEASURES = ("entropy", "maximum")
Transform = str | Omega | Callable[[Tensor], Tensor]
_DOUBLINGS = 100  # of the scale, and as many halvings, before the reference counts as out of reach


@torch.no_grad()
def match_sharpness(
    z: Tensor,
    transform: Transform,
    reference: Transform | Tensor = "softmax",
    *,
    dim: int | tuple[int, ...] = -1,
    measure: str = "entropy",
    mask: Tensor | None = None,
) -> float:
    r"""Return the scale of the scores at which a map is as sharp as another one is over the scores themselves.

    .. math:: s > 0: \quad \frac1N \sum_{n=1}^N H\bigl(\hat p(s z_n)\bigr) = \frac1N \sum_{n=1}^N H\bigl(q(z_n)\bigr)

    for the N rows of ``z``, with Shannon's entropy H of probabilities that are divided by their sum. Scores learnt with
    softmax are far apart, and a sparse map over them gives nearly all weight to one entry; over ``s * z`` it spreads as
    softmax did. The mean entropy is found by bisection, to the last bits of double precision. It falls with s
    wherever each probability is one non-decreasing function of its own score (softmax, sparsemax, entmax, normmax,
    k-subsets), since the probabilities at a larger s majorise those at a smaller one; so s is the only one.

    Args:
        z: scores, ``-inf`` where masked; a row that is not finite otherwise, or has no entry left, does not count.
        transform: the map that takes over: its name, an Omega, or a function of the scores such as a Module.
        reference: the map q that the scores were learnt with, likewise; or its probabilities, shaped like ``z``.
        dim: axis of a row; for an image, such as those of tvmax, ``(-2, -1)``.
        measure: ``"entropy"``, or ``"maximum"`` for the largest probability of a row in place of H.
        mask: bool, True keeps an entry.

    Raises:
        ValueError: if no scale will do: the probabilities of k-subsets, divided by k, are at most 1/k. There
            ``reference`` has to be of the same kind, such as :func:`~omegamax.constrained_softmax` with that bound.

        >>> z = 8 * torch.randn(100, 20, generator=torch.Generator().manual_seed(0))
        >>> s = match_sharpness(z, "sparsemax")
        >>> round(s, 3)
        0.22
        >>> p, q = torch.softmax(z, -1), get("sparsemax").argmax(s * z)
        >>> torch.special.entr(p).sum(-1).mean(), torch.special.entr(q).sum(-1).mean()
        (tensor(0.4187), tensor(0.4187))
    """
    check_choice(NAME, "measure", measure, MEASURES)
    dims = _check_dims(check_floating(NAME, "z", z), dim)
    z = apply_mask(NAME, z, mask).double()
    if isinstance(reference, Tensor) and reference.shape != z.shape:
        given = f"{tuple(reference.shape)} for {tuple(z.shape)}"
        raise ValueError(f"{NAME}: reference must be a map, or probabilities shaped like z, got shape {given}")
    wanted = reference.double() if isinstance(reference, Tensor) else _apply(reference, z, dims)
    counts = (z.isfinite() | z.isneginf()).all(dims) & z.isfinite().any(dims)
    if not bool(counts.any()):
        raise ValueError(f"{NAME}: z must have a row of finite scores, got none in shape {tuple(z.shape)}")
    target = _mean(wanted, dims, counts, measure)
    if not math.isfinite(target):
        raise ValueError(f"{NAME}: reference must give finite probabilities that do not sum to 0, got others")

    def sharper(s: float) -> float:
        """Return by how much the map at this scale is sharper than the reference."""
        found = _mean(_apply(transform, s * z, dims), dims, counts, measure)
        return target - found if measure == "entropy" else found - target

    return _find_root(sharper, measure, target)


def _find_root(sharper: Callable[[float], float], measure: str, target: float) -> float:
    """Return where a function that rises with the scale is zero: the end of a bisection of its logarithm."""
    at_one = sharper(1.0)
    if abs(at_one) <= 16 * torch.finfo(torch.float64).eps * max(1.0, abs(target)):
        return 1.0
    step = -1 if at_one > 0 else 1
    for doublings in range(1, _DOUBLINGS + 1):
        far = sharper(2.0 ** (step * doublings))
        if far == 0 or (far > 0) != (at_one > 0):
            break
    else:
        word = "sharp" if step > 0 else "even"
        raise ValueError(
            f"{NAME}: no scale of the scores makes transform as {word} as the reference, whose mean {measure} is "
            f"{target:.6g}; the closest is {abs(far):.6g} away"
        )
    low, high = sorted((float(step * doublings), float(step * (doublings - 1))))
    while True:
        middle = (low + high) / 2
        if not low < middle < high:
            return 2.0**middle
        if sharper(2.0**middle) < 0:
            low = middle
        else:
            high = middle


def _mean(p: Tensor, dims: tuple[int, ...], counts: Tensor, measure: str) -> float:
    p = p.double()
    p = p / p.sum(dims, keepdim=True)
    each = torch.special.entr(p).sum(dims) if measure == "entropy" else p.amax(dims)
    return float(each[counts].mean())


def _apply(transform: Transform, z: Tensor, dims: tuple[int, ...]) -> Tensor:
    if isinstance(transform, str | Omega):
        omega = get(transform)
        record = records().get(omega.name)
        if len(dims) == 1 or (record is not None and record.image and getattr(omega, "shape", None) is None):
            return omega.argmax(z) if len(dims) > 1 else omega.argmax(z, dims[0])
        rows = z.movedim(dims, tuple(range(-len(dims), 0)))
        p = omega.argmax(rows.flatten(-len(dims))).unflatten(-1, rows.shape[-len(dims) :])
        return p.movedim(tuple(range(-len(dims), 0)), dims)
    if not callable(transform):
        raise TypeError(
            f"{NAME}: transform must be a map's name, an Omega or a function, got {type(transform).__name__}"
        )
    p = transform(z)
    if not isinstance(p, Tensor) or p.shape != z.shape:
        given = f"shape {tuple(p.shape)}" if isinstance(p, Tensor) else type(p).__name__
        raise ValueError(f"{NAME}: transform must give probabilities of shape {tuple(z.shape)}, got {given}")
    return p


def _check_dims(z: Tensor, dim: int | tuple[int, ...]) -> tuple[int, ...]:
    dims = dim if isinstance(dim, tuple) else (dim,)
    return tuple(check_dim(NAME, z, each) for each in dims)
