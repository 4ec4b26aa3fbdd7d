"""The loss of a projection chunk by chunk: the scores of some tokens, their losses, their part of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.losses import _rows
from omegamax.losses._fenchel_young import full_precision, non_negative
from omegamax.losses._targets import at_class
from omegamax.omegas import Tsallis
from omegamax.omegas._conjugate import _times_move, conjugate_minus

# By the bytes of a number: so many numbers of a product of matrices take as long, on Hopper, as one that is fetched.
FEW = {2: 256, 4: 32}


class Projection(NamedTuple):
    """What the scores ``hidden @ weight.T + bias`` and their loss are made of."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    alpha: float | Tensor


class Work(NamedTuple):
    """How it is done."""

    chunk: int
    smoothing: float


def losses_and_gradients(
    inputs: Projection, index: Tensor, each: Tensor, scale: Tensor | None, work: Work, wanted: Sequence[bool]
) -> tuple[Tensor, list[Tensor | None]]:
    """Losses of all tokens, and the gradients that are wanted of their sum weighted by ``each``.

    Args:
        index: a class for each token, ``[N]``.
        each: the weights of the tokens, ``[N]`` in float32 at least; 0 for those that do not count.
        scale: what the gradients are multiplied by after all: small numbers of half precision are lost.
        wanted: which gradients, in the order of the inputs.
    """
    losses = torch.empty_like(each)
    sums = Sums(inputs, wanted)
    for start in range(0, len(index), work.chunk):
        part = slice(start, start + work.chunk)
        scores = F.linear(inputs.hidden[part], inputs.weight, inputs.bias)
        step = _by_kernels if not work.smoothing and _rows.applies(scores, Tsallis(inputs.alpha)) else _by_torch
        step(inputs, sums, part, scores, index[part], each[part], work, losses[part])
    return losses, sums.total(scale)


class Sums:
    """Gradients summed over chunks, in single precision at least."""

    def __init__(self, inputs: Projection, wanted: Sequence[bool]):
        self.inputs = inputs
        self.wanted = wanted
        self.hidden = torch.empty_like(inputs.hidden) if wanted[0] else None
        self.weight: Tensor | None = None
        self.bias = _wide_zeros(inputs.bias) if wanted[2] and inputs.bias is not None else None
        self.alpha = torch.zeros_like(inputs.alpha) if wanted[3] else None  # type: ignore[arg-type]
        # Entries of the scores' gradient that wait for the end: tokens, classes, values.
        self.entries: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(self, part: slice, d_scores: Tensor) -> None:
        """The part of some tokens, given the gradient in all their scores."""
        if self.hidden is not None:
            torch.mm(d_scores, self.inputs.weight, out=self.hidden[part])
        if self.wanted[1]:
            if self.weight is None:
                self.weight = _wide_zeros(self.inputs.weight)
            _add_product(self.weight, d_scores.T, self.inputs.hidden[part])
        if self.bias is not None:
            self.bias += d_scores.sum(0, dtype=self.bias.dtype)

    def add_alpha(self, slopes: Tensor) -> None:
        self.alpha += slopes.sum().reshape(self.alpha.shape).to(self.alpha.dtype)  # type: ignore[operator, union-attr]

    def total(self, scale: Tensor | None) -> list[Tensor | None]:
        """The gradients times ``scale``, in the dtypes of the inputs."""
        dtype = self.inputs.hidden.dtype
        if self.entries and self.weight is not None:
            self._add_entries(self.weight, None)
        found = [_scaled(d, scale, dtype) for d in (self.hidden, self.weight, self.bias)]
        if self.wanted[1] and self.weight is None:
            found[1] = d_weight = torch.zeros_like(self.inputs.weight)
            self._add_entries(d_weight, scale)
        return [*found, None if self.alpha is None else _scaled(self.alpha, scale, self.alpha.dtype)]

    def _add_entries(self, weight: Tensor, scale: Tensor | None) -> None:
        if self.entries:
            from omegamax.kernels.triton import loss_support

            tokens, columns, values = (torch.cat(parts) for parts in zip(*self.entries, strict=True))
            values = values if scale is None else values * scale
            loss_support.summed(tokens, columns, values, self.inputs.hidden, weight, add=self.weight is not None)


