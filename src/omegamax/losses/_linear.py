"""The loss of a projection onto a large vocabulary, whose scores are never all there at once."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import check_choice, is_integer
from omegamax._checks import check_above, check_floating, is_plain
from omegamax._numerics import returned_dtype
from omegamax._operation import Operation, needs_gradient
from omegamax._torch_internals import in_forward_mode
from omegamax.losses._chunks import ChunkOptions, LinearScores, losses_and_gradients, tangents_of_losses
from omegamax.losses._fenchel_young import REDUCTIONS
from omegamax.losses._targets import check_smoothing, in_range


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
    grows with ``chunk``, not with the number of tokens. On a GPU, where few classes of a chunk have a probability, its
    part of the gradients is summed up over these alone, and takes neither the time nor the memory of products of whole
    matrices. Equal to ``entmax_loss(F.linear(hidden, weight, bias), ...)`` up to rounding; it can be differentiated
    once.

    Args:
        hidden: ``[*, D]``, a vector for each token.
        weight: ``[V, D]``, one row for each class, as in :class:`torch.nn.Linear`.
        target: class indices ``[*]``.
        alpha: in (0, inf], a float or a tensor of one number. Gradients reach it.
        chunk: tokens at a time; by default 256, or as many as make their scores as large as ``hidden`` or ``weight``.
            In half precision several chunks sum up the gradient in ``weight`` in float32, in twice its memory. On a GPU
            chunks of up to D / 4 and 512 tokens do not, for a float alpha up to 2: their scores are computed a second
            time, some classes at a time, which is a third more arithmetic.
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
        chunk = max(weight.shape[1], hidden.numel() // max(weight.shape[0], 1), 256)
    elif not is_integer(chunk) or chunk < 1:
        raise ValueError(f"{name}: chunk must be an integer >= 1, a count of tokens, got {chunk}")
    tokens = hidden.reshape(-1, hidden.shape[-1])
    dtype = returned_dtype(hidden)
    if (
        torch.is_autocast_enabled(hidden.device.type) and hidden.dtype is not torch.float64
    ):  # as F.linear; the loss is computed and returned in float32
        cast = torch.get_autocast_dtype(hidden.device.type)
        tokens, weight, bias = tokens.to(cast), weight.to(cast), None if bias is None else bias.to(cast)
        dtype = torch.promote_types(dtype, torch.float32)
    index, ignored = in_range(name, weight.shape[0], target.reshape(-1), ignore_index)
    inputs = LinearScores(tokens, weight, bias, alpha)
    loss = _loss(inputs, index, ignored, ChunkOptions(int(chunk), float(label_smoothing)), reduction).to(dtype)
    return loss.reshape(target.shape) if reduction == "none" else loss


def _check_shapes(name: str, hidden: Tensor, weight: Tensor, target: Tensor, bias: Tensor | None) -> None:
    for argument, tensor in (("hidden", hidden), ("weight", weight)):
        check_floating(name, argument, tensor, "a floating-point tensor")
    if weight.dim() != 2 or hidden.dim() == 0 or hidden.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"{name}: hidden must have shape [*, D] and weight [V, D], "
            f"got {tuple(hidden.shape)} and {tuple(weight.shape)}"
        )
    if bias is not None:
        check_floating(name, "bias", bias)
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ValueError(f"{name}: bias must have shape ({weight.shape[0]},), got {tuple(bias.shape)}")
    if not isinstance(target, Tensor) or target.is_floating_point() or target.shape != hidden.shape[:-1]:
        given = tuple(target.shape) if isinstance(target, Tensor) else type(target).__name__
        raise ValueError(f"{name}: target must hold class indices of shape {tuple(hidden.shape[:-1])}, got {given}")


def _loss(inputs: LinearScores, index: Tensor, ignored: Tensor, options: ChunkOptions, reduction: str) -> Tensor:
    each = (~ignored).to(torch.promote_types(inputs.hidden.dtype, torch.float32))
    scale = None
    if reduction != "none":
        scale = 1 / each.sum() if reduction == "mean" else each.new_ones(())
    alpha = inputs.alpha
    wanted = [False] * 4
    if scale is not None and not in_forward_mode():  # which has no gradients to keep, only a tangent
        wanted = [needs_gradient(x) for x in inputs]
    tensor, number = (alpha, 0.0) if isinstance(alpha, Tensor) else (None, float(alpha))
    return _operation(*inputs[:3], tensor, index, each, scale, number, *options, wanted)[0]


def _forward(hidden, weight, bias, alpha, index, each, scale, number, chunk, smoothing, wanted):
    """Compute the loss and its gradients, empty if not wanted.

    With a ``scale``, that of a sum, they are ready after the forward pass; else the backward pass does all the work.
    """
    inputs = LinearScores(hidden, weight, bias, number if alpha is None else alpha)
    losses, grads = losses_and_gradients(inputs, index, each, scale, ChunkOptions(chunk, smoothing), wanted)
    return (_reduce(losses, each, scale), *(hidden.new_empty(0) if d is None else d for d in grads))


def _reduce(losses: Tensor, each: Tensor, scale: Tensor | None) -> Tensor:
    # A token that does not count may have a loss that is no number.
    losses = torch.where(each == 0, 0.0, losses)
    return losses if scale is None else losses.sum() * scale


def _shape(hidden, weight, bias, alpha, index, each, scale, number, chunk, smoothing, wanted):
    inputs = (hidden, weight, bias, alpha)
    grads = (torch.empty_like(x) if want else hidden.new_empty(0) for x, want in zip(inputs, wanted, strict=True))
    return (each.new_empty(each.shape if scale is None else ()), *grads)


def _save(ctx, inputs, results):
    *tensors, ctx.number, ctx.chunk, ctx.smoothing, ctx.wanted = inputs
    ctx.backend = kernels.current_backend()
    loss, *grads = results
    ctx.ready, ctx.grads = any(ctx.wanted), None
    if ctx.ready and not is_plain(loss):
        return grads
    # Gradients as large as the weights are given away in the backward pass, without a copy.
    ctx.mark_non_differentiable(*grads)
    if ctx.ready:
        ctx.grads = grads
    return tensors


def _backward(ctx, g, *of_gradients):
    if any(x is not None for x in of_gradients):
        raise _once("a derivative of its gradient")
    if torch.is_grad_enabled() and is_plain(g):
        raise _once("create_graph=True")
    # Who asks again waits for them again.
    grads, ctx.grads, wanted = ctx.grads, None, ctx.wanted
    if grads is not None:
        grads = [grad.mul_(g) if want else None for grad, want in zip(grads, wanted, strict=True)]
    elif ctx.ready and not is_plain(g):
        grads = [g.to(grad.dtype) * grad for grad in ctx.saved_tensors]
    else:
        *inputs, index, each, scale = ctx.saved_tensors
        wanted = list(ctx.needs_input_grad[:4])
        options = (ctx.number, ctx.chunk, ctx.smoothing, wanted)
        if ctx.backend == kernels.current_backend():
            _, *grads = _operation(*inputs, index, each * g, scale, *options)
        else:
            with kernels.backend(ctx.backend):
                _, *grads = _operation(*inputs, index, each * g, scale, *options)
    return (*(grad if want else None for grad, want in zip(grads, wanted, strict=True)), *(None,) * 7)


def _jvp(ctx, *tangents):
    if ctx.ready:
        raise _once("a derivative of its gradient in forward mode")
    *tensors, index, each, scale = ctx.saved_tensors
    alpha = tensors.pop()
    inputs = LinearScores(*tensors, ctx.number if alpha is None else alpha)
    moved = tangents_of_losses(inputs, LinearScores(*tangents[:4]), index, ChunkOptions(ctx.chunk, ctx.smoothing))
    return (_reduce(moved, each, scale), *(None,) * 4)


def _once(given: str) -> RuntimeError:
    return RuntimeError(
        f"linear_entmax_loss: can be differentiated once, got {given}; "
        "for higher derivatives use entmax_loss(F.linear(hidden, weight, bias), target)"
    )


_operation = Operation(
    "linear_entmax_loss",
    "(Tensor hidden, Tensor weight, Tensor? bias, Tensor? alpha, Tensor index, Tensor each, Tensor? scale,"
    " float number, int chunk, float smoothing, bool[] wanted) -> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _forward,
    _shape,
    save=_save,
    backward=_backward,
    jvp=_jvp,
    vmap="loop",
)
