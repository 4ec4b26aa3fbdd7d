"""When a pattern is retrieved exactly, from how far away, and how many patterns can be."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_interval
from omegamax._checks import check_above, readable
from omegamax._numerics import working_dtype
from omegamax.hopfield._sphere import log_cap
from omegamax.hopfield._structures import retrieves_structures
from omegamax.hopfield.steps import check_patterns, resolve_omega
from omegamax.maps import Bounded, Omega
from omegamax.structured import Factor, StructuredOmega


def lead(q: Tensor, patterns: Tensor, mask: Tensor | None = None, chosen: Tensor | None = None) -> Tensor:
    r"""Return how far a pattern is ahead of all others in the eyes of a query.

    .. math:: q^\top x_i - \max_{j \ne i} q^\top x_j

    Args:
        q: queries ``[*, L, D]``.
        patterns: ``[*, N, D]``.
        mask: which patterns are there, bool ``[*, N]``.
        chosen: sets of patterns, bool ``[M, N]``, of which the last is compared with the first outside; by default
            each pattern by itself, M = N.

    Returns:
        ``[*, L, M]``: ``inf`` where there is no other pattern, ``-inf`` for a pattern that is not there.

        >>> lead(torch.tensor([[1.0, 0.0]]), torch.tensor([[1.0, 0.0], [0.6, 0.8]]))
        tensor([[ 0.4000, -0.4000]])
    """
    check_patterns("lead", patterns, mask)
    dtype = working_dtype(patterns)
    scores = q.to(dtype) @ patterns.to(dtype).transpose(-1, -2)  # [*, L, N]
    if mask is not None:
        scores = scores.masked_fill(~mask.unsqueeze(-2), -math.inf)
    if chosen is None:
        best, at = scores.max(-1, keepdim=True)
        own = torch.arange(scores.shape[-1], device=scores.device) == at
        second = scores.masked_fill(own, -math.inf).amax(-1, keepdim=True)
        ahead = scores - torch.where(own, second, best)
        return torch.where(scores == -math.inf, -math.inf, ahead)
    if not isinstance(chosen, Tensor) or chosen.dtype != torch.bool or chosen.shape[-1:] != scores.shape[-1:]:
        given = f"{chosen.dtype} {tuple(chosen.shape)}" if isinstance(chosen, Tensor) else type(chosen).__name__
        raise ValueError(f"lead: chosen must be bool [M, N] with N = {scores.shape[-1]}, got {given}")
    each = scores.unsqueeze(-2)  # [*, L, 1, N]
    last = each.masked_fill(~chosen, math.inf).amin(-1)
    first = each.masked_fill(chosen, -math.inf).amax(-1)
    return torch.where(last == -math.inf, -math.inf, last - first)


def separation(patterns: Tensor, mask: Tensor | None = None) -> Tensor:
    r"""Return how far each pattern is from looking like another.

    .. math:: \Delta_i = x_i^\top x_i - \max_{j \ne i} x_i^\top x_j

    ``[*, N, D] -> [*, N]``; ``inf`` where there is no other. A pattern is a fixed point of exact retrieval just where
    :math:`\Delta_i` is at least :func:`threshold`.

        >>> separation(torch.tensor([[1.0, 0.0], [0.6, 0.8], [-1.0, 0.0]]))
        tensor([0.4000, 0.4000, 1.6000])

    Reference: Ramsauer et al. (ICLR 2021).
    """
    return lead(patterns, patterns, mask).diagonal(dim1=-2, dim2=-1)


def threshold(omega: str | Omega | Factor, beta: float, patterns: int | None = None) -> float:
    r"""Return the :func:`lead` from which one step retrieves a pattern exactly: ``margin / beta``.

    ``inf`` for maps without zeros, such as softmax. For entmax, normmax and k-subsets a smaller lead is never enough;
    for maps that look at neighbours it may be. A map whose margin grows with the row needs the number of ``patterns``.

        >>> threshold("entmax15", beta=4.0), threshold("normmax", beta=4.0), threshold("softmax", beta=4.0)
        (0.5, 0.25, inf)

    Reference: Santos et al. (ICML 2024).
    """
    check_above("threshold", "beta", beta, 0.0)
    omega = resolve_omega(omega)
    if getattr(omega, "at_most", False) or isinstance(omega, Bounded):
        raise ValueError(f"threshold: no lead alone makes {omega!r} choose: what it gives depends on more than gaps")
    grows = getattr(omega, "lead", None)
    margin = omega.margin if grows is None or patterns is None else grows(patterns)
    return 0.0 if beta == math.inf else margin / beta  # of softmax too, whose margin is infinite


def retrieved_exactly(
    q: Tensor,
    patterns: Tensor,
    omega: str | Omega | Factor,
    beta: float,
    mask: Tensor | None = None,
    chosen: Tensor | None = None,
) -> Tensor:
    r"""Tell whether one step takes a query to a pattern, and to nothing else: :func:`lead` at least :func:`threshold`.

    Args:
        q, patterns, mask: as in :func:`lead`.
        omega, beta: of the memory.
        chosen: the sets that k-subsets and structures retrieve (the sum of their patterns), bool ``[M, N]`` with k True
            in each row, or the parts of a structure.

    Returns:
        bool ``[*, L, M]``, one for each pattern or set. Of structures y with additional scores s by what is necessary
        and enough, that no other has a larger score once each part of y has paid 1:

        .. math:: \max_{y'} \langle \beta X q - y, y' \rangle + s(y') = \langle \beta X q - y, y \rangle + s(y)

        >>> patterns = torch.tensor([[1.0, 0.0], [0.6, 0.8]])
        >>> retrieved_exactly(torch.tensor([[1.0, 0.0]]), patterns, "sparsemax", beta=3.0)
        tensor([[ True, False]])
    """
    omega = resolve_omega(omega)
    if isinstance(omega, StructuredOmega):
        check_patterns("retrieved_exactly", patterns, mask)
        return retrieves_structures(q, patterns, omega, beta, mask, chosen)
    if chosen is None:
        _check_single("retrieved_exactly", omega, ": give them as chosen")
    elif readable(chosen) and bool((chosen.sum(-1) != omega.total).any()):
        raise ValueError(f"retrieved_exactly: each row of chosen must have {omega.total} True for {omega!r}")
    ahead = lead(q, patterns, mask, chosen)
    # Argmax has margin 0, and ties.
    return (ahead >= threshold(omega, beta, patterns.shape[-2])) & (ahead > 0)


def radius(
    patterns: Tensor, omega: str | Omega | Factor, beta: float, mask: Tensor | None = None, *, uniform: bool = False
) -> Tensor:
    r"""Return from how far away each pattern is retrieved exactly in one step, whatever the direction.

    .. math:: \epsilon_i = \min_{j \ne i} \frac{x_i^\top (x_i - x_j) - m / \beta}{\|x_i - x_j\|}
              \;\ge\; \frac{\Delta_i - m / \beta}{2 M}, \qquad M = \max_j \|x_j\|

    Args:
        uniform: the bound on the right, which needs the separation only.

    Returns:
        ``[*, N]``; below zero where the pattern itself is not retrieved, ``-inf`` for one that is not there.

        >>> radius(torch.tensor([[1.0, 0.0], [0.0, 1.0]]), "sparsemax", beta=2.0)
        tensor([0.3536, 0.3536])

    Reference: Santos et al. (ICML 2024), for the bound.
    """
    check_patterns("radius", patterns, mask)
    _check_single("radius", resolve_omega(omega))
    level = threshold(omega, beta, patterns.shape[-2])
    if uniform:
        norm = torch.linalg.vector_norm(patterns.to(working_dtype(patterns)), dim=-1)
        if mask is not None:
            norm = torch.where(mask, norm, 0.0)
        return (separation(patterns, mask) - level) / (2 * norm.amax(-1, keepdim=True))
    ahead, apart, there = _pairs(patterns, mask)
    reach = (ahead - level) / torch.where(apart > 0, apart, 1.0)
    twins = apart == 0  # no query tells them apart
    reach = torch.where(there, torch.where(twins, -math.inf, reach), math.inf).amin(-1)
    return reach if mask is None else torch.where(mask, reach, -math.inf)


def beta_for(patterns: Tensor, omega: str | Omega | Factor, radius: float = 0.0, mask: Tensor | None = None) -> Tensor:
    r"""Return the smallest beta with which every pattern is retrieved exactly in one step, also from ``radius`` away.

    .. math:: \beta = \max_{i \ne j} \frac{m}{x_i^\top (x_i - x_j) - \epsilon \|x_i - x_j\|}

    ``[*, N, D] -> [*]``; ``inf`` where none is large enough, 0 where there is one pattern only.

        >>> beta_for(torch.tensor([[1.0, 0.0], [0.6, 0.8]]), "sparsemax")
        tensor(2.5000)
    """
    check_patterns("beta_for", patterns, mask)
    _check_single("beta_for", resolve_omega(omega))
    margin = threshold(omega, 1.0, patterns.shape[-2])
    ahead, apart, there = _pairs(patterns, mask)
    least = torch.where(there, ahead - radius * apart, math.inf).flatten(-2).amin(-1)
    return torch.where(least > 0, margin / torch.where(least > 0, least, 1.0), math.inf)


def capacity(
    dimension: int,
    omega: str | Omega | Factor,
    beta: float,
    failure: float = 0.01,
    *,
    norm: float = 1.0,
    radius: float = 0.0,
) -> float:
    r"""Return how many random patterns on a sphere can be stored so that all are retrieved exactly in one step.

    Patterns further apart than the angle of :math:`\cos\theta = 1 - (m / \beta + 2 M \epsilon) / M^2` are. With A the
    part of the sphere that lies within it of a point, N patterns have a closer pair with probability at most
    :math:`\tfrac12 N (N - 1) A`, and this is kept below ``failure``: N grows as
    :math:`\sqrt{p}\, \theta^{-(D - 1) / 2}`, exponentially in the dimension.

    Args:
        dimension: D >= 2.
        omega, beta: of the memory.
        failure: p, in (0, 1).
        norm: M, the radius of the sphere.
        radius: how far from its pattern a query may be.

    Returns:
        The largest such N, an integer, as a float since it may be beyond all ints; 1 where no two can be stored.

        >>> capacity(64, "sparsemax", beta=4.0)
        248548.0
        >>> capacity(64, "softmax", beta=4.0)
        1.0

    Reference: Santos et al. (ICML 2024), with the area of a cap in place of its order of magnitude.
    """
    dimension = check_integer("capacity", "dimension", dimension, least=2)
    check_interval("capacity", "failure", failure, "(0, 1)")
    check_above("capacity", "norm", norm, 0.0)
    if not radius >= 0:
        raise ValueError(f"capacity: radius must be >= 0, got {radius!r}")
    _check_single("capacity", resolve_omega(omega))
    needed = (threshold(omega, beta) + 2 * norm * radius) / norm**2  # 1 - cos
    if needed > 2:
        return 1.0
    # N (N - 1) = 2 p / A, in logarithms.
    pairs = math.log(2 * failure) - log_cap(dimension, needed)
    if pairs > 2 * math.log(torch.finfo(torch.float64).max) - 1:
        return math.inf
    if pairs > 60:  # beyond the digits of a float the 1 is lost
        return math.exp(pairs / 2)
    return float(max(1, math.floor((1 + math.sqrt(1 + 4 * math.exp(pairs))) / 2)))


def _pairs(patterns: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``x_i (x_i - x_j)``, the distance of i and j, and whether there is such a pair, all ``[*, N, N]``."""
    x = patterns.to(working_dtype(patterns))
    gram = x @ x.transpose(-1, -2)
    ahead = gram.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) - gram
    # Not by a matmul, whose cancellation would give equal patterns a distance.
    apart = torch.cdist(x, x, compute_mode="donot_use_mm_for_euclid_dist")
    there = ~torch.eye(x.shape[-2], dtype=torch.bool, device=x.device).expand(gram.shape)
    if mask is not None:
        there = there & mask.unsqueeze(-1) & mask.unsqueeze(-2)
    return ahead, apart, there


def _check_single(name: str, omega: Omega, advice: str = "") -> None:
    """Refuse an Omega whose probabilities do not sum to one, and which retrieves several patterns at once."""
    if isinstance(omega.total, Tensor) or omega.total != 1:
        raise ValueError(f"{name}: omega must retrieve single patterns, {omega!r} retrieves sets{advice}")