def _by_torch(inputs, sums, part, scores, index, each, work, losses) -> None:
    """In plain torch, without a graph: the gradients are written down."""
    z = full_precision(scores)
    alpha = inputs.alpha
    omega = Tsallis(alpha.detach().to(z.dtype).reshape(1, 1) if isinstance(alpha, Tensor) else alpha)
    p = omega.argmax(z)
    y = at_class(z, work.smoothing)
    value = conjugate_minus(omega, z, index, p=p, smoothing=work.smoothing)
    losses.copy_(non_negative(value + omega(y)))
    if any(sums.wanted[:3]):
        sums.add(part, _times_move(each.unsqueeze(-1), p, index, work.smoothing).to(scores.dtype))
    if sums.wanted[3]:
        slope = omega.parameter_gradients(z, p)[0] - omega.parameter_gradients(z, y)[0]
        sums.add_alpha(each * slope.squeeze(-1))


def _by_kernels(inputs, sums, part, scores, index, each, work, losses) -> None:
    """The gradient takes the place of the scores; or, if few of its entries are not zero, these are listed."""
    from omegamax.kernels.triton import loss

    alpha = inputs.alpha
    if isinstance(alpha, Tensor):
        alpha = alpha.detach().reshape(1).expand(len(scores)).float()
    value, state, slope = loss.entmax_loss(scores, index, alpha, 0.0, sums.wanted[3])
    losses.copy_(value.clamp_(min=0))
    if sums.wanted[3]:
        sums.add_alpha(each * slope)
    if any(sums.wanted[:3]) and not _by_support(inputs, sums, part, scores, index, each, alpha, state):
        sums.add(part, loss.entmax_loss_vjp(scores, index, state, each, alpha, 0.0, in_place=True))


def _by_support(inputs, sums, part, scores, index, each, alpha, state) -> bool:
    """Whether the support of these tokens is small enough for lists, and has been listed."""
    from omegamax.kernels.triton import loss_support

    few = scores.shape[1] // FEW[scores.dtype.itemsize]
    if sums.weight is not None or not few or (not isinstance(alpha, Tensor) and alpha <= 1):
        return False
    lists = loss_support.listed(scores, index, state, each, alpha, 4 * few)
    most, total = torch.stack([lists.counts.max().long(), lists.counts.sum()]).tolist()
    if most > 4 * few or total > few * len(scores):
        return False
    if sums.hidden is not None:
        loss_support.gathered(lists, inputs.weight, sums.hidden[part])
    there = torch.arange(lists.columns.shape[1], device=scores.device) < lists.counts[:, None]
    columns, values = lists.columns[there], lists.values[there]
    if sums.wanted[1]:
        tokens = torch.arange(part.start, part.start + len(scores), device=scores.device)
        sums.entries.append((tokens.repeat_interleave(lists.counts, output_size=total), columns, values))
    if sums.bias is not None:
        sums.bias.index_add_(0, columns, values.to(sums.bias.dtype))
    return True


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """``total += left @ right``; half precision is multiplied as such and added up in float32."""
    if total.dtype == right.dtype:
        total.addmm_(left, right)
    elif total.is_cuda and "dtype_out" in torch.ops.aten.addmm.overloads():
        torch.addmm(total, left, right, out_dtype=total.dtype, out=total)
    else:
        total.add_(left @ right)


def _scaled(x: Tensor | None, scale: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if x is None or scale is None:
        return x if x is None else x.to(dtype)
    return torch.mul(x, scale, out=x if x.dtype == dtype else torch.empty_like(x, dtype=dtype))


def _wide_zeros(x: Tensor) -> Tensor:
    return torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
