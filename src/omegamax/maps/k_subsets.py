"""A budget of k ones: SparseMAP over the subsets of size k."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import apply_mask, check_scores
from omegamax._map_parameters import check_budget, row_parameter
from omegamax._numerics import working_dtype
from omegamax._operation import Map, solve_vjp
from omegamax.kernels import export
from omegamax.kernels.bounds import k_subsets_vjp
from omegamax.maps.omega import Omega
from omegamax.maps.record import MapRecord
from omegamax.maps.registry import register


class KSubsets(Omega):
    r"""``1/2 ||p||^2`` on ``{0 <= p <= 1, sum p = k}``: SparseMAP over the subsets of size k.

    Args:
        k: size of the subsets, a number or a tensor with size 1 along the axis of normalisation. Gradients reach it.
        at_most: let smaller subsets in.

        >>> KSubsets(2).argmax(torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0]))
        tensor([0.8750, 0.6250, 0.3750, 0.1250, 0.0000])
    """

    keeps_order = True
    name = "k_subsets"
    margin = 1.0

    def __init__(self, k: float | Tensor, at_most: bool = False):
        check_budget("KSubsets", k, math.inf, at_most)
        self.k = k
        self.at_most = at_most

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.k,)

    def with_parameters(self, *parameters: float | Tensor) -> KSubsets:
        (k,) = parameters
        return KSubsets(k, self.at_most)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        # One more unit of mass is worth the threshold; nothing, where more is allowed than there are entries, or
        # than is wanted.
        tau = threshold(z, p, 0.0, 1.0)
        left = (z != -math.inf).sum(-1, keepdim=True)
        if self.at_most:
            tau, left = tau.clamp(min=0), torch.where(((p > 0) & (p < 1)).any(-1, keepdim=True), left, p.sum(-1, True))
        return (torch.where(left < self.k, 0.0, tau),)

    @property
    def total(self) -> float | Tensor:
        return self.k

    def __call__(self, p: Tensor) -> Tensor:
        return 0.5 * p.square().sum(-1)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return k_subsets(z, self.k, dim, at_most=self.at_most, mask=mask)

    def __repr__(self) -> str:
        return f"KSubsets(k={self.k}{', at_most=True' if self.at_most else ''})"


def threshold(z: Tensor, p: Tensor, lower: float | Tensor, upper: float | Tensor) -> Tensor:
    """Return tau of ``p = clip(z - tau, lower, upper)``, ``[*, 1]``; the middle of its range if no entry is free."""
    kept = z != -math.inf
    scores = torch.where(kept, z, 0.0)
    high, low = kept & (p >= upper), kept & (p <= lower)
    free = kept & ~high & ~low
    mean = torch.where(free, scores - p, 0.0).sum(-1, keepdim=True) / free.sum(-1, keepdim=True).clamp(min=1)
    # An entry at its ceiling says that tau is at most z - upper, one at its floor that it is at least z - lower.
    most = torch.where(high & ~low, scores - p, math.inf).amin(-1, keepdim=True)
    least = torch.where(low & ~high, scores - p, -math.inf).amax(-1, keepdim=True)
    most, least = torch.where(most == math.inf, least, most), torch.where(least == -math.inf, most, least)
    middle = torch.where(most.isinf(), 0.0, (most + least) / 2)
    return torch.where(free.any(-1, keepdim=True), mean, middle)


def k_subsets(
    z: Tensor, k: float | Tensor, dim: int = -1, *, at_most: bool = False, mask: Tensor | None = None
) -> Tensor:
    r"""Return the marginals of a sparse distribution over the subsets of size k.

    .. math:: \arg\max_{0 \le p \le 1,\; \sum_i p_i = k} \langle p, z \rangle - \tfrac12 \lVert p \rVert^2
              = \mathrm{clip}(z - \tau(z), 0, 1)

    The k-hot vectors are the vertices of that polytope, so this is SparseMAP over them, without an active set.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        k: in [0, K], not necessarily whole; a number, or a tensor that broadcasts to ``z`` with size 1 along
            ``dim``. Gradients reach it.
        at_most: let the sum be anything up to ``k``.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry. A row left with fewer than ``k`` entries takes
            them all.

    Returns:
        Like ``z``: in [0, 1], summing to ``k`` along ``dim``.

        >>> k_subsets(torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0]), k=2)
        tensor([0.8750, 0.6250, 0.3750, 0.1250, 0.0000])
        >>> k_subsets(torch.tensor([1.0, -0.5, 0.25]), k=2, at_most=True)
        tensor([1.0000, 0.0000, 0.2500])

    Reference: Niculae et al. (ICML 2018), Sec. 3 (SparseMAP); Santos et al. (ICML 2024), Sec. 4.1.
    """
    dim = check_scores("k_subsets", z, dim)
    k = check_budget("k_subsets", k, z.shape[dim] if z.dim() else 1, at_most)
    if not isinstance(k, float):
        k = row_parameter("k_subsets", "k", k, z, dim)
    z = apply_mask("k_subsets", z, mask)
    exact = _k_subsets(z, k, dim=dim)
    if not at_most:
        return exact
    box = z.to(working_dtype(z)).clamp(0, 1)
    # +inf would pass through the clamp as an innocent 1; NaN makes the comparison false by itself.
    room = (box.sum(dim, keepdim=True) <= k) & (z.amax(dim, keepdim=True) < math.inf)
    return torch.where(room, box.to(exact.dtype), exact)


def _vjp(g: Tensor, p: Tensor, k: float | Tensor, *, dim: int):
    return solve_vjp("k_subsets_vjp", k_subsets_vjp, p, g, dim), lambda: (g * _dk(p, dim)).sum(dim, keepdim=True)


def _jvp(tangents, p: Tensor, k: float | Tensor, *, dim: int) -> Tensor:
    dz, dk = tangents
    out = torch.zeros_like(p) if dz is None else k_subsets_vjp(p, dz, dim)
    return out if dk is None else out + dk * _dk(p, dim)


def _dk(p: Tensor, dim: int) -> Tensor:
    free = ((p > 0) & (p < 1)).to(p.dtype)
    return free / free.sum(dim, keepdim=True).clamp(min=1)


_k_subsets = Map(
    "k_subsets",
    ["k"],
    partial(kernels.solve, "k_subsets"),
    _vjp,
    _jvp,
    gradient=lambda p, g, k, dim: kernels.solve("k_subsets_vjp", p, g, dim),
    export=export.k_subsets,
)


register(
    MapRecord(
        "k_subsets",
        k_subsets,
        KSubsets,
        summary="exactly (or at most) k chosen, relaxed as little as possible",
        complexity="O(K) expected",
        cite="niculae2018sparsemap",
        example={"k": 2},
        example_of_one={"k": 1},
        colour="#e09f3e",
        domain="budget",
        program=lambda cp, p, omega: cp.sum_squares(p) / 2,
        loss="k_subsets_loss",
    )
)
