"""Marginals of the best sparse distribution over 0/1 sequences with k ones, as an operation with its derivatives.

In most rows a relaxation has the same solution, whose entries fall into groups of equal value, and its derivatives are
means over these. In the others an active set of sequences gives the marginals. On their face they are affine in the
scores of entries and of neighbours: both directions of the derivative are products with a basis of the face, kept in
place of the sequences.
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
    solve_relaxation,
    warn_unless_converged,
)

F64 = torch.float64


def solve_marginals(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> Tensor:
    """Return marginals shaped like the scores ``z``, given transition scores ``t`` of its rank and size K - 1 or 1."""
    if z.dim() == 0:  # a row of one
        return solve_marginals(z.reshape(1), t.reshape(1), k, at_most, 0).reshape(())
    return _operation(z, t, k, at_most, dim)[0]


def _solve(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, Tensor, ActiveSet, Tensor]:
    """Return marginals; groups ``[rows, n + n - 1]``; active sets of the rows that were searched; which these are."""
    x = z.detach().to(F64).movedim(dim, -1)
    shape, size = x.shape, x.shape[-1]
    x = x.reshape(-1, size)
    pairs = t.detach().to(F64).movedim(dim, -1).expand(*shape[:-1], size - 1).reshape(len(x), size - 1)
    left = x != -math.inf
    spoilt = x.isnan().any(-1) | (x == math.inf).any(-1)
    few = (left.sum(-1) < k) & ~spoilt & (not at_most)
    if kernels.is_compiled("active_set", x):
        p, groups, tight = solve_relaxation(x, pairs, k, at_most)
    else:
        p, groups = torch.empty_like(x), torch.full((len(x), 2 * size - 1), size, device=x.device)
        tight = torch.zeros_like(few)
    p = torch.where(few[:, None], left.to(F64), p)
    searched = (~few & ~tight).nonzero()[:, 0]
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
    return p.clone() if p._is_view() else p, groups, found, searched


def _solve_with_basis(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return marginals, and what derivatives need of each row: its groups, the basis ``[r, n + n - 1]`` of its face."""
    p, groups, active, searched = _solve(z, t, k, at_most, dim)
    basis = ActiveSetJacobian(active).spanned.basis
    if len(basis) < len(groups):
        basis = basis.new_zeros(len(groups), *basis.shape[1:]).index_copy_(0, searched, basis)
    rows = p.movedim(dim, -1).shape[:-1]
    return p, groups.reshape(*rows, *groups.shape[1:]), basis.reshape(*rows, *basis.shape[1:])


def _save(ctx, inputs, results):
    _, t, _, _, ctx.dim = inputs
    _, groups, basis = results
    ctx.mark_non_differentiable(groups, basis)
    return [groups, basis, t]


def _project(groups: Tensor, basis: Tensor, x: Tensor) -> Tensor:
    """Return the Jacobian, which is symmetric, times ``x [*, n + n - 1]``: changes of entries and of pairs."""
    size = (groups.shape[-1] + 1) // 2
    none = x.new_zeros(*x.shape[:-1], size + 1)
    sums = none.scatter_add(-1, groups, x)
    entries = groups[..., :size]
    counts = none.scatter_add(-1, entries, (entries < size).to(x.dtype))
    some = counts > 0
    # The sum over the entries stays: all groups give up the same.
    level = torch.where(some, sums, 0.0).sum(-1, keepdim=True) / counts.sum(-1, keepdim=True).clamp(min=1)
    change = torch.where(some, sums / counts.clamp(min=1) - level, 0.0)
    return change.gather(-1, groups) + (basis.mT @ (basis @ x[..., None]))[..., 0]


def _backward(ctx, g, *_):
    groups, basis, t = ctx.saved_tensors
    size = g.shape[ctx.dim]
    moved = torch.nn.functional.pad(g.to(F64).movedim(ctx.dim, -1), (0, size - 1))
    dz, dt = _project(groups, basis, moved).movedim(-1, ctx.dim).split([size, size - 1], ctx.dim)
    return dz.to(g.dtype), dt.sum_to_size(t.shape).to(t.dtype), None, None, None


def _jvp(ctx, dz, dt, *_):
    groups, basis, _ = ctx.saved_tensors
    like = dz if dz is not None else dt
    size = (groups.shape[-1] + 1) // 2
    shape = list(groups.shape[:-1])
    shape.insert(ctx.dim, size)
    pairs = [n - (i == ctx.dim) for i, n in enumerate(shape)]
    dz = like.new_zeros(shape) if dz is None else dz
    dt = like.new_zeros(pairs) if dt is None else dt.expand(pairs)
    given = torch.cat([dz.to(F64), dt.to(F64)], ctx.dim).movedim(ctx.dim, -1)
    dp = _project(groups, basis, given)[..., :size].movedim(-1, ctx.dim)
    # Forward mode wants a tangent that lies in memory as the marginals do.
    return dp.to(like.dtype).clone(memory_format=torch.contiguous_format), None, None


def _solve_alone(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor]:
    return (_solve(z, t, k, at_most, dim)[0],)


def _solve_with_padded_basis(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    p, groups, basis = _solve_with_basis(z, t, k, at_most, dim)
    # The size of what is returned must not depend on the values: no face has more than K dimensions.
    return p, groups, torch.nn.functional.pad(basis, (0, 0, 0, z.shape[dim] - basis.shape[-2]))


def _shape(z, transition, k, at_most, dim):
    size = z.shape[dim]
    batch = [n for i, n in enumerate(z.shape) if i != dim]
    p = torch.empty_like(z, memory_format=torch.contiguous_format)
    groups = z.new_empty([*batch, 2 * size - 1], dtype=torch.int64)
    return p, groups, z.new_empty([*batch, size, 2 * size - 1], dtype=F64)


def _vmap(info, in_dims, z, transition, k, at_most, dim):
    z, transition = map_in_front(info.batch_size, in_dims[:2], z, transition)
    return _operation(z, transition, k, at_most, dim + 1), (0, 0, 0)


_operation = Operation(
    "sequential_k_subsets",
    "(Tensor z, Tensor transition, int k, bool at_most, int dim) -> (Tensor, Tensor, Tensor)",
    kernels.solve_where_compiled("active_set", _solve_alone),
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    recorded=kernels.solve_where_compiled("active_set", _solve_with_basis),
    traced=kernels.solve_where_compiled("active_set", _solve_with_padded_basis),
    vmap=_vmap,
)
