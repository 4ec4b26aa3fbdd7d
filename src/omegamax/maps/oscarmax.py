"""Probabilities in clusters wherever they are: a penalty on the larger of every pair, over any base map."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import apply_mask, check_scores
from omegamax._operation import Map, check_not_exporting
from omegamax.kernels.isotonic import pool_mean, pool_rank
from omegamax.maps._penalty_arguments import check_values, to_strength
from omegamax.maps.omega import Omega
from omegamax.maps.penalised import Penalised, check_base, subtract_top
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register


class Oscar(Penalised):
    r"""``base(p) + strength * sum_{i<j} max(p_i, p_j)``: the regulariser of :func:`omegamax.oscarmax`.

    Args:
        base: a map by name or its Omega, as there.
        strength: >= 0. Gradients reach it.

    The price of a pair is half the difference of its two, plus half their sum, and of all pairs together half of all
    differences plus a constant, whatever is masked.

        >>> Oscar("sparsemax", 0.25).argmax(torch.tensor([1.0, 0.25, -1.0, 0.75]))
        tensor([0.4167, 0.1667, 0.0000, 0.4167])
        >>> Oscar("sparsemax", 0.25)(torch.tensor([0.75, 0.25, 0.0, 0.0]))
        tensor(0.5000)
    """

    name = "oscarmax"

    def __init__(self, base: str | Omega = "sparsemax", strength: float | Tensor = 1.0):
        super().__init__(base, strength)

    @property
    def reach(self) -> float:
        """Give infinity: the more entries there are, the more of a lead is lost on them. See :meth:`lead`."""
        return math.inf

    @property
    def margin(self) -> float:
        """Give that of ``base`` at strength 0; above, no lead is enough for rows of every length: see :meth:`lead`."""
        return self.base.margin if self._most == 0 else math.inf

    def lead(self, size: int) -> float:
        """Return the margin for rows of ``size`` entries: that of ``base`` plus ``strength * size / 2``.

        A one-hot p has the price of ``size - 1`` pairs, which each of the others, if all are alike, would share in half
        of its pairs with them: ``(size - 2) / 2`` on average.
        """
        return self.base.margin + self._most * size / 2

    @property
    def _most(self) -> float:
        return float(self.strength.max()) if isinstance(self.strength, Tensor) else float(self.strength)

    def penalty(self, p: Tensor) -> Tensor:
        """Return ``max(p_i, p_j)`` summed over the pairs: the largest entry once for each of the others, and so on."""
        rank = torch.arange(p.shape[-1], dtype=p.dtype, device=p.device)
        if self.present is None:
            others = p.shape[-1] - 1 - rank
        else:  # masked entries have no mass, and come last
            others = self.present.sum(-1, keepdim=True) - 1 - rank
        return (p.sort(-1, descending=True).values * others).sum(-1)

    def smooth(self, z: Tensor) -> Tensor:
        return oscar_prox(z, self.strength)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return oscarmax(z, self.strength, dim, base=self.base, mask=mask)


def oscarmax(
    z: Tensor,
    strength: float | Tensor = 1.0,
    dim: int = -1,
    *,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return probabilities in clusters: a penalty on the larger of every pair, neighbours or not.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p) - \lambda \sum_{i<j} \max(p_i, p_j)

    with Omega and its domain those of ``base``. As in :func:`fusedmax` the solution is ``base`` of the scores clustered
    by :func:`oscar_prox`. As ``2 max(p_i, p_j) = p_i + p_j + |p_i - p_j|``, and probabilities have one sum, this is
    :func:`graph_fusedmax` of half the strength on the complete graph, without its K^2 edges.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it. At 0 the map is ``base``.
        base: a map whose probabilities are one non-decreasing function of their scores, by name or as an Omega:
            softmax, sparsemax, entmax, normmax, k_subsets.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: in the domain of ``base``.

        >>> oscarmax(torch.tensor([1.0, 0.25, -1.0, 0.75]), strength=0.25)
        tensor([0.4167, 0.1667, 0.0000, 0.4167])
        >>> oscarmax(torch.tensor([1.0, 0.25, -1.0, 0.75]), strength=0.25, base="softmax")
        tensor([0.3262, 0.2541, 0.0935, 0.3262])

    Reference: Niculae & Blondel (NeurIPS 2017), where oscarmax sorts the scores by magnitude: that solves this problem
    if they have one sign, and not in general.
    """
    name = "oscarmax"
    dim = check_scores(name, z, dim)
    check_not_exporting(name)
    omega = check_base(name, base)

    def solve(z: Tensor) -> Tensor:
        if getattr(omega, "at_most", False):  # to which the scores matter, not their differences only
            return omega.argmax(_prox(name, z, strength, dim), dim)
        return omega.argmax(_cluster(subtract_top(z, omega, dim), to_strength(name, strength, z, dim), dim=dim), dim)

    return _round_once(apply_mask(name, z, mask), solve)


