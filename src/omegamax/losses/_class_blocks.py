"""The gradient in the weights of a projection by blocks of classes: each row is written once, and never summed up."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor

if TYPE_CHECKING:
    from omegamax.losses._chunks import ChunkOptions, LinearScores

HALF = (torch.float16, torch.bfloat16)
PRODUCT_ENTRIES = 1 << 23  # entries of a product in float32, at most, before it is rounded to half precision


def write_by_classes(
    inputs: LinearScores, scale: Tensor | None, block: int, d_scores: Callable[[slice], Tensor]
) -> Tensor:
    """Compute the gradient in the weights, times ``scale``, in their dtype, for some classes at a time.

    Args:
        block: so many classes.
        d_scores: returns the gradient in the scores of a slice of the classes, of all tokens.
    """
    out = torch.empty_like(inputs.weight)
    factor = 1.0 if scale is None else scale
    for classes in blocks(len(out), block):
        # A name for the product would keep it while the next scores are computed.
        torch.mul(add_product(None, d_scores(classes).T, inputs.hidden), factor, out=out[classes])
    return out


class ScoresAgain:
    """The gradient in all scores of some classes, from scores that are computed a second time.

    A row of the gradient in the weights is then one product over all tokens. A sum over chunks would have to be in
    float32, with as many numbers as there are weights, each of which is read and written for each chunk.
    """

    def __init__(self, inputs: LinearScores, index: Tensor, each: Tensor, options: ChunkOptions):
        self.inputs, self.index, self.smoothing = inputs, index, options.smoothing
        self.state = each.new_zeros(len(each), 3, dtype=torch.float32)
        self.each, self.kept_each = each, torch.zeros_like(each)
        self.kept = False
        tokens, size = inputs.hidden.shape
        # The scores of a block and its product in float32 take no more memory than the scores of a chunk.
        fitting = options.chunk * len(inputs.weight) // (tokens + 2 * size)
        self.block = max(min(fitting, PRODUCT_ENTRIES // size) // 64, 1) * 64

    @staticmethod
    def pays(inputs: LinearScores, options: ChunkOptions, chunks: int) -> bool:
        """Tell whether chunks are so small that another product takes less time than reading and writing a sum.

        A count for Hopper, with V classes and D features: another product of c tokens takes 2 c V D operations at 700
        tera a second, and reads and writes 6 c V bytes; a sum reads and writes 8 V D bytes, at 4.2 tera a second. Both
        take as long for 230 tokens if D is 256, and for 540 if it is 2048.
        """
        # A score that is rounded otherwise the second time moves probabilities a little up to alpha 2; above, their
        # slope at the edge of the support is infinite. An alpha that is a tensor may be above.
        if chunks < 2 or inputs.hidden.dtype not in HALF or isinstance(inputs.alpha, Tensor) or inputs.alpha > 2:
            return False
        return options.chunk <= min(inputs.hidden.shape[1] // 4, 512)

    def keep(self, part: slice, state: Tensor) -> None:
        """Keep what the gradient of some tokens is made of besides their scores."""
        self.kept = True
        self.state[part], self.kept_each[part] = state, self.each[part]

    def d_scores(self, classes: slice) -> Tensor:
        """Return the gradient in the scores of these classes; 0 for tokens that are not kept."""
        from omegamax.kernels.losses.triton import launcher as loss

        hidden, weight, bias, alpha = self.inputs
        scores = F.linear(hidden, weight[classes], None if bias is None else bias[classes])
        index, size = self.index - classes.start, len(weight)
        return loss.entmax_loss_vjp(scores, index, self.state, self.kept_each, alpha, self.smoothing, True, size)


def add_product(total: Tensor | None, left: Tensor, right: Tensor) -> Tensor:
    """Compute ``total + left @ right`` in place; half precision is multiplied as such and added up in float32."""
    wide = torch.promote_types(right.dtype, torch.float32)
    if right.dtype == wide:
        return left @ right if total is None else total.addmm_(left, right)
    if right.is_cuda and "dtype_out" in torch.ops.aten.addmm.overloads():
        if total is None:
            return torch.mm(left, right, out_dtype=wide)
        return torch.addmm(total, left, right, out_dtype=wide, out=total)
    return (left @ right).to(wide) if total is None else total.add_(left @ right)


def blocks(count: int, block: int) -> Iterator[slice]:
    """Return slices of ``block`` indices that cover ``count`` of them."""
    return (slice(start, start + block) for start in range(0, count, block))
