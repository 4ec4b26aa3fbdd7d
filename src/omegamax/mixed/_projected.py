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
    r"""At ``value`` on ``face``, both ``[*, K]``, for a covariance ``[*, K, K]``.

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
    r"""For a covariance :math:`W W' + D`, ``factor [*, K, r]`` and ``diag [*, K]``: diagonal once :math:`u` is known.

    .. math:: p(y) = E_{u \sim N(0, I_r)} \, p_D(y; \mu + W u)

    by nodes placed where the entries inside the face put ``u``; constants to autograd. Points with at most three zeros
    go by :func:`log_density_full`, which is exact for them.
    """
    batch = torch.broadcast_shapes(loc.shape, value.shape, face.shape, diag.shape, factor.shape[:-1])
    loc, value, face, diag = loc.expand(batch), value.expand(batch), face.expand(batch), diag.expand(batch)
    factor = factor.expand(*batch, factor.shape[-1])

    def exact(loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor) -> Tensor:
        return log_density_full(loc, factor @ factor.mT + torch.diag_embed(diag), value, face, order, points)

    by_factor = partial(_log_density_by_factor, order=max(2, order // 2), points=points)
    return by_rows((~face).sum(-1) <= 3, exact, by_factor, loc, factor, diag, value, face)


def factor_order(rank: int, points: int) -> int:
    """Nodes of the Gauss-Hermite rule along each factor; 0 where Sobol points take over."""
    return {1: 32, 2: 20}.get(rank, 0) if 20**rank <= points else 0


def _log_density_by_factor(
    loc: Tensor, factor: Tensor, diag: Tensor, value: Tensor, face: Tensor, order: int, points: int
) -> Tensor:
    rank = factor.shape[-1]
    with torch.no_grad():
        x, log_w = (part.to(loc) for part in normal_nodes(rank, factor_order(rank, points), points))
        p = torch.where(face, diag.reciprocal(), 0.0)
        heavy = p.unsqueeze(-1) * factor  # D^-1 W, the entries of the face only
        mean_w = heavy.sum(-2) / p.sum(-1, keepdim=True)
        within = factor - mean_w.unsqueeze(-2)
        precision = heavy.mT @ within + torch.eye(rank, dtype=loc.dtype, device=loc.device)
        tril = torch.linalg.cholesky(0.5 * (precision + precision.mT))
        lin = ((value - loc).unsqueeze(-1) * p.unsqueeze(-1) * within).sum(-2)
        centre = torch.cholesky_solve(lin.unsqueeze(-1), tril).squeeze(-1)
        # [*, r, Q]
        moved = torch.linalg.solve_triangular(tril.mT, x.T.expand(*tril.shape[:-1], len(x)), upper=True)
        u = (centre.unsqueeze(-1) + moved).mT  # [*, Q, r]
        log_det = tril.diagonal(dim1=-2, dim2=-1).log().sum(-1, keepdim=True)
        log_weights = log_w - 0.5 * u.square().sum(-1) + 0.5 * x.square().sum(-1) - log_det
    shifted = loc.unsqueeze(-2) + u @ factor.mT
    inner = log_density_diagonal(shifted, diag.sqrt().unsqueeze(-2), value.unsqueeze(-2), face.unsqueeze(-2), order)
    return (log_weights + inner).logsumexp(-1)
