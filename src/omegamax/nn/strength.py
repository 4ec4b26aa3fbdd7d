"""The weight of a penalty, learnt."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import check_above


class Strength(torch.nn.Module):
    r"""The weight of a penalty that gradient descent can move, and no step can make negative.

    .. math:: \lambda = \log(1 + \exp(\mathit{raw}))

    Args:
        init: where it starts, > 0.

    ``forward()`` gives lambda, a tensor without axes.

        >>> Strength(0.5)()
        tensor(0.5000, grad_fn=<SoftplusBackward0>)
    """

    def __init__(self, init: float | Tensor = 1.0):
        super().__init__()
        check_above("Strength", "init", init, 0.0)
        # A number is checked where it can be read, also while a network is made without memory.
        raw = (
            init.detach().double()
            if isinstance(init, Tensor)
            else torch.tensor(init, dtype=torch.float64, device="cpu")
        )
        if raw.dim() or not bool(raw.isfinite()):
            raise ValueError(f"Strength: init must be one finite number, got {init}")
        # The inverse of softplus, by expm1 so that a small start keeps its digits.
        raw = raw + (-(-raw).expm1()).log()
        raw = raw if isinstance(init, Tensor) else raw.to(torch.get_default_device())
        self.raw = torch.nn.Parameter(raw.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        raw = self.raw.float() if self.raw.dtype in (torch.float16, torch.bfloat16) else self.raw
        return torch.nn.functional.softplus(raw)
