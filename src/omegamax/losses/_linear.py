"""The loss of a projection onto a large vocabulary, whose scores are never all there at once."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._checks import check_above, check_choice, is_whole
from omegamax.losses._fenchel_young import REDUCTIONS
from omegamax.losses._named import entmax_loss
from omegamax.losses._targets import check_smoothing


def linear_entmax_loss(
    hidden: Tensor,
    weight: Tensor,
    target: Tensor,
    alpha: float | Tensor = 1.5,
    chunk: int | None = None,
    *,
    bias: Tensor | None = None,
    ignore_index: int = -100,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Tensor:
    r"""Entmax loss of the scores ``hidden @ weight.T + bias``, a few tokens at a time.

    .. math:: L_\alpha(W h + b;\, y), \qquad \nabla_h = W^\top (p - y), \quad
              \nabla_W = \textstyle\sum_{\text{tokens}} (p - y)\, h^\top

    The scores of a chunk of tokens become its loss and its part of the gradients and are then dropped, so that memory
    grows with ``chunk``, not with the number of tokens. Equal to ``entmax_loss(F.linear(hidden, weight, bias), ...)``
    up to rounding; it can be differentiated once.

    Args:
        hidden: ``[*, D]``, a vector for each token.
        weight: ``[V, D]``, one row for each class, as in :class:`torch.nn.Linear`.
        target: class indices ``[*]``.
        alpha: in (0, inf], a float or a tensor of one number. Gradients reach it.
        chunk: tokens at a time; by default 256, or as many as make their scores as large as ``hidden``.
        bias: ``[V]``.
        ignore_index, reduction, label_smoothing: as in :func:`~omegamax.entmax_loss`.

    Returns:
        A scalar, or ``[*]`` without reduction, which computes the scores again in the backward pass.

        >>> hidden, weight = torch.eye(2), torch.tensor([[1.0, 3.0], [0.0, 0.5]])
        >>> linear_entmax_loss(hidden, weight, torch.tensor([0, 0]), reduction="none")
        tensor([0.0617, 0.0000])

    Reference: Peters, Niculae & Martins (ACL 2019) for the loss.
    """
    name = "linear_entmax_loss"
    _check_shapes(name, hidden, weight, target, bias)
    check_choice(name, "reduction", reduction, REDUCTIONS)
    check_smoothing(name, label_smoothing)
    check_above(name, "alpha", alpha, 0.0)
    if isinstance(alpha, Tensor) and alpha.numel() != 1:
        raise ValueError(f"{name}: alpha must be a float or a tensor of one number, got shape {tuple(alpha.shape)}")
    if chunk is None:
        chunk = max(hidden.numel() // max(weight.shape[0], 1), 256)
    elif not is_whole(chunk) or chunk < 1:
        raise ValueError(f"{name}: chunk must be a whole number of tokens, at least 1, got {chunk}")
    options = {"ignore_index": ignore_index, "label_smoothing": label_smoothing}
    tokens, classes = hidden.reshape(-1, hidden.shape[-1]), target.reshape(-1)
    loss = _LinearLoss.apply(tokens, weight, bias, alpha, classes, int(chunk), reduction, options)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _check_shapes(name: str, hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None) -> None:
    for argument, tensor in (("hidden", hidden), ("weight", weight)):
        if not isinstance(tensor, Tensor) or not tensor.is_floating_point():
            kind = tensor.dtype if isinstance(tensor, Tensor) else type(tensor).__name__
            raise TypeError(f"{name}: {argument} must be a floating-point tensor, got {kind}")
    if weight.dim() != 2 or hidden.dim() == 0 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name}: hidden must have shape [*, D] and weight [V, D], "
            f"got {tuple(hidden.shape)} and {tuple(weight.shape)}"
        )
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{name}: bias must have shape ({weight.shape[0]},), got {tuple(bias.shape)}")
    if not isinstance(target, Tensor) or target.is_floating_point() or target.shape != hidden.shape[:-1]:
        given = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"{name}: target must hold class indices of shape {tuple(hidden.shape[:-1])}, got {given}")


class _LinearLoss(torch.autograd.Function):
    """Reduced, the gradients are ready after the forward pass, up to one factor; else the backward pass does all."""

    @staticmethod
    def forward(ctx, hidden, weight, bias, alpha, target, chunk, reduction, options):
        ctx.work = (target, chunk, options)
        ctx.ready = reduction != "none"
        inputs = (hidden, weight, bias, alpha)
        count = (target != options["ignore_index"]).sum() if reduction == "mean" else 1
        wanted = ctx.needs_input_grad[:4] if ctx.ready else (False,) * 4
        losses, grads = _chunks(inputs, target, chunk, options, wanted, None)
        if ctx.ready:
            ctx.save_for_backward(*[None if g is None else g / count for g in grads])
            return losses.sum() / count
        ctx.number = None if isinstance(alpha, Tensor) else alpha
        ctx.save_for_backward(hidden, weight, bias, alpha if ctx.number is None else None)
        return losses

    @staticmethod
    def backward(ctx, g):
        if torch.is_grad_enabled():
            raise RuntimeError(
                "linear_entmax_loss: can be differentiated once, got create_graph=True; "
                "for higher derivatives use entmax_loss(F.linear(hidden, weight, bias), target)"
            )
        saved = ctx.saved_tensors
        if ctx.ready:
            grads = [None if grad is None else g.to(grad.dtype) * grad for grad in saved]
        else:
            alpha = saved[3] if ctx.number is None else ctx.number
            _, grads = _chunks((*saved[:3], alpha), *ctx.work, ctx.needs_input_grad[:4], g)
        return (*grads, None, None, None, None)


def _chunks(inputs, target, chunk, options, wanted, g):
    """Losses of all tokens, and the gradients of their sum, or of their sum weighted by ``g``, that are wanted."""
    hidden, weight, bias, alpha = inputs
    # Sums over many chunks are kept in single precision at least.
    wide = torch.promote_types(weight.dtype, torch.float32)
    d_hidden = torch.empty_like(hidden) if wanted[0] else None
    d_weight = torch.zeros_like(weight, dtype=wide) if wanted[1] else None
    d_bias = torch.zeros_like(bias, dtype=wide) if wanted[2] else None
    d_alpha = torch.zeros_like(alpha) if wanted[3] else None
    losses = []
    for start in range(0, max(len(hidden), 1), chunk):
        part = slice(start, start + chunk)
        scores = F.linear(hidden[part], weight, bias)
        with torch.set_grad_enabled(any(wanted)):
            scores = scores.detach().requires_grad_(any(wanted))
            a = alpha.detach().reshape(()).requires_grad_(wanted[3]) if isinstance(alpha, Tensor) else alpha
            loss = entmax_loss(scores, target[part], a, reduction="none", **options)
        losses.append(loss.detach())
        if not any(wanted):
            continue
        each = torch.ones_like(loss) if g is None else g[part].to(loss.dtype)
        found = torch.autograd.grad(loss, (scores, a) if wanted[3] else (scores,), each)
        d_scores = found[0]
        if d_hidden is not None:
            d_hidden[part] = d_scores @ weight.to(d_scores.dtype)
        if d_weight is not None:
            rows = hidden[part].to(d_scores.dtype)
            d_weight = d_weight.addmm_(d_scores.T, rows) if rows.dtype is wide else d_weight.add_(d_scores.T @ rows)
        if d_bias is not None:
            d_bias += d_scores.sum(0, dtype=wide)
        if d_alpha is not None:
            d_alpha += found[1].reshape(alpha.shape)
    grads = [d_hidden, *(None if d is None else d.to(like.dtype) for d, like in ((d_weight, weight), (d_bias, bias)))]
    return torch.cat(losses), [*grads, d_alpha]
