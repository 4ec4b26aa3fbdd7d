"""Escort distributions, and the covariances under them that are the Jacobians of entmax."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._checks import check_floating, check_scores
from omegamax._numerics import on_support, returned_dtype, working_dtype


def escort(p: Tensor, beta: float | Tensor, dim: int = -1, *, weights: Tensor | None = None) -> Tensor:
    r"""Return the escort distribution of probabilities: their powers on the support, normalised.

    .. math:: \tilde p^\beta_i = \frac{p_i^\beta}{\sum_{j: p_j > 0} p_j^\beta} \quad (p_i > 0), \qquad
              \text{else } 0

    At beta = 1 it is p, at 0 uniform on the support; above 1 sharper than p, below flatter. The gradient of the
    normaliser of entmax by a score is the escort at beta = 2 - alpha.

    Args:
        p: ``[*, K]`` along ``dim``, non-negative; need not sum to one. A row of zeros stays one.
        beta: any number, also below 0; or a tensor that broadcasts to ``p``. Gradients reach it.
        weights: positive, broadcastable to ``p``: those of a quadrature, with which the powers are multiplied.

    Returns:
        Shaped like ``p``; sums to one along ``dim``.

        >>> p = torch.tensor([0.5, 0.25, 0.25, 0.0])
        >>> escort(p, 2.0), escort(p, 0.0)
        (tensor([0.6667, 0.1667, 0.1667, 0.0000]), tensor([0.3333, 0.3333, 0.3333, 0.0000]))

    Reference: Martins et al. (NeurIPS 2020), Eq. 5 and Prop. 2; Amari & Ohara (Entropy 2011).
    """
    dim = check_scores("escort", p, dim)
    log_s = _log_powers("escort", p, beta, weights)
    top = log_s.detach().amax(dim, keepdim=True)
    # Measured from the largest, powers neither overflow nor vanish all at once; a row without support has none.
    ratio = (log_s - torch.where(top == -math.inf, 0.0, top)).exp()
    total = ratio.sum(dim, keepdim=True)
    return (ratio / torch.where(total == 0, 1.0, total)).to(returned_dtype(p))


def generalized_covariance(
    p: Tensor,
    beta: float | Tensor = 1.0,
    first: Tensor | None = None,
    second: Tensor | None = None,
    *,
    weights: Tensor | None = None,
) -> Tensor:
    r"""Return the covariance of two statistics under the escort of p, times the sum of the powers.

    .. math:: \mathrm{cov}_{p, \beta}[\phi, \psi] = \lVert p \rVert_\beta^\beta \,
              \bigl(E_{\tilde p^\beta}[\phi \psi^\top] - E_{\tilde p^\beta}[\phi] \, E_{\tilde p^\beta}[\psi]^\top\bigr)

    The covariance at beta = 1. If p is entmax of the scores :math:`\theta^\top \phi_i`, it is at beta = 2 - alpha the
    Jacobian of :math:`E_p[\psi]` by theta; with neither statistic given, the Jacobian of entmax itself,
    :math:`\mathrm{diag}(s) - s s^\top / \sum_i s_i` with :math:`s = p^{2 - \alpha}` on the support.

    Args:
        p: ``[*, K]``.
        beta: any number, or a tensor ``[*, 1]``.
        first: phi, ``[*, K, A]``; the indicators of the K entries if None.
        second: psi, ``[*, K, B]``; ``first`` if None.
        weights: positive, broadcastable to ``p``: those of a quadrature.

    Returns:
        ``[*, A, B]``.

        >>> from omegamax import sparsemax
        >>> z = torch.tensor([1.0, 0.5, -1.0])
        >>> generalized_covariance(sparsemax(z), 0.0)
        tensor([[ 0.5000, -0.5000,  0.0000],
                [-0.5000,  0.5000,  0.0000],
                [ 0.0000,  0.0000,  0.0000]])
        >>> torch.autograd.functional.jacobian(sparsemax, z)
        tensor([[ 0.5000, -0.5000,  0.0000],
                [-0.5000,  0.5000,  0.0000],
                [ 0.0000,  0.0000,  0.0000]])

    Reference: Martins et al. (NeurIPS 2020), Eq. 17 and Prop. 3.
    """
    name = "generalized_covariance"
    check_scores(name, p, -1)
    for argument, given in (("first", first), ("second", second)):
        if given is None:
            continue
        check_floating(name, argument, given)
        if given.dim() < 2 or given.shape[-2] != p.shape[-1]:
            raise ValueError(f"{name}: {argument} must be [*, {p.shape[-1]}, A], got shape {tuple(given.shape)}")
    dtype = working_dtype(p)
    phi = torch.eye(p.shape[-1], dtype=dtype, device=p.device) if first is None else first.to(dtype)
    psi = phi if second is None else second.to(dtype)
    s = _log_powers(name, p, beta, weights).exp().unsqueeze(-1)
    share = escort(p.to(dtype), beta, weights=weights).unsqueeze(-2)
    phi, psi = phi - share @ phi, psi - share @ psi  # centred, so that large means do not cancel
    return ((s * phi).mT @ psi).to(returned_dtype(p))


def _log_powers(name: str, p: Tensor, beta: float | Tensor, weights: Tensor | None) -> Tensor:
    """Return ``log(w p^beta)``, ``-inf`` off the support."""
    if isinstance(beta, Tensor):
        check_floating(name, "beta", beta)
    support, safe = on_support(p.to(working_dtype(p)))
    log_s = beta * safe.log()
    if weights is not None:
        check_floating(name, "weights", weights)
        log_s = log_s + weights.to(log_s.dtype).log()
    spoilt = p.isnan()
    return torch.where(spoilt, math.nan, torch.where(support, log_s, -math.inf))
