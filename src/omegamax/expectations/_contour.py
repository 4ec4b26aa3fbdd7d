r"""Gaussian basis functions under any compact beta-Gaussian, in any dimension, by one contour integral.

.. math:: E_p[\psi_j] = e^B \, \frac{\Gamma(M)}{2 \pi i} \int e^s s^{-M} k(s / h) \, ds, \qquad
          M = \tfrac{1}{\alpha - 1} + 1, \quad h = \tfrac{c}{\alpha - 1}

from :math:`y_+^{M-1} = \frac{\Gamma(M)}{2 \pi i} \int e^{sy} s^{-M} ds`, with k of :mod:`._frame` and the path of
:mod:`omegamax.kernels.steepest`. The integral is the same over every path, so its derivatives are those of the
integrand on a fixed one: further sums over the same nodes.
"""

from __future__ import annotations

import itertools
import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax.expectations._frame import Frame, log_kernel
from omegamax.kernels.steepest import steepest


def contour(pair: Frame, e: Tensor, dilation: Tensor, log_peak: Tensor) -> Tensor:
    """``E_p[psi_j]`` for ``alpha > 1``, ``[*, J]``; ``e = alpha - 1``, ``dilation`` and ``log_peak`` are ``[*]``."""
    size, height = 1 + 1 / e, dilation / e
    integral = _op if torch.compiler.is_compiling() else _Contour.apply
    return integral(*pair, size.unsqueeze(-1), height.unsqueeze(-1), log_peak.unsqueeze(-1))[0]


def on_path(sigma: Tensor, delta: Tensor, spread: Tensor, size: Tensor, height: Tensor, log_peak: Tensor) -> Tensor:
    """The integral, written so that torch can differentiate it any number of times; ``size`` is M, ``height`` h."""
    with torch.no_grad():
        a, b = _canonical(sigma, delta, spread, height)
        s0, zeta, weight = steepest(size.expand(delta.shape[:-1]), a, b)
        s = s0.unsqueeze(-1) * (1 + zeta)
    # Everything is measured from s0: exp(s - M log s) Gamma(M) is a product of huge and tiny numbers.
    path = s0.unsqueeze(-1) * zeta - size.unsqueeze(-1) * torch.log1p(zeta)
    log_f = (log_peak + _start(size, s0)).unsqueeze(-1) + path
    log_f = log_f + log_kernel(Frame(sigma, delta, spread), s / height.unsqueeze(-1))
    return (log_f.exp() * weight).real.sum(-1)


class _Contour(torch.autograd.Function):
    """Value from the compiled sums where there are such, and the sums for the backward pass."""

    @staticmethod
    def forward(sigma, delta, spread, size, height, log_peak):
        a, b = _canonical(sigma, delta, spread, height)
        sums = kernels.solve("contour", size.expand(delta.shape[:-1]), a, b)
        s0 = sums[..., 0]
        w = 1 + 2 * a * s0.unsqueeze(-1)
        start = _start(size, s0) - (w.log() / 2 + b * s0.unsqueeze(-1) / w).sum(-1)
        scaled = (log_peak + start).exp().unsqueeze(-1) * sums[..., 1:]
        return scaled[..., 0].clone(), scaled  # an op's results share no memory

    @staticmethod
    def setup_context(ctx, inputs, output):
        _, scaled = output
        ctx.mark_non_differentiable(scaled)
        ctx.save_for_backward(*inputs, scaled)
        ctx.save_for_forward(*inputs, scaled)
        ctx.set_materialize_grads(False)

    @staticmethod
    def backward(ctx, g, _):
        if g is None:
            return (None,) * 6
        *inputs, scaled = ctx.saved_tensors
        return _ContourGradient.apply(g, scaled, *inputs)

    @staticmethod
    def jvp(ctx, *tangents):
        *inputs, scaled = ctx.saved_tensors
        partials = _partials(scaled, *inputs)
        dsigma, ddelta, dspread, *rest = tangents
        moves = [p * t for p, t in zip(partials[3:], rest, strict=True) if t is not None]
        moves += [(p * t).sum(-1) for p, t in zip(partials[1:3], (ddelta, dspread), strict=True) if t is not None]
        if dsigma is not None:
            moves.append((partials[0] * dsigma).sum((-2, -1)))
        return sum(moves[1:], moves[0]).expand_as(scaled[..., 0]), None

    @staticmethod
    def vmap(info, in_dims, *inputs):
        return _Contour.apply(*_in_front(info.batch_size, in_dims, inputs, _RANKS)), (0, 0)


class _ContourGradient(torch.autograd.Function):
    """Gradients from the sums; only their own derivatives need the integrand in full."""

    @staticmethod
    def forward(g, scaled, *inputs):
        partials = _partials(scaled, *inputs)
        shaped = [g[..., None, None], g.unsqueeze(-1), g.unsqueeze(-1), g, g, g]
        return tuple((f * p).sum_to_size(x.shape) for f, p, x in zip(shaped, partials, inputs, strict=True))

    @staticmethod
    def setup_context(ctx, inputs, output):
        g, _, *rest = inputs
        ctx.save_for_backward(g, *rest)
        ctx.save_for_forward(g, *rest)

    @staticmethod
    def backward(ctx, *gradients):
        g, *inputs = torch.func.vjp(_gradient_on_path, *ctx.saved_tensors)[1](gradients)
        return (g, None, *inputs)

    @staticmethod
    def jvp(ctx, g, _, *tangents):
        # torch makes no dual of an expanded tensor.
        at, along = ([t.contiguous() for t in group] for group in (ctx.saved_tensors, (g, *tangents)))
        return torch.func.jvp(_gradient_on_path, tuple(at), tuple(along))[1]

    @staticmethod
    def vmap(info, in_dims, *inputs):
        # Every input must have the mapped axis, since every gradient does.
        return _ContourGradient.apply(*_in_front(info.batch_size, in_dims, inputs, (1, 2, *_RANKS))), (0,) * 6


