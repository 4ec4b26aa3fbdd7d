"""Neighbours in a row with equal probabilities: total variation on a chain, over any base map."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import apply_mask, check_scores
from omegamax.maps.omega import Omega
from omegamax.maps.penalised import Penalised, check_base, solve_in_working_dtype
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register
from omegamax.maps.total_variation import prox_1d, tv_prox_1d


class Fused(Penalised):
    r"""``base(p) + strength * sum_i |p_{i+1} - p_i|``: the regulariser of :func:`omegamax.fusedmax`.

    Args:
        base: a map by name or its Omega, as there.
        strength: >= 0. Gradients reach it.

        >>> Fused("sparsemax", 0.1).argmax(torch.tensor([1.0, 0.9, -1.0, 0.8]))
        tensor([0.4000, 0.4000, 0.0000, 0.2000])
    """

    name = "fusedmax"

    def __init__(self, base: str | Omega = "sparsemax", strength: float | Tensor = 1.0):
        super().__init__(base, strength)

    @property
    def reach(self) -> float:
        # An entry gives way to its two neighbours. One of these at the end of the row comes up by one, one between
        # two leaders, where there are several, by two.
        return 3.0 if isinstance(self.base.total, float) and self.base.total <= 1 else 4.0

    def penalty(self, p: Tensor) -> Tensor:
        at = torch.arange(p.shape[-1], device=p.device)
        return self._between(p, at[1:], at[:-1]).sum(-1)

    def smooth(self, z: Tensor) -> Tensor:
        return tv_prox_1d(z, self.strength)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return fusedmax(z, self.strength, dim, base=self.base, mask=mask)


def fusedmax(
    z: Tensor,
    strength: float | Tensor = 1.0,
    dim: int = -1,
    *,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return probabilities in runs: a penalty on the difference of neighbours in a row.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p) - \lambda \sum_i |p_{i+1} - p_i|

    with Omega and its domain those of ``base``. The solution is ``base`` of the scores smoothed by
    :func:`tv_prox_1d`, because a subgradient of the penalty there is one at p as well: ``base`` keeps their order.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it. At 0 the map is ``base``.
        base: a map whose probabilities are one non-decreasing function of their scores, by name or as an Omega:
            softmax, sparsemax, entmax, normmax, k_subsets.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry, and parts its neighbours.

    Returns:
        Like ``z``: in the domain of ``base``.

        >>> fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), strength=0.1)
        tensor([0.4000, 0.4000, 0.0000, 0.2000])
        >>> fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), strength=0.1, base="softmax")
        tensor([0.3332, 0.3332, 0.0609, 0.2728])

    Reference: Niculae & Blondel (NeurIPS 2017), Prop. 2; Martins et al. (ICIP 2021), Prop. 1, for a graph.
    """
    dim = check_scores("fusedmax", z, dim)
    omega = check_base("fusedmax", base)

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_1d("fusedmax", x, strength, dim, "z"), dim)

    return solve_in_working_dtype(apply_mask("fusedmax", z, mask), omega, (dim,), solve)


def _program(cp, p, omega: Fused):
    return (cp.sum_squares(p) - 1) / 2 + omega.strength * cp.sum(cp.abs(p[1:] - p[:-1]))


register(
    MapRecord(
        "fusedmax",
        fusedmax,
        Fused,
        summary="neighbours in a row get equal weights: attention in runs",
        complexity="O(K)",
        cite="niculae2017regularized",
        example={"strength": 0.25},
        colour="#1b4965",
        program=_program,
        learnable=Learnable("strength"),
        equivariant=False,
    )
)
