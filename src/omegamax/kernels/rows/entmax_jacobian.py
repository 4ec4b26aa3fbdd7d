r"""Differentiate entmax in its scores and in alpha, as a function of its output.

With ``s = p^(2 - alpha)`` on the support and ``w = s / sum(s)``,

.. math:: \frac{\partial p}{\partial z} = \mathrm{diag}(s) - \frac{s s^\top}{\sum_i s_i}, \qquad
          \frac{\partial p}{\partial \alpha} = \frac{\partial p}{\partial z} c, \qquad
          c_i = -\frac{\partial}{\partial e} \frac{p_i^e - 1}{e}, \quad e = \alpha - 1.

The weights span hundreds of orders of magnitude: 1e54 for ``p = 1e-3`` at alpha = 20, 1e-300 for ``p = 1e-300`` at
alpha = 1. The Jacobian does not see a constant, so every direction is measured from its value at the entry of the
largest weight, the anchor: that entry's own product is what the others leave, and no large number is subtracted from
another. Automatic differentiation of these formulas would bring the differences back, hence the rules below.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor
from torch.autograd import Function

from omegamax._numerics import on_support, phi, psi, rho
from omegamax._torch_internals import in_forward_mode, inside_jvp_rule

Alpha = float | Tensor


def entmax_vjp(p: Tensor, g: Tensor, alpha: Alpha, dim: int) -> Tensor:
    """Multiply the Jacobian at ``p`` by ``g``; an entry too large for the dtype is infinite, with its sign."""
    return _Product.apply(p, g, alpha, dim) if _may_be_differentiated() else _multiply(p, g, alpha, dim)


def entmax_in_alpha(p: Tensor, alpha: Alpha, dim: int) -> Tensor:
    """Differentiate entmax in alpha, entry by entry; zero at infinity."""
    return _InAlpha.apply(p, alpha, dim) if _may_be_differentiated() else _in_alpha(p, alpha, dim)


def alpha_vjp(p: Tensor, g: Tensor, alpha: Alpha, dim: int) -> Tensor:
    """Return the gradient of ``<g, p>`` in alpha, one scalar for each row."""
    change = entmax_in_alpha(p, alpha, dim)
    # The changes sum to zero: a common part of g would meet their rounding.
    most = p.argmax(dim, keepdim=True)
    return torch.where(p > 0, (g - g.gather(dim, most)) * change, 0.0).sum(dim, keepdim=True)


def _may_be_differentiated() -> bool:
    """Tell whether derivatives of the derivatives may be wanted, and rules for them can be used.

    Batched gradients by torch's older vmap know no rules; inside a rule at a level of torch.func the formulas below are
    differentiated as they stand.
    """
    return (torch.is_grad_enabled() or in_forward_mode()) and not inside_jvp_rule()


class _EntryWeights(NamedTuple):
    """The weights ``s = p^(2 - alpha)`` of the entries: where they are, and how they compare."""

    support: Tensor
    safe: Tensor  # p, with ones off the support
    anchor: Tensor  # position of the largest weight, with size 1 along dim
    most: Tensor  # p there
    share: Tensor  # w
    a: Alpha  # alpha, with 2 for infinity, where nothing is in the support
    steep: bool | Tensor


def _weigh(p: Tensor, alpha: Alpha, dim: int) -> _EntryWeights:
    support, safe = on_support(p)
    steep: bool | Tensor
    if isinstance(alpha, Tensor):
        flat = alpha.isinf()
        support, alpha, steep = support & ~flat, torch.where(flat, 2.0, alpha), alpha > 2
    else:
        steep = alpha > 2
    anchor = _find_anchor(safe, support, steep, dim)
    most = safe.gather(dim, anchor)
    ratio = torch.where(support, (safe / most).pow(2 - alpha), 0.0)
    return _EntryWeights(support, safe, anchor, most, ratio / ratio.sum(dim, keepdim=True).clamp(min=1), alpha, steep)


def _find_anchor(safe: Tensor, among: Tensor, steep: bool | Tensor, dim: int) -> Tensor:
    """Return the position of the largest weight: of the smallest probability for alpha > 2, else of the largest."""
    if isinstance(steep, Tensor):
        return torch.where(among, torch.where(steep, safe, -safe), math.inf).argmin(dim, keepdim=True)
    return torch.where(among, safe if steep else -safe, math.inf).argmin(dim, keepdim=True)


def _multiply(p: Tensor, g: Tensor, alpha: Alpha, dim: int) -> Tensor:
    if not isinstance(alpha, Tensor) and alpha == math.inf:
        return torch.zeros_like(g)
    w = _weigh(p, alpha, dim)
    centred, mean, second = _centre(w, g, dim)
    out = torch.where(centred == 0, 0.0, w.safe.pow(2 - w.a) * centred)
    if w.steep is not False:
        # Next to the anchor the mean may be too small a number, where its product with the weight is not.
        still = g == g.gather(dim, w.anchor)
        out = torch.where(still & (mean != 0), -(w.safe * (second / w.most)).pow(2 - w.a) * mean, out)
    return torch.where(w.support, out, 0.0)


def _centre(w: _EntryWeights, g: Tensor, dim: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return ``g`` minus its mean by the weights; then that mean over ``s_second / s_anchor``, and ``p_second``.

    Weights overflow, and their products with ``g`` may do so with either sign. Those are compared with the largest of
    them, at the second anchor.
    """
    h = torch.where(w.support, g - g.gather(dim, w.anchor), 0.0)
    if w.steep is False:
        mean = (w.share * h).sum(dim, keepdim=True)
        return h - mean, mean, w.most
    moves = h != 0
    second = w.safe.gather(dim, _find_anchor(w.safe, moves, w.steep, dim))
    mean = torch.where(moves, (w.safe / second).pow(2 - w.a) * h, 0.0).sum(dim, keepdim=True)
    mean = mean * w.share.gather(dim, w.anchor)
    return h - (second / w.most).pow(2 - w.a) * mean, mean, second


