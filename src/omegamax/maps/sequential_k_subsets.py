"""A budget of k ones in a sequence, where neighbours may like or dislike each other."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import is_integer, is_number
from omegamax._checks import apply_mask, check_budget, check_floating, check_scores
from omegamax._numerics import returned_dtype, working_dtype
from omegamax._operation import Operation, map_in_front
from omegamax.kernels.structures import (
    TOLERANCE,
    ActiveSet,
    ActiveSetJacobian,
    close_gaps,
    iteration_limit,
    warn_unless_converged,
)
from omegamax.maps.k_subsets import k_subsets

F64 = torch.float64


def sequential_k_subsets(
    z: Tensor,
    k: int,
    transition: float | Tensor = 0.0,
    dim: int = -1,
    *,
    at_most: bool = False,
    mask: Tensor | None = None,
    two_state: bool = False,
) -> Tensor:
    r"""Marginals of a sparse distribution over the 0/1 sequences with k ones.

    .. math:: \arg\max_{p = \mathbb{E}_\xi[y],\; \xi \in \Delta} \; \mathbb{E}_\xi\Bigl[\sum_i z_i y_i +
              \sum_i t_i y_i y_{i+1}\Bigr] - \tfrac12 \lVert p \rVert^2

    This is SparseMAP, exact: an active set of sequences, whose best one comes from dynamic programming. Without
    transition scores it is :func:`omegamax.k_subsets`.

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        k: number of ones, whole, in [0, K].
        transition: score of two neighbours being ones: a number, one for each of the K - 1 pairs along ``dim``
            (``[K - 1]``), or a tensor that broadcasts to ``z`` with size K - 1 or 1 along ``dim``. Gradients reach it.
        at_most: let sequences with fewer ones in.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry, and the entries on either side of it do not become
            neighbours. A row left with fewer than ``k`` entries takes them all.
        two_state: the scale of those who encode an entry as two states, on and off, and regularise both, as the code
            of Santos et al. does: this map at half of ``z`` and half of ``transition``; with ``at_most``, where the
            number of ones is not fixed, at half of ``z + 1``.

    Returns:
        Like ``z``: in [0, 1], summing to ``k`` along ``dim``, or to less with ``at_most``. Computed in float64.

        >>> z = torch.tensor([2.0, 0.5, 0.0, 1.5, 0.0])
        >>> sequential_k_subsets(z, k=2)
        tensor([1., 0., 0., 1., 0.])
        >>> sequential_k_subsets(z, k=2, transition=1.0)
        tensor([1.0000, 0.5000, 0.0000, 0.5000, 0.0000])

    Reference: Santos et al. (ICML 2024), Sec. 4; the active set is that of Niculae et al. (ICML 2018), Sec. 3.
    """
    name = "sequential_k_subsets"
    dim = check_scores(name, z, dim)
    size = z.shape[dim] if z.dim() else 1
    k = _whole(name, k, size, at_most)
    z = apply_mask(name, z, mask)
    t = _pairs(name, transition, z, size, dim)
    if two_state:  # u^2 / 2 + (1 - u)^2 / 2 = u^2 - u + 1/2, and the sum of u may or may not be fixed
        half = sequential_k_subsets(
            (_wide(z) + 1) / 2 if at_most else _wide(z) / 2, k, transition / 2, dim, at_most=at_most
        )
        return half.to(returned_dtype(z))
    if is_number(transition) and transition == 0:
        return k_subsets(z, k, dim, at_most=at_most)
    return _apply(_wide(z), t, k, bool(at_most), dim).to(returned_dtype(z))


def _wide(z: Tensor) -> Tensor:
    return z.to(working_dtype(z))


def _whole(name: str, k: int, size: int, at_most: bool) -> int:
    if not is_integer(k):
        raise TypeError(f"{name}: k must be a whole number, got {k if is_number(k) else type(k).__name__}")
    check_budget(name, k, size, at_most)
    return min(int(k), size)


def _pairs(name: str, transition: float | Tensor, z: Tensor, size: int, dim: int) -> Tensor:
    """Transition scores with the rank of ``z`` and size K - 1 or 1 along ``dim``, in the working dtype."""
    dtype, rank = working_dtype(z), z.dim()
    if not isinstance(transition, Tensor):
        if not is_number(transition):
            raise TypeError(f"{name}: transition must be a number or a tensor, got {type(transition).__name__}")
        return z.new_full((1,) * rank, float(transition), dtype=dtype)
    if not transition.is_floating_point():
        raise TypeError(f"{name}: transition must be a number or a floating-point tensor, got {transition.dtype}")
    check_floating(name, "transition", transition)
    shape = tuple(transition.shape)
    if len(shape) == 1 and rank:  # along dim, wherever that is
        shape = (1,) * dim + shape + (1,) * (rank - dim - 1)
    shape = (1,) * (rank - len(shape)) + shape
    wanted = [n - (i == dim) for i, n in enumerate(z.shape)]
    if len(shape) > rank or any(a not in (1, b) for a, b in zip(shape, wanted, strict=True)):
        raise ValueError(
            f"{name}: transition must be a number, [{size - 1}], or broadcast to shape {tuple(wanted)}, got shape "
            f"{tuple(transition.shape)}"
        )
    return transition.reshape(shape).to(dtype)


def _apply(z: Tensor, t: Tensor, k: int, at_most: bool, dim: int) -> Tensor:
    if z.dim() == 0:  # a row of one
        return _apply(z.reshape(1), t.reshape(1), k, at_most, 0).reshape(())
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
    """Marginals, and what their derivatives need: for each row the basis ``[n + n - 1, r]`` of its face."""
    p, active, searched = _solve(z, t, k, at_most, dim)
    basis = torch.cat(ActiveSetJacobian(active).basis, -1).mT
    whole = basis.new_zeros(p.numel() // p.shape[dim], *basis.shape[1:])
    whole[searched] = basis
    return p, whole.reshape(*p.movedim(dim, -1).shape[:-1], *basis.shape[1:])


def _vjp(g: Tensor, basis: Tensor, t: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    size = g.shape[dim]
    inner = basis[..., :size, :].mT @ g.to(F64).movedim(dim, -1)[..., None]
    both = (basis @ inner)[..., 0].movedim(-1, dim)
    dz, dt = both.split([size, size - 1], dim)
    return dz.to(g.dtype), dt.sum_to_size(t.shape).to(t.dtype)


def _save(ctx, inputs, results):
    _, t, _, _, ctx.dim = inputs
    _, basis = results
    ctx.mark_non_differentiable(basis)
    return [basis, t]


def _backward(ctx, g, _):
    basis, t = ctx.saved_tensors
    return (*_vjp(g, basis, t, ctx.dim), None, None, None)


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
    _solve,
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    recorded=_solve_with_basis,
    traced=_solve_with_padded_basis,
    vmap=_vmap,
)
