"""Marginals of the best sparse distribution over 0/1 sequences with k ones, as an operation with its derivatives.

An active set of sequences gives the marginals. On their face they are affine in the scores of entries and of
neighbours: both directions of the derivative are products with a basis of the face, kept in place of the sequences.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._custom_op import map_in_front
from omegamax._operation import Operation
from omegamax.kernels.structures import (
    TOLERANCE,
    ActiveSet,
    ActiveSetJacobian,
    close_gaps,
    iteration_limit,
    warn_unless_converged,
)

F64 = torch.float64


def solve_marginals(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> Tensor:
    """Return marginals shaped like the scores ``z``, given transition scores ``t`` of its rank and size K - 1 or 1."""
    if z.dim() == 0:  # a row of one
        return solve_marginals(z.reshape(1), t.reshape(1), k, at_most, 0).reshape(())
    return _operation(z, t, k, at_most, dim)[0]


def _solve(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, ActiveSet, Tensor]:
    """Return marginals; the active sets of the rows that had to be searched; which rows these are."""
    x = z.detach().to(F64).movedim(dim, -1)
    shape, size = x.shape, x.shape[-1]
    x = x.reshape(-1, size)
    pairs = t.detach().to(F64).movedim(dim, -1).expand(*shape[:-1], size - 1).reshape(len(x), size - 1)
    left = x != -math.inf
    spoilt = x.isnan().any(-1) | (x == math.inf).any(-1)
    few = (left.sum(-1) < k) & ~spoilt & (not at_most)
    p = (few[:, None] & left).to(F64)
    searched = (~few).nonzero()[:, 0]
    x, pairs = x[searched], pairs[searched]
    sizes = (size, k, int(at_most))
    limit = iteration_limit(size)
    scores = close_gaps(x, pairs, at_most)
    found: ActiveSet = kernels.solve(
        "active_set", scores, pairs, "sequential_k_subsets", sizes, None, None, TOLERANCE, limit
    )  # type: ignore[assignment]
    if bool((found.residual == math.inf).any()):
        raise ValueError(f"sequential_k_subsets: transition (-inf between neighbours) leaves no set of k={k} in a row")
    warn_unless_converged("sequential_k_subsets", found, limit)
    p[searched] = found.marginals
    p = p.reshape(shape).movedim(-1, dim).to(z.dtype).contiguous()
    # Autograd lets nobody write into a Function's result that is a view.
    return p.clone() if p._is_view() else p, found, searched


def _solve_with_basis(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, Tensor]:
    """Return marginals, and what their derivatives need: for each row the basis ``[n + n - 1, r]`` of its face."""
    p, active, searched = _solve(z, t, k, at_most, dim)
    basis = torch.cat(ActiveSetJacobian(active).spanned.basis, -1).mT
    whole = basis.new_zeros(p.numel() // p.shape[dim], *basis.shape[1:])
    whole[searched] = basis
    return p, whole.reshape(*p.movedim(dim, -1).shape[:-1], *basis.shape[1:])


def _save(ctx, inputs, results):
    _, t, _, _, ctx.dim = inputs
    _, basis = results
    ctx.mark_non_differentiable(basis)
    return [basis, t]


def _backward(ctx, g, _):
    basis, t = ctx.saved_tensors
    size = g.shape[ctx.dim]
    inner = basis[..., :size, :].mT @ g.to(F64).movedim(ctx.dim, -1)[..., None]
    dz, dt = (basis @ inner)[..., 0].movedim(-1, ctx.dim).split([size, size - 1], ctx.dim)
    return dz.to(g.dtype), dt.sum_to_size(t.shape).to(t.dtype), None, None, None


def _jvp(ctx, dz, dt, *_):
    basis = ctx.saved_tensors[0]
    like = dz if dz is not None else dt
    size = (basis.shape[-2] + 1) // 2
    shape = list(basis.shape[:-2])
    shape.insert(ctx.dim, size)
    pairs = [n - (i == ctx.dim) for i, n in enumerate(shape)]
    dz = like.new_zeros(shape) if dz is None else dz
    dt = like.new_zeros(pairs) if dt is None else dt.expand(pairs)
    given = torch.cat([dz.to(F64), dt.to(F64)], ctx.dim).movedim(ctx.dim, -1)[..., None]
    dp = (basis[..., :size, :] @ (basis.mT @ given))[..., 0].movedim(-1, ctx.dim)
    # Forward mode wants a tangent that lies in memory as the marginals do.
    return dp.to(like.dtype).clone(memory_format=torch.contiguous_format), None


def _solve_alone(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor]:
    return (_solve(z, t, k, at_most, dim)[0],)


def _solve_with_padded_basis(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, Tensor]:
    p, basis = _solve_with_basis(z, t, k, at_most, dim)
    # The size of what is returned must not depend on the values: no face has more than K dimensions.
    return p, torch.nn.functional.pad(basis, (0, z.shape[dim] - basis.shape[-1]))


def _shape(z, transition, k, at_most, dim):
    size = z.shape[dim]
    batch = [n for i, n in enumerate(z.shape) if i != dim]
    p = torch.empty_like(z, memory_format=torch.contiguous_format)
    return p, z.new_empty([*batch, 2 * size - 1, size], dtype=F64)


def _vmap(info, in_dims, z, transition, k, at_most, dim):
    z, transition = map_in_front(info.batch_size, in_dims[:2], z, transition)
    return _operation(z, transition, k, at_most, dim + 1), (0, 0)


_operation = Operation(
    "sequential_k_subsets",
    "(Tensor z, Tensor transition, int k, bool at_most, int dim) -> (Tensor, Tensor)",
    kernels.solve_where_compiled("active_set", _solve_alone),
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    recorded=kernels.solve_where_compiled("active_set", _solve_with_basis),
    traced=kernels.solve_where_compiled("active_set", _solve_with_padded_basis),
    vmap=_vmap,
)