def oscar_prox(x: Tensor, strength: float | Tensor, dim: int = -1) -> Tensor:
    r"""Apply the proximal operator of the sum of the larger of every pair: close values become equal.

    .. math:: \arg\min_w \tfrac12 \lVert w - x \rVert^2 + \lambda \sum_{i<j} \max(w_i, w_j)

    The penalty is the pairwise part of OSCAR (Bondell & Reich 2008) without the magnitudes, and so equal to it where
    no entry is negative. It is the sum of the sorted entries, the largest times K - 1 and the smallest times 0, which
    makes this isotonic regression.

    Args:
        x: values, K of them along ``dim``; ``-inf`` ones are absent, do not count and stay.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it.

    Returns:
        Like ``x``.

        >>> oscar_prox(torch.tensor([1.0, 0.75, -1.0, 0.5]), strength=0.25)
        tensor([ 0.2500,  0.2500, -1.0000,  0.2500])

    Reference: Bondell & Reich (Biometrics 2008), the penalty; Zeng & Figueiredo (2014, arXiv:1409.4271), its proximal
    operator by isotonic regression.
    """
    dim = check_values("oscar_prox", "x", x, dim)
    check_not_exporting("oscar_prox")
    return _round_once(x, lambda x: _prox("oscar_prox", x, strength, dim))


def _prox(name: str, x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    strength = to_strength(name, strength, x, dim)
    clustered = _cluster(x, strength, dim=dim)
    present = x.detach() != -math.inf
    others = present.sum(dim, keepdim=True).to(x.dtype) - 1
    return torch.where(present, clustered - strength * others, clustered)


def _round_once(z: Tensor, solve: Callable[[Tensor], Tensor]) -> Tensor:
    """Return ``solve`` in float64, rounded once (for half scores to float32 first, which autocast keeps).

    Differences of scores that went from one step to the next in float32 would have lost what makes them different.
    """
    if z.dtype in (torch.float16, torch.bfloat16):
        p = _round_once(z.float(), solve)
        return p if torch.is_autocast_enabled(z.device.type) else p.to(z.dtype)
    return solve(z.double()).to(z.dtype)


def _vjp(g: Tensor, u: Tensor, strength: float | Tensor, *, dim: int):
    return _pool(u, g, strength, dim), lambda: (g * pool_rank(u, dim)).sum(dim, keepdim=True)


def _jvp(tangents, u: Tensor, strength: float | Tensor, *, dim: int) -> Tensor:
    dz, change = tangents
    out = torch.zeros_like(u) if dz is None else _pool(u, dz, strength, dim)
    return out if change is None else out + change * pool_rank(u, dim)


def _pool(u: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Return ``J g``, the mean over each cluster. Without a penalty ties are no clusters, and J is the identity."""
    kept = torch.where(u == -math.inf, 0.0, g)
    if not isinstance(strength, Tensor):
        return pool_mean(u, g, dim) if strength > 0 else kept
    return torch.where(strength > 0, pool_mean(u, g, dim), kept)


# prox(z) + strength (K - 1).
_cluster = Map("oscar", ["strength"], partial(kernels.solve, "oscar"), _vjp, _jvp)


def _program(cp, p, omega: Oscar):
    pairs = [cp.maximum(p[i], p[j]) for i in range(p.size) for j in range(i)]
    return (cp.sum_squares(p) - 1) / 2 + omega.strength * sum(pairs)


register(
    MapRecord(
        "oscarmax",
        oscarmax,
        Oscar,
        summary="clusters of equal weights, wherever they are",
        complexity="O(K log K)",
        cite="niculae2017regularized",
        example={"strength": 0.1},
        colour="#b5651d",
        program=_program,
        learnable=Learnable("strength"),
    )
)
