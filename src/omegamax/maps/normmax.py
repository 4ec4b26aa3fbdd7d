"""Sparse maps regularised by a norm."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import apply_mask, check_above, check_scores
from omegamax._map_parameters import row_parameter
from omegamax._numerics import on_support
from omegamax._operation import Map, solve_vjp
from omegamax.kernels import export
from omegamax.kernels.rows import norm, normmax_in_alpha, normmax_vjp
from omegamax.maps.omega import Omega
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register


class NormEntropy(Omega):
    r"""``||p||_alpha - 1``: the regulariser of normmax. Its margin is 1 for every alpha.

    Args:
        alpha: in (1, inf]; a float, or a tensor that broadcasts to the scores with size 1 along the axis of
            normalisation.

        >>> NormEntropy(2.0).argmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.6890, 0.3110, 0.0000])
    """

    keeps_order = True
    name = "normmax"
    margin = 1.0

    def __init__(self, alpha: float | Tensor = 2.0):
        check_above("NormEntropy", "alpha", alpha, 1.0)
        self.alpha = alpha

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.alpha,)

    def with_parameters(self, *parameters: float | Tensor) -> NormEntropy:
        return NormEntropy(*parameters)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        size = norm(p, self.alpha, -1)
        support, safe = on_support(p)
        share = torch.where(support, (safe / size).pow(self.alpha), 0.0)
        slope = size.log() - (share * safe.log()).sum(-1, keepdim=True)
        return (size * slope / self.alpha,)

    def __call__(self, p: Tensor) -> Tensor:
        if not isinstance(self.alpha, Tensor) and self.alpha == math.inf:
            largest = p.amax(-1)
            return torch.where(largest == 0, 1.0, largest) - 1  # 0 where nothing is left, as for any alpha
        return norm(p, self.alpha, -1).squeeze(-1) - 1

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return normmax(z, self.alpha, dim, mask=mask)

    def __repr__(self) -> str:
        return f"NormEntropy(alpha={self.alpha})"


def normmax(z: Tensor, alpha: float | Tensor = 2.0, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return sparse probabilities that prefer equal shares: regularised by a norm instead of an entropy.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \lVert p \rVert_\alpha
              \propto [z - \tau(z)]_+^{1/(\alpha - 1)}, \qquad \lVert [z - \tau]_+ \rVert_{\alpha/(\alpha-1)} = 1

    Its margin is 1 for every alpha, and as alpha grows it tends to the uniform distribution on the support of
    sparsemax.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        alpha: in (1, inf]; a float, or a tensor that broadcasts to ``z`` with size 1 along ``dim``. Gradients reach it.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: non-negative, sums to one along ``dim``, exactly zero off the support.

        >>> normmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.6890, 0.3110, 0.0000])
        >>> normmax(torch.tensor([1.0, 0.5, -1.0]), alpha=float("inf"))
        tensor([0.5000, 0.5000, 0.0000])

    Reference: Blondel, Martins & Niculae (JMLR 2020), Sec. 4.3; Santos et al. (ICML 2024), Sec. 3.1.
    """
    dim = check_scores("normmax", z, dim)
    alpha = check_above("normmax", "alpha", alpha, 1.0)
    if not isinstance(alpha, float):
        alpha = row_parameter("normmax", "alpha", alpha, z, dim)
    return _normmax(apply_mask("normmax", z, mask), alpha, dim=dim)


def _vjp(g: Tensor, p: Tensor, alpha: float | Tensor, *, dim: int):
    dz = solve_vjp("normmax_vjp", normmax_vjp, p, g, alpha, dim)
    return dz, lambda: (g * normmax_in_alpha(p, alpha, dim)).sum(dim, keepdim=True)


def _jvp(tangents, p: Tensor, alpha: float | Tensor, *, dim: int) -> Tensor:
    dz, dalpha = tangents
    out = torch.zeros_like(p) if dz is None else normmax_vjp(p, dz, alpha, dim)
    return out if dalpha is None else out + dalpha * normmax_in_alpha(p, alpha, dim)


_normmax = Map(
    "normmax",
    ["alpha"],
    partial(kernels.solve, "normmax"),
    _vjp,
    _jvp,
    gradient=partial(kernels.solve, "normmax_vjp"),
    export=export.normmax,
)


register(
    MapRecord(
        "normmax",
        normmax,
        NormEntropy,
        summary="equal shares on a small support; margin 1 for every alpha",
        complexity="O(K) a step, 2-6 steps",
        cite="santos2024sparse",
        example={"alpha": 3.0},
        colour="#7d5ba6",
        program=lambda cp, p, omega: cp.pnorm(p, omega.alpha) - 1,
        learnable=Learnable("alpha", bounds=(1.1, 4.0), above=1.0),
        loss="normmax_loss",
    )
)
