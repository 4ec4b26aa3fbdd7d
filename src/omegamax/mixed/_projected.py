"""Log densities of sparsemax of a Gaussian vector, for covariances that are not diagonal."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax.mixed._fibre import log_density_diagonal
from omegamax.mixed._orthant import by_rows, log_orthant
from omegamax.mixed._quadrature import normal_nodes

_LOG_2PI = math.log(2 * math.pi)


def log_density_full(loc: Tensor, cov: Tensor, value: Tensor, face: Tensor, order: int, points: int) -> Tensor:
    r"""Return the log-density at ``value`` on ``face``, both ``[*, K]``, for a covariance ``[*, K, K]``.

    On the face I of k vertices :math:`x_I = y_I + t` and :math:`x_J \le t`; given the differences within I, t is
    Gaussian, and so is :math:`t - x_J`:

    .. math:: p(y) = k \int N(y_I + t; \mu_I, \Sigma_{II}) \, P(x_J \le t \mid x_I) \, dt
              = k \, \Bigl(\int N(y_I + t; \mu_I, \Sigma_{II}) \, dt\Bigr) \, P(t - x_J \ge 0 \mid y_I)
    """
    batch = torch.broadcast_shapes(loc.shape, value.shape, face.shape, cov.shape[:-1])
    loc, value, face = loc.expand(batch), value.expand(batch), face.expand(batch)
    inside = face.unsqueeze(-1) & face.unsqueeze(-2)
    eye = torch.eye(batch[-1], dtype=loc.dtype, device=loc.device)
    own = torch.where(inside, cov, eye * (~face).unsqueeze(-1).to(loc.dtype))
    tril = torch.linalg.cholesky(own)
    ones = face.to(loc.dtype)
    gap = torch.where(face, loc - value, 0.0)
    cross = torch.where((~face).unsqueeze(-1) & face.unsqueeze(-2), cov, 0.0)  # [*, J, I]
    white = torch.linalg.solve_triangular(
        tril, torch.cat([ones.unsqueeze(-1), gap.unsqueeze(-1), cross.mT], -1), upper=False
    )
    one, bend, pull = white[..., 0], white[..., 1], white[..., 2:]
    total = one.square().sum(-1)
    centre = (one * bend).sum(-1) / total
    rest = (bend - centre.unsqueeze(-1) * one).square().sum(-1)
    size = ones.sum(-1)
    logs = tril.diagonal(dim1=-2, dim2=-1).log().sum(-1) + 0.5 * (size - 1) * _LOG_2PI + 0.5 * total.log()
    # t - x_J given y: a mean, and what is left of the covariance plus that of t.
    tilt = 1 - (pull * one.unsqueeze(-1)).sum(-2)
    mean = centre.unsqueeze(-1) * tilt - loc + (pull * bend.unsqueeze(-1)).sum(-2)
    spread = cov - pull.mT @ pull + tilt.unsqueeze(-1) * tilt.unsqueeze(-2) / total[..., None, None]
    return size.log() - logs - 0.5 * rest + log_orthant(mean, spread, ~face, order, points)


def log_density_low_rank(
    loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor, order: int, points: int
) -> Tensor:
    r"""Return the log-density for a covariance :math:`W W' + D`, which is diagonal once :math:`u` is known.

    ``factor`` is ``[*, K, r]``, ``diag`` ``[*, K]``.

    .. math:: p(y) = E_{u \sim N(0, I_r)} \, p_D(y; \mu + W u)

    by a product of Gauss-Hermite rules for r of 1 or 2, with nodes placed where the integrand is and constants to
    autograd. Larger ranks, and points with at most three zeros (for which it is exact), go by
    :func:`log_density_full`.
    """
    batch = torch.broadcast_shapes(loc.shape, value.shape, face.shape, diag.shape, factor.shape[:-1])
    loc, value, face, diag = loc.expand(batch), value.expand(batch), face.expand(batch), diag.expand(batch)
    rank = factor.shape[-1]
    factor = factor.expand(*batch, rank)

    def full(loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor) -> Tensor:
        return log_density_full(loc, factor @ factor.mT + torch.diag_embed(diag), value, face, order, points)

    if rank == 0:
        return log_density_diagonal(loc, diag.sqrt(), value, face, order)
    if rank not in FACTOR_ORDER:
        return full(loc, factor, diag, value, face)
    by_factor = partial(_log_density_by_factor, order=max(2, order // 2))
    return by_rows((~face).sum(-1) <= 3, full, by_factor, loc, factor, diag, value, face)


FACTOR_ORDER = {1: 32, 2: 20}  # nodes of the Gauss-Hermite rule along each factor, for the ranks that have one


def _log_density_by_factor(
    loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor, order: int
) -> Tensor:
    rank = factor.shape[-1]

    def inner(u: Tensor, order: int) -> Tensor:  # [*, Q, r] -> [*, Q]
        shifted, deviation = loc.unsqueeze(-2) + u @ factor.mT, diag.sqrt().unsqueeze(-2)
        return log_density_diagonal(shifted, deviation, value.unsqueeze(-2), face.unsqueeze(-2), order)

    with torch.no_grad():
        centre, root = _within_face(loc, factor, diag, value, face)
        # A small rule finds where the entries outside the face move the integrand; the large one is placed there.
        u, log_weights = _move_nodes(centre, root, *normal_nodes(rank, 8))
        share = (log_weights + inner(u, 8)).softmax(-1).unsqueeze(-1)
        moved = (share * u).sum(-2)
        spread = u - moved.unsqueeze(-2)
        # A share of the first guess, so that no direction is lost to a few heavy nodes.
        cov = 0.9 * (share * spread).mT @ spread + 0.1 * root @ root.mT
        root = torch.linalg.cholesky(cov)
        u, log_weights = _move_nodes(moved, root, *normal_nodes(rank, FACTOR_ORDER[rank]))
    return (log_weights + inner(u, order)).logsumexp(-1)


def _within_face(loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor) -> tuple[Tensor, Tensor]:
    """Return mean and root of the covariance of ``u`` given the differences between the entries of the face."""
    p = torch.where(face, diag.reciprocal(), 0.0).unsqueeze(-1)
    within = factor - (p * factor).sum(-2, keepdim=True) / p.sum(-2, keepdim=True)
    eye = torch.eye(factor.shape[-1], dtype=loc.dtype, device=loc.device)
    tril = torch.linalg.cholesky((p * within).mT @ within + eye)
    lin = ((value - loc).unsqueeze(-1) * p * within).sum(-2, keepdim=True).mT
    root = torch.linalg.solve_triangular(tril, eye.expand_as(tril), upper=False).mT
    return torch.cholesky_solve(lin, tril).squeeze(-1), root


def _move_nodes(centre: Tensor, root: Tensor, nodes: Tensor, log_w: Tensor) -> tuple[Tensor, Tensor]:
    """Return nodes of the standard normal distribution moved to another one.

    Their log-weights are for means under the standard one.
    """
    x = nodes.to(centre)
    u = centre.unsqueeze(-2) + x @ root.mT  # [*, Q, r]
    log_det = root.diagonal(dim1=-2, dim2=-1).abs().log().sum(-1, keepdim=True)
    return u, log_w.to(centre) + log_det + 0.5 * (x.square() - u.square()).sum(-1)
