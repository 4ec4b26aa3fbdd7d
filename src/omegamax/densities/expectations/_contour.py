r"""Gaussian basis functions under any compact beta-Gaussian, in any dimension, by one contour integral.

.. math:: E_p[\psi_j] = e^B \, \frac{\Gamma(M)}{2 \pi i} \int e^s s^{-M} k(s / h) \, ds, \qquad
          M = \tfrac{1}{\alpha - 1} + 1, \quad h = \tfrac{c}{\alpha - 1}

from :math:`y_+^{M-1} = \frac{\Gamma(M)}{2 \pi i} \int e^{sy} s^{-M} ds`, with k of :mod:`._frame` and the path of
:mod:`omegamax.kernels.contour.reference`. The integral is the same over every path, so its derivatives are those of the
integrand on a fixed one: further sums over the same nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._custom_op import refuse_forward_mode
from omegamax._operation import Operation
from omegamax._torch_internals import in_transform
from omegamax.densities.expectations._frame import Frame, Wide, log_kernel
from omegamax.kernels.contour import count_results, log_gamma_scale, log_one_plus, place_nodes


def integrate_contour(pair: Frame, wide: Wide, fine: bool = True) -> Tensor:
    """Return ``E_p[psi_j]`` for ``alpha > 1``, ``[*, J]``.

    ``fine=False`` is for results that end up in single precision.
    """
    M, h = 1 + 1 / wide.e, wide.c / wide.e
    inputs = (*pair, M.unsqueeze(-1), h.unsqueeze(-1), wide.B.unsqueeze(-1))
    return _integral(*inputs, fine)[0]


def integrate_on_path(sigma: Tensor, delta: Tensor, spread: Tensor, M: Tensor, h: Tensor, B: Tensor) -> Tensor:
    """Return the integral, written so that torch can differentiate it any number of times."""
    with torch.no_grad():
        width = 2 * h.unsqueeze(-1) * sigma.diagonal(dim1=-2, dim2=-1)
        a, b = (spread / width).expand_as(delta), delta.square() / width
        s0, zeta, weight = place_nodes(M.expand(delta.shape[:-1]), a, b)
        s = s0.unsqueeze(-1) * (1 + zeta)
    # Everything is measured from s0: exp(s - M log s) Gamma(M) is a product of huge and tiny numbers.
    lead = s0 / M - 1
    start = B + log_gamma_scale(M) + M * (lead - lead.log1p())
    path = s0.unsqueeze(-1) * zeta - M.unsqueeze(-1) * log_one_plus(zeta)
    log_f = start.unsqueeze(-1) + path + log_kernel(Frame(sigma, delta, spread), s / h.unsqueeze(-1))
    return (log_f.exp() * weight).real.sum(-1)


def _differentiate_on_path(g: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.func.vjp(integrate_on_path, *inputs)[1](g)


# Axes of sigma, delta, spread, M, h and B that are not batch.
_RANKS = (3, 2, 2, 1, 1, 1)


def _forward(sigma, delta, spread, M, h, B, fine):
    """Return the value, and with it all first derivatives ``[*, J, count_results(n)]``.

    They come out of the same sums.
    """
    diagonal = sigma.diagonal(dim1=-2, dim2=-1)
    both = kernels.solve("contour", M, h, B, diagonal, delta, spread, fine)
    return both[..., 0].clone(), both  # an operation's results share no memory


def _save(ctx, inputs, results):
    ctx.mark_non_differentiable(results[1])
    return [*inputs[:-1], results[1]]


def _backward(ctx, g, _):
    *inputs, both = ctx.saved_tensors
    return (*_ContourGradient.apply(g, both, *inputs), None)


def _jvp(ctx, *tangents):
    *inputs, both = ctx.saved_tensors
    moves = []
    for partial, rank, tangent in zip(_slopes(both, inputs), _RANKS, tangents[:-1], strict=True):
        if tangent is not None:
            move = partial * tangent
            moves.append(move if rank == 1 else move.flatten(-rank + 1).sum(-1))
    return sum(moves[1:], moves[0]).expand_as(both[..., 0]), None


class _ContourGradient(torch.autograd.Function):
    """Gradients from the first derivatives at hand; only theirs need the integrand in full."""

    @staticmethod
    def forward(g, both, *inputs):
        weighted = _partials(g.unsqueeze(-1) * both)
        return tuple(p.sum_to_size(x.shape) for p, x in zip(weighted, inputs, strict=True))

    @staticmethod
    def setup_context(ctx, inputs, output):
        kept = _save_gradient(ctx, inputs, output)
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)

    @staticmethod
    def backward(ctx, *gradients):
        return _gradient_backward(ctx, *gradients)

    @staticmethod
    def jvp(ctx, g, _, *tangents):
        # torch makes no dual of an expanded tensor.
        at, along = ([t.contiguous() for t in group] for group in (ctx.saved_tensors, (g, *tangents)))
        return torch.func.jvp(_differentiate_on_path, tuple(at), tuple(along))[1]

    @staticmethod
    def vmap(info, in_dims, *inputs):
        # Every input must have the mapped axis, since every gradient does.
        return _ContourGradient.apply(*_in_front(info.batch_size, in_dims, inputs, (1, 2, *_RANKS))), (0,) * 6


def _slopes(both: Tensor, inputs: list[Tensor]) -> Sequence[Tensor]:
    """Return the derivatives for each row, with derivatives of their own where somebody may ask for these."""
    if not in_transform() and not any(x.requires_grad for x in inputs):
        return _partials(both)
    rows = both.shape[:-1]
    each = [x.expand(*rows, *x.shape[x.dim() - rank + 1 :]) for x, rank in zip(inputs, _RANKS, strict=True)]
    return _gradient.op(torch.ones_like(both[..., 0]), both, *each)


def _partials(both: Tensor) -> list[Tensor]:
    """Return derivatives in sigma ``[*, J, n, n]``, delta and spread ``[*, J, n]``, M, h and B ``[*, J]``."""
    n = next(n for n in range(1, both.shape[-1]) if count_results(n) == both.shape[-1])
    triangle = n * (n + 1) // 2
    value, in_sigma, in_delta, in_spread, last = both.split([1, triangle, n, n, 2], -1)
    if n > 1:
        # The index of (i, j) in the lower triangle, row by row.
        i, j = torch.arange(n, device=both.device)[:, None], torch.arange(n, device=both.device)
        high, low = torch.maximum(i, j), torch.minimum(i, j)
        in_sigma = in_sigma.index_select(-1, (high * (high + 1) // 2 + low).flatten())
    in_M, in_h = last.unbind(-1)
    return [in_sigma.reshape(*both.shape[:-1], n, n), in_delta, in_spread, in_M, in_h, value.squeeze(-1)]


def _in_front(count: int, in_dims: tuple, tensors: tuple, ranks: tuple[int, ...]) -> list[Tensor]:
    """Return tensors of a mapped call with the mapped axis first and as many batch axes each.

    They then broadcast.
    """
    moved = [t.expand(count, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(tensors, in_dims, strict=True)]
    batch = max(t.dim() - rank for t, rank in zip(moved, ranks, strict=True))
    return [
        t.reshape(count, *(1,) * (batch - t.dim() + rank), *t.shape[1:]) for t, rank in zip(moved, ranks, strict=True)
    ]


def _shape(sigma, delta, spread, M, h, B, fine):
    *rows, n = delta.shape
    return delta.new_empty(rows), delta.new_empty((*rows, count_results(n)))


def _vmap(info, in_dims, *inputs):
    *tensors, fine = inputs
    return _integral(*_in_front(info.batch_size, in_dims[:-1], tensors, _RANKS), fine), (0, 0)


_integral = Operation(
    "contour",
    "(Tensor sigma, Tensor delta, Tensor spread, Tensor M, Tensor h, Tensor B, bool fine) -> (Tensor, Tensor)",
    _forward,
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap=_vmap,
)


def _run_gradient(g, both, *inputs):
    # An operation's results share no memory with its arguments.
    return tuple(x.clone(memory_format=torch.contiguous_format) for x in _ContourGradient.forward(g, both, *inputs))


def _save_gradient(ctx, inputs, results):
    g, _, *rest = inputs
    return [g, *rest]


def _gradient_backward(ctx, *gradients):
    at = ctx.saved_tensors
    gradients = tuple(torch.zeros_like(x) if d is None else d for d, x in zip(gradients, at[1:], strict=True))
    g, *inputs = torch.func.vjp(_differentiate_on_path, *at)[1](gradients)
    return (g, None, *inputs)


def _gradient_vmap(info, in_dims, *inputs):
    return _gradient(*_in_front(info.batch_size, in_dims, inputs, (1, 2, *_RANKS))), (0,) * 6


# The gradients as an operation, for rules of forward mode, in which there can be no Function.
_gradient = Operation(
    "contour_gradient",
    "(Tensor g, Tensor both, Tensor sigma, Tensor delta, Tensor spread, Tensor M, Tensor h, Tensor B) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)",
    _run_gradient,
    lambda g, both, *inputs: tuple(torch.empty_like(x, memory_format=torch.contiguous_format) for x in inputs),
    save=_save_gradient,
    backward=_gradient_backward,
    jvp=refuse_forward_mode(
        "expect", "for a second derivative take the inner one in reverse mode, as torch.func.hessian does"
    ),
    vmap=_gradient_vmap,
)
