"""Gradients of a projection through the support: lists of the entries that a loss moves, kept until all are known."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from omegamax.kernels.losses.triton.launcher import SupportLists
    from omegamax.losses._chunks import LinearScores

# By the bytes of a number: so many numbers of a product of matrices take as long, on Hopper, as one that is fetched.
FEW = {2: 640, 4: 64}


class SupportGradients:
    """The lists of all tokens, if those of the first chunk are short enough; nothing waits for the GPU after that."""

    def __init__(self, inputs: LinearScores):
        self.inputs = inputs
        self.lists: SupportLists | None = None
        self.given_up = not isinstance(inputs.alpha, Tensor) and inputs.alpha <= 1
        # How long lists are is read, which waits for the GPU: not while a graph is made.
        self.given_up |= inputs.hidden.is_cuda and torch.cuda.is_current_stream_capturing()

    def takes(
        self, part: slice, scores: Tensor, index: Tensor, state: Tensor, each: Tensor, alpha, d_hidden: Tensor | None
    ) -> bool:
        """List these scores if they are few, given what their loss has left, and write the gradient in ``hidden``."""
        from omegamax.kernels.losses.triton import launcher

        if self.given_up:
            return False
        if self.lists is None:
            tried = launcher.list_support(scores, index, state, each, alpha, launcher.SupportLists.empty(scores, 1))
            room = self._room(tried.counts, scores)
            if not room:
                self.given_up = True
                return False
            self.lists = launcher.SupportLists.empty(self.inputs.hidden, room)
        lists = launcher.list_support(scores, index, state, each, alpha, self.lists.of(part))
        if d_hidden is not None:
            launcher.gather_rows(lists, self.inputs.weight, d_hidden[part])
        return True

    def _room(self, counts: Tensor, scores: Tensor) -> int:
        """Room for lists of twice the length, at least of 64; 0 if these are too long."""
        few = scores.shape[1] // FEW[scores.dtype.itemsize]
        most, total = torch.stack([counts.max().long(), counts.sum()]).tolist()
        if most > 4 * few or total > few * len(scores):
            return 0
        return min(max(64, 1 << (2 * most - 1).bit_length()), scores.shape[1])

    def pop_missed(self, parts: list[slice]) -> list[slice]:
        """Return the parts with a list that was too long; they are taken out."""
        if self.lists is None:
            return []
        counts, room = self.lists.counts, self.lists.columns.shape[1]
        most = torch.stack([counts[part].max() for part in parts]).tolist()
        found = [part for part, longest in zip(parts, most, strict=True) if longest > room]
        for part in found:
            counts[part] = 0
        return found

    def add_to(self, weight: Tensor | None, bias: Tensor | None, scale: Tensor | None) -> None:
        """Add the gradients in the weights and the bias, times ``scale``, to what is there."""
        if self.lists is None or (weight is None and bias is None):
            return
        from omegamax.kernels.losses.triton import launcher

        counts, columns, values = self.lists
        there = torch.arange(columns.shape[1], device=columns.device) < counts[:, None]
        positions = there.flatten().nonzero().squeeze(-1)
        columns, values = columns.flatten()[positions], values.flatten()[positions]
        values = values if scale is None else values * scale
        if bias is not None:
            bias.index_add_(0, columns, values.to(bias.dtype))
        if weight is not None:
            tokens = positions.div_(there.shape[1], rounding_mode="floor")
            launcher.scatter_rows(tokens, columns, values, self.inputs.hidden, weight)
