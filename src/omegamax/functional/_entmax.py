"""Softmax, sparsemax and everything between, beyond and below: the Tsallis family."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import check_above, check_scores, is_plain, row_parameter
from omegamax._operation import Map
from omegamax.functional._mask import masked
from omegamax.kernels.jacobians import alpha_vjp, entmax_in_alpha, entmax_vjp


def _vjp(g: Tensor, p: Tensor, alpha: float | Tensor, *, dim: int):
    if not torch.is_grad_enabled() and is_plain(g, p):
        dz = kernels.solve("entmax_vjp", p, g, alpha, dim)
        return dz, lambda: kernels.solve("alpha_vjp", p, g, alpha, dim)
    return entmax_vjp(p, g, alpha, dim), lambda: alpha_vjp(p, g, alpha, dim)


def _jvp(tangents, p: Tensor, alpha: float | Tensor, *, dim: int) -> Tensor:
    dz, dalpha = tangents
    out = torch.zeros_like(p) if dz is None else entmax_vjp(p, dz, alpha, dim)
    return out if dalpha is None else out + dalpha * entmax_in_alpha(p, alpha, dim)


_entmax = Map(
    "entmax",
    ["alpha"],
    partial(kernels.solve, "entmax"),
    _vjp,
    _jvp,
    gradient=partial(kernels.solve, "entmax_vjp"),
)


def softmax(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""The baseline: positive everywhere, Shannon's entropy as regulariser.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \sum_i p_i \log p_i
              = \frac{\exp z}{\sum_j \exp z_j}

    Unlike :func:`torch.softmax`, a row whose entries are all masked gives zeros, not NaN.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``, summing to one along ``dim``.

        >>> softmax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.5741, 0.3482, 0.0777])

    Reference: Martins et al. (NeurIPS 2020), Example 1 in Sec. 2.
    """
    dim = check_scores("softmax", z, dim)
    return _entmax(masked("softmax", z, mask), 1.0, dim=dim)


def sparsemax(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Sparse counterpart of softmax: Euclidean projection of the scores onto the simplex.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \tfrac12 \lVert p \rVert^2 = [z - \tau(z)]_+

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: non-negative, sums to one along ``dim``, exactly zero off the support.

        >>> sparsemax(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.7500, 0.2500, 0.0000])

    Reference: Martins & Astudillo (ICML 2016), Prop. 1 and Alg. 1.
    """
    dim = check_scores("sparsemax", z, dim)
    return _entmax(masked("sparsemax", z, mask), 2.0, dim=dim)


def entmax15(z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Half-way between softmax and sparsemax: sparse, yet smooth. Exact.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \tfrac43 \bigl(\textstyle\sum_i p_i^{3/2} - 1\bigr)
              = [z/2 - \tau(z)]_+^2

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: non-negative, sums to one along ``dim``, exactly zero off the support.

        >>> entmax15(torch.tensor([1.0, 0.5, -1.0]))
        tensor([0.6740, 0.3260, 0.0000])
        >>> entmax15(torch.tensor([3.0, 0.5, -1.0]))
        tensor([1., 0., 0.])

    Reference: Peters, Niculae & Martins (ACL 2019), Sec. 3.3 and Alg. 2.
    """
    dim = check_scores("entmax15", z, dim)
    return _entmax(masked("entmax15", z, mask), 1.5, dim=dim)


def entmax(z: Tensor, alpha: float | Tensor = 1.5, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""The whole Tsallis family: softmax at alpha = 1, sparsemax at 2, argmax at infinity, heavy tails below 1.

    .. math:: \arg\max_{p \in \Delta} \langle p, z \rangle - \frac{\sum_i p_i^\alpha - 1}{\alpha(\alpha - 1)}
              = \bigl[(\alpha - 1) z - \tau(z)\bigr]_+^{1/(\alpha - 1)}

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        alpha: in (0, inf]; a float, or a tensor that broadcasts to ``z`` with size 1 along ``dim``. Gradients reach
            it, also at and around alpha = 1.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``, summing to one along ``dim``; for alpha > 1 exactly zero off the support. At ``inf`` the maxima
        share the mass.

        >>> entmax(torch.tensor([1.0, 0.5, -1.0]), alpha=1.25)
        tensor([0.6315, 0.3451, 0.0235])
        >>> entmax(torch.tensor([1.0, 1.0, -1.0]), alpha=float("inf"))
        tensor([0.5000, 0.5000, 0.0000])

    Reference: Peters, Niculae & Martins (ACL 2019), Eq. 10; gradient in alpha: Correia, Niculae & Martins (EMNLP
    2019), Prop. 1.
    """
    dim = check_scores("entmax", z, dim)
    alpha = check_above("entmax", "alpha", alpha, 0.0)
    if not isinstance(alpha, float):
        alpha = row_parameter("entmax", "alpha", alpha, z, dim)
    z = masked("entmax", z, mask)
    half = z.dtype.itemsize == 2 and not torch.is_autocast_enabled(z.device.type)
    if half and isinstance(alpha, float) and alpha > 2:
        # Beyond sparsemax slopes are negative powers of probabilities: these are kept in float32 for them.
        return _entmax(z.float(), alpha, dim=dim).to(z.dtype)
    return _entmax(z, alpha, dim=dim)
