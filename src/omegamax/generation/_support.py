"""Which tokens a prediction leaves."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._checks import check_predictions


class Support(NamedTuple):
    """The tokens with nonzero probability, most probable first; ``S`` is the largest support.

    Attributes:
        tokens: ``[*, S]``, -1 beyond a row's own support.
        probabilities: ``[*, S]``, 0 there.
        sizes: ``[*]``.
    """

    tokens: Tensor
    probabilities: Tensor
    sizes: Tensor


@torch.no_grad()
def support(p: Tensor) -> Support:
    r"""Return the tokens that a prediction gives any probability, :math:`\{v : p_v > 0\}`, in falling order.

    Equal probabilities are in order of the tokens. Half precision keeps its dtype. There is no gradient.

    Args:
        p: probabilities ``[*, V]``, such as those of a sparse map.

        >>> import omegamax
        >>> support(omegamax.sparsemax(torch.tensor([[0.0, 0.5, 1.0], [0.0, 2.0, 0.0]])))
        Support(tokens=tensor([[ 2,  1],
                [ 1, -1]]), probabilities=tensor([[0.7500, 0.2500],
                [1.0000, 0.0000]]), sizes=tensor([2, 1]))
    """
    check_predictions("support", p)
    sizes = (p > 0).sum(-1)
    width = int(sizes.max()) if sizes.numel() else 0
    values, tokens = p.sort(dim=-1, descending=True, stable=True)
    values, tokens = values[..., :width], tokens[..., :width]
    return Support(torch.where(values > 0, tokens, -1), values, sizes)