def _gradient_on_path(g: Tensor, *inputs: Tensor) -> tuple[Tensor, ...]:
    return torch.func.vjp(on_path, *inputs)[1](g)


# Axes of the inputs of _Contour that are not batch: sigma, delta, spread, then the scalars.
_RANKS = (3, 2, 2, 1, 1, 1)


def _in_front(size: int, in_dims: tuple, tensors: tuple, ranks: tuple[int, ...]) -> list[Tensor]:
    """Tensors of a mapped call with the mapped axis first and as many batch axes each, so that they broadcast."""
    moved = [t.expand(size, *t.shape) if d is None else t.movedim(d, 0) for t, d in zip(tensors, in_dims, strict=True)]
    batch = max(t.dim() - rank for t, rank in zip(moved, ranks, strict=True))
    return [
        t.reshape(size, *(1,) * (batch - t.dim() + rank), *t.shape[1:]) for t, rank in zip(moved, ranks, strict=True)
    ]


def _partials(scaled, sigma, delta, spread, size, height, log_peak) -> list[Tensor]:
    """Derivatives of each value, ``[*, J, n, n]``, twice ``[*, J, n]``, then three times ``[*, J]``.

    ``scaled`` holds the sums of :func:`omegamax.kernels.steepest.contour` after ``s0``.
    """
    n = delta.shape[-1]
    diagonal = sigma.diagonal(dim1=-2, dim2=-1)
    h = height.unsqueeze(-1)
    a, b = _canonical(sigma, delta, spread, height)
    value, logs, cross = scaled[..., 0], scaled[..., 1], scaled[..., 2 + 2 * n :]
    in_b = -scaled[..., 2 : 2 + n]
    in_a = in_b + 2 * b * scaled[..., 2 + n : 2 + 2 * n]
    slant = delta / (h * diagonal)
    turn = a * in_a + b * in_b
    in_sigma = torch.diag_embed(-turn / diagonal)
    for (i, j), c in zip(itertools.combinations(range(n), 2), cross.unbind(-1), strict=True):
        # Twice the same number, half of it for each of the two entries of a symmetric matrix.
        half = c * slant[..., i] * slant[..., j] * height / 2
        place = torch.zeros(n, n).to(half)
        place[i, j] = place[j, i] = 1
        in_sigma = in_sigma + half[..., None, None] * place
    in_size = torch.digamma(size) * value - logs
    return [in_sigma, in_b * slant, in_a / (2 * h * diagonal), in_size, -turn.sum(-1) / height, value]


def _canonical(sigma: Tensor, delta: Tensor, spread: Tensor, height: Tensor) -> tuple[Tensor, Tensor]:
    """``a`` and ``b`` of the path: spread and squared distance in units of the support, ``[*, J, n]``."""
    width = 2 * height.unsqueeze(-1) * sigma.diagonal(dim1=-2, dim2=-1)
    return (spread / width).expand_as(delta), delta.square() / width


def _start(size: Tensor, s0: Tensor) -> Tensor:
    r"""``log(Gamma(M) exp(s0 - M log s0))``"""
    ratio = s0 / size
    return stirling(size) + 0.5 * (2 * math.pi / size).log() + size * (ratio - 1 - (ratio - 1).log1p())


def stirling(x: Tensor) -> Tensor:
    r"""What Stirling's formula leaves: ``lgamma(x) - (x - 1/2) log x + x - log(2 pi) / 2``, for x > 0."""
    large = x > 12
    safe = torch.where(large, 1.0, x)
    direct = torch.lgamma(safe) - (safe - 0.5) * safe.log() + safe - 0.5 * math.log(2 * math.pi)
    r = 1 / torch.where(large, x, 12.0)
    series = torch.full_like(r, -3617 / 122400)
    for coefficient in (1 / 156, -691 / 360360, 1 / 1188, -1 / 1680, 1 / 1260, -1 / 360, 1 / 12):
        series = series * r.square() + coefficient
    return torch.where(large, series * r, direct)


# What tracing sees: dynamo does not look into a Function with forward-mode rules. First derivatives only.
_op = torch.library.custom_op(
    "omegamax::contour",
    lambda *inputs: _Contour.forward(*inputs),
    mutates_args=(),
    schema="(Tensor sigma, Tensor delta, Tensor spread, Tensor size, Tensor height, Tensor log_peak) -> (Tensor, Tensor)",
)


@_op.register_fake
def _fake(sigma, delta, spread, size, height, log_peak):
    *rows, n = delta.shape
    return delta.new_empty(rows), delta.new_empty((*rows, 2 + 2 * n + n * (n - 1) // 2))


def _save(ctx, inputs, output):
    ctx.save_for_backward(*inputs, output[1])


def _backward(ctx, g, _):
    *inputs, scaled = ctx.saved_tensors
    return _ContourGradient.forward(g, scaled, *inputs)


_op.register_autograd(_backward, setup_context=_save)
