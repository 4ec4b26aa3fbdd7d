"""The loss of a projection chunk by chunk: the scores of some tokens, their losses, their part of the gradients."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax.losses import _rows
from omegamax.losses._class_blocks import HALF, PRODUCT_ENTRIES, ScoresAgain, add_product, blocks, write_by_classes
from omegamax.losses._fenchel_young import clip_negative, full_precision
from omegamax.losses._support import SupportGradients
from omegamax.losses._targets import at_class
from omegamax.maps import Tsallis
from omegamax.maps.conjugate import conjugate_minus, residual, scale_residual


class LinearScores(NamedTuple):
    """What the scores ``hidden @ weight.T + bias`` and their loss are made of."""

    hidden: Tensor  # [N, D]
    weight: Tensor  # [V, D]
    bias: Tensor | None  # [V]
    alpha: float | Tensor


class ChunkOptions(NamedTuple):
    """How many tokens are scored at a time, and the label smoothing of their targets."""

    chunk: int
    smoothing: float


def losses_and_gradients(
    inputs: LinearScores,
    index: Tensor,
    each: Tensor,
    scale: Tensor | None,
    options: ChunkOptions,
    wanted: Sequence[bool],
) -> tuple[Tensor, list[Tensor | None]]:
    """Losses of all tokens, and the gradients that are wanted of their sum weighted by ``each``.

    Args:
        index: a class for each token, ``[N]``.
        each: the weights of the tokens, ``[N]`` in float32 at least; 0 for those that do not count.
        scale: what the gradients are multiplied by after all: small numbers of half precision are lost.
        wanted: which gradients, in the order of the inputs.
    """
    losses = torch.empty_like(each)
    parts = list(blocks(len(index), options.chunk))
    again = ScoresAgain(inputs, index, each, options) if ScoresAgain.pays(inputs, options, len(parts)) else None
    sums = Sums(inputs, wanted, scale, again, alone=len(parts) == 1)
    for part in parts:
        _step(inputs, sums, part, index[part], each[part], options, losses[part])
    for part in sums.support.pop_missed(parts):
        sums.support.given_up, sums.wanted = True, (*wanted[:3], False)  # alpha has had its part
        _step(inputs, sums, part, index[part], each[part], options, losses[part])
    return losses, sums.total()


def tangents_of_losses(inputs: LinearScores, changes: LinearScores, index: Tensor, options: ChunkOptions) -> Tensor:
    """Compute how the losses of all tokens move with the inputs, ``[N]``; None is a change that is none."""
    hidden, weight, bias, alpha = inputs
    d_hidden, d_weight, d_bias, d_alpha = changes
    moves = []
    for start in range(0, len(index), options.chunk):
        part = slice(start, start + options.chunk)
        z = full_precision(F.linear(hidden[part], weight, bias))
        omega = Tsallis(alpha.to(z.dtype).reshape(1, 1) if isinstance(alpha, Tensor) else alpha)
        p, y = omega.argmax(z), at_class(z, options.smoothing)
        dz = torch.zeros_like(z)
        for change in (
            None if d_hidden is None else F.linear(d_hidden[part], weight),
            None if d_weight is None else F.linear(hidden[part], d_weight),
            d_bias,
        ):
            dz = dz if change is None else dz + change.to(z.dtype)
        move = (dz * residual(p, index[part], options.smoothing)).sum(-1)
        if d_alpha is not None:
            slope = omega.parameter_gradients(z, p)[0] - omega.parameter_gradients(z, y)[0]
            move = move + slope.squeeze(-1) * d_alpha.to(z.dtype).reshape(())  # type: ignore[union-attr]
        moves.append(move)
    return torch.cat(moves) if moves else hidden.new_zeros(0, dtype=torch.promote_types(hidden.dtype, torch.float32))


def _step(
    inputs: LinearScores, sums: Sums, part: slice, index: Tensor, each: Tensor, options: ChunkOptions, losses: Tensor
) -> None:
    scores = F.linear(inputs.hidden[part], inputs.weight, inputs.bias)
    step = _by_kernels if _rows.applies(scores, Tsallis(inputs.alpha)) else _by_torch
    step(inputs, sums, part, scores, index, each, options, losses)


class Sums:
    """Gradients summed over chunks, in single precision at least, and rounded once.

    Args:
        scale: what they are multiplied by after all.
        again: for the gradient in the weights by blocks of classes, instead of a sum over chunks.
        alone: whether there is one chunk only, so that nothing is summed up.
    """

    def __init__(
        self,
        inputs: LinearScores,
        wanted: Sequence[bool],
        scale: Tensor | None,
        again: ScoresAgain | None,
        alone: bool,
    ):
        self.inputs = inputs
        self.wanted = wanted
        self.scale = scale
        self.again = again
        self.alone = alone
        self.hidden = torch.empty_like(inputs.hidden) if wanted[0] else None
        self.weight: Tensor | None = None  # in single precision at least, without the scale
        self.rounded: Tensor | None = None  # in the precision of the weights, with the scale
        self.bias = _wide_zeros(inputs.bias) if wanted[2] and inputs.bias is not None else None
        self.alpha = torch.zeros_like(inputs.alpha) if wanted[3] else None  # type: ignore[arg-type]
        self.support = SupportGradients(inputs)

    def add(self, part: slice, d_scores: Tensor, state: Tensor | None = None) -> None:
        """Add the part of some tokens, given the gradient in all their scores, and the state a kernel made it from."""
        if self.hidden is not None:
            torch.mm(d_scores, self.inputs.weight, out=self.hidden[part])
        if self.bias is not None:
            self.bias += d_scores.sum(0, dtype=self.bias.dtype)
        if not self.wanted[1]:
            return
        hidden = self.inputs.hidden[part]
        if self.again is not None and state is not None:
            self.again.keep(part, state)
        elif self.alone and hidden.dtype in HALF:
            block = max(PRODUCT_ENTRIES // max(hidden.shape[1], 1), 1)
            self.rounded = write_by_classes(self.inputs, self.scale, block, lambda classes: d_scores[:, classes])
        else:
            self.weight = add_product(self.weight, d_scores.T, hidden)

    def add_alpha(self, slopes: Tensor) -> None:
        self.alpha += slopes.sum().reshape(self.alpha.shape).to(self.alpha.dtype)  # type: ignore[operator, union-attr]

    def total(self) -> list[Tensor | None]:
        """Return the gradients times the scale, in the dtypes of the inputs."""
        dtype, scale = self.inputs.hidden.dtype, self.scale
        if self.again is not None and self.again.kept:
            self.rounded = write_by_classes(self.inputs, scale, self.again.block, self.again.d_scores)
        if self.wanted[1] and self.weight is None:
            # What the lists add is a sum in one go for each row: none needs more precision than its result.
            weight = torch.zeros_like(self.inputs.weight) if self.rounded is None else self.rounded
            self.support.add_to(weight, None, scale)
            self.support.add_to(None, self.bias, None)
        else:
            self.support.add_to(self.weight, self.bias, None)
            weight = _scale(self.weight, scale, dtype)  # type: ignore[assignment]
        found = [_scale(self.hidden, scale, dtype), weight, _scale(self.bias, scale, dtype)]
        return [*found, None if self.alpha is None else _scale(self.alpha, scale, self.alpha.dtype)]


def _by_torch(inputs, sums, part, scores, index, each, options, losses) -> None:
    """Compute gradients in plain torch, without a graph: they are written down."""
    z = full_precision(scores)
    omega = Tsallis(_by_row(inputs.alpha, z))
    p = omega.argmax(z)
    y = at_class(z, options.smoothing)
    value = conjugate_minus(omega, z, index, p=p, smoothing=options.smoothing)
    losses.copy_(clip_negative(value + omega(y)))
    if any(sums.wanted[:3]):
        sums.add(part, scale_residual(each.unsqueeze(-1), p, index, options.smoothing).to(scores.dtype))
    if sums.wanted[3]:
        slope = omega.parameter_gradients(z, p)[0] - omega.parameter_gradients(z, y)[0]
        sums.add_alpha(each * slope.squeeze(-1))


def _by_kernels(inputs, sums, part, scores, index, each, options, losses) -> None:
    """Put the gradient in place of the scores; or, if few of its entries are not zero, list these."""
    from omegamax.kernels.losses.triton import launcher as loss

    alpha = inputs.alpha
    if isinstance(alpha, Tensor):
        alpha = alpha.detach().reshape(1).expand(len(scores)).float()
    learn = sums.wanted[3]
    value, state, slope = loss.entmax_loss(scores, index, alpha, options.smoothing, learn)
    if options.smoothing:
        y, omega = at_class(scores, options.smoothing), Tsallis(_by_row(inputs.alpha, value))
        value += omega(y)
        slope = slope - omega.parameter_gradients(scores, y)[0].squeeze(-1) if learn else slope
    losses.copy_(value.clamp_(min=0))
    if learn:
        sums.add_alpha(each * slope)
    if not any(sums.wanted[:3]):
        return
    if not options.smoothing and sums.support.takes(part, scores, index, state, each, alpha, sums.hidden):
        return
    sums.add(part, loss.entmax_loss_vjp(scores, index, state, each, alpha, options.smoothing, in_place=True), state)


def _by_row(alpha: float | Tensor, like: Tensor) -> float | Tensor:
    return alpha.detach().to(like.dtype).reshape(1, 1) if isinstance(alpha, Tensor) else alpha


def _scale(x: Tensor | None, scale: Tensor | None, dtype: torch.dtype) -> Tensor | None:
    if x is None or scale is None:
        return x if x is None else x.to(dtype)
    return torch.mul(x, scale, out=x if x.dtype == dtype else torch.empty_like(x, dtype=dtype))


def _wide_zeros(x: Tensor) -> Tensor:
    return torch.zeros_like(x, dtype=torch.promote_types(x.dtype, torch.float32))