class _Product(Function):
    """The product ``J g``. With it, ``<v, J g> = sum s_i g'_i v'_i`` over centred ``g'`` and ``v'``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(p, g, alpha, dim):
        return _multiply(p, g, alpha, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        p, g, alpha, ctx.dim = inputs
        _save(ctx, alpha, p, g)

    @staticmethod
    def backward(ctx, v):
        p, g, alpha = _load(ctx)
        wanted = ctx.needs_input_grad
        dp = dg = dalpha = None
        if wanted[1]:
            dg = entmax_vjp(p, v, alpha, ctx.dim)
        if wanted[0] or wanted[2]:
            w = _weigh(*_to_float64(p, alpha), ctx.dim)
            both = torch.where(w.support, _centre(w, g.double(), ctx.dim)[0], 0.0)
            both = both * torch.where(w.support, _centre(w, v.double(), ctx.dim)[0], 0.0)
        if wanted[0]:
            dp = _multiply_power((2 - w.a) * both, w.safe, 1 - w.a)
            # Held at the largest number: infinities of ties would not cancel.
            most = torch.finfo(p.dtype).max
            dp = dp.clamp(-most, most).to(p.dtype)
        if wanted[2]:
            terms = _multiply_power(-w.safe.log() * both, w.safe, 2 - w.a).sum(ctx.dim, keepdim=True)
            dalpha = terms.sum_to_size(alpha.shape).to(alpha.dtype)
        return dp, dg, dalpha, None

    @staticmethod
    def jvp(ctx, dp, dg, dalpha, _dim):
        p, g, alpha = _load(ctx)
        out = torch.zeros_like(p) if dg is None else entmax_vjp(p, dg, alpha, ctx.dim)
        if dp is not None or dalpha is not None:
            w = _weigh(*_to_float64(p, alpha), ctx.dim)
            move = _centre(w, g.double(), ctx.dim)[0] * _change_log_weight(w, dp, dalpha)
            out = out + entmax_vjp(p, move.to(p.dtype), alpha, ctx.dim)
        return out


def _in_alpha(p: Tensor, alpha: Alpha, dim: int, order: int = 1) -> Tensor:
    """Compute ``J c`` for ``c`` the first or second derivative in e of minus the deformed logarithm.

    With ``L = log(p / p_anchor)``, ``s (c - c_anchor)`` is ``-p L`` times the integral of ``exp(-e L u) log(t)^order``
    over u in [0, 1], where ``log t = log p - L u`` leads from the entry to the anchor: one sign, no difference.
    """
    if not isinstance(alpha, Tensor) and alpha == math.inf:
        return torch.zeros_like(p)
    w = _weigh(p, alpha, dim)
    e = w.a - 1
    apart = (w.safe - w.most) / w.most
    log_p, log_most = w.safe.log(), w.most.log()
    close = apart.abs() < 0.5
    length = torch.where(close, torch.where(close, apart, 0.0).log1p(), log_p - log_most)
    y = e * length
    # The path is followed from the end where the exponential is largest.
    turned = y < 0
    start = torch.where(turned, log_most, log_p)
    step = torch.where(turned, length, -length)
    scale = torch.where(turned, w.safe.pow(1 - e) * w.most.pow(e), w.safe)
    t = -y.abs()
    if order == 1:
        mean = start * phi(t) + step * psi(t)
    else:
        mean = start.square() * phi(t) + 2 * start * step * psi(t) + step.square() * rho(t)
    moves = torch.where(w.support, -scale * length * mean, 0.0)
    return moves - w.share * moves.sum(dim, keepdim=True)


class _InAlpha(Function):
    """The derivative ``D = dp/dalpha = J c``, where ``dc/dp = -log(p) / s``."""

    generate_vmap_rule = True

    @staticmethod
    def forward(p, alpha, dim):
        return _in_alpha(p, alpha, dim)

    @staticmethod
    def setup_context(ctx, inputs, output):
        p, alpha, ctx.dim = inputs
        _save(ctx, alpha, p)

    @staticmethod
    def backward(ctx, v):
        p, alpha = _load(ctx)
        dim = ctx.dim
        change = entmax_in_alpha(p, alpha, dim).double()
        w = _weigh(*_to_float64(p, alpha), dim)
        centred = torch.where(w.support, _centre(w, v.double(), dim)[0], 0.0)
        dp = dalpha = None
        if ctx.needs_input_grad[0]:
            dp = (centred * _change_log_weight(w, change, 1.0)).to(p.dtype)
        if ctx.needs_input_grad[1]:
            curve = _in_alpha(*_to_float64(p, alpha), dim, order=2)
            terms = (centred * (curve - w.safe.log() * change)).sum(dim, keepdim=True)
            dalpha = terms.sum_to_size(alpha.shape).to(alpha.dtype)
        return dp, dalpha, None

    @staticmethod
    def jvp(ctx, dp, dalpha, _dim):
        p, alpha = _load(ctx)
        w = _weigh(*_to_float64(p, alpha), ctx.dim)
        move = entmax_in_alpha(p, alpha, ctx.dim).double() * _change_log_weight(w, dp, dalpha)
        if dp is not None:
            move = move - w.safe.log() * dp
        move = torch.where(w.support, _multiply_power(move, w.safe, w.a - 2), 0.0)
        out = entmax_vjp(w.safe * w.support, move, _to_float64(p, alpha)[1], ctx.dim)
        if dalpha is not None:
            out = out + dalpha * _in_alpha(*_to_float64(p, alpha), ctx.dim, order=2)
        return out.to(p.dtype)


def _change_log_weight(w: _EntryWeights, dp: Tensor | None, dalpha: Tensor | float | None) -> Tensor:
    """Return the change of ``log s = (2 - alpha) log p`` with p and alpha; zero off the support."""
    change = torch.zeros_like(w.safe)
    if dp is not None:
        change = change + (2 - w.a) * dp / w.safe
    if dalpha is not None:
        change = change - w.safe.log() * dalpha
    return torch.where(w.support, change, 0.0)


def _multiply_power(factor: Tensor, p: Tensor, power: float | Tensor) -> Tensor:
    """Compute ``factor * p^power``, zero where the factor is, however large the power."""
    return torch.where(factor == 0, 0.0, factor * p.clamp(min=torch.finfo(p.dtype).tiny).pow(power))


def _to_float64(p: Tensor, alpha: Alpha) -> tuple[Tensor, Alpha]:
    """Return both in float64: factors of a second derivative leave the range of float32 before their product does."""
    return p.double(), alpha.double() if isinstance(alpha, Tensor) else alpha


def _save(ctx, alpha: Alpha, *tensors: Tensor) -> None:
    ctx.number = None if isinstance(alpha, Tensor) else alpha
    tensors = (*tensors, alpha) if isinstance(alpha, Tensor) else tensors
    ctx.save_for_backward(*tensors)
    ctx.save_for_forward(*tensors)


def _load(ctx) -> tuple:
    return ctx.saved_tensors if ctx.number is None else (*ctx.saved_tensors, ctx.number)
