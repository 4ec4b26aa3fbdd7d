"""A temperature of attention that changes with the number of keys."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_count


class LengthScale(torch.nn.Module):
    r"""What multiplies the scores of a query that may see n keys, learnt for each head.

    .. math:: s(n) = \delta + \beta\, \bigl(\log(n + 1)\bigr)^{\gamma}, \qquad
              \beta = \mathrm{softplus}(b), \quad \gamma = r \tanh(g)

    The more scores there are, the further the largest stand out, and the more of the rest compete with them: one
    temperature cannot suit short and long texts. Here each head learns how its scores should grow with n, or shrink, if
    :math:`\gamma` is below zero. The 1 keeps the logarithm away from 0, of which a negative power would be infinite.

    Args:
        heads: number of heads H.
        features: size E of inputs x on which b and g depend as well: :math:`b + W_b x` and :math:`g + W_g x`.
        delta: the constant part :math:`\delta`.
        reach: bound r of the exponent.

    ``forward(n, x=None)`` takes the number of keys, broadcastable to ``[*, H, L]``, and the inputs of the queries
    ``[*, L, E]`` if there are ``features``. It gives ``[*, H, L, 1]``, to multiply queries or scores. It starts from
    :math:`\beta = 0.1` and :math:`\gamma = 0`, a scale of 1.1 at every length.

        >>> scale = LengthScale(heads=2)
        >>> with torch.no_grad():
        ...     scale.g[1] = 0.5
        >>> scale(torch.tensor([1, 10, 100, 1000])).squeeze(-1)
        tensor([[1.1000, 1.1000, 1.1000, 1.1000],
                [1.0713, 1.2244, 1.4110, 1.5968]], grad_fn=<SqueezeBackward1>)

    Reference: Vasylenko, Pitorro, Martins & Treviso, Long-Context Generalization with Sparse Attention (ICLR 2026,
    arXiv 2506.16640): adaptive-scalable entmax. There :math:`\delta` is 1, and b and g are :math:`W_b x` and
    :math:`W_g x` alone.
    """

    def __init__(self, heads: int, features: int | None = None, delta: float = 1.0, reach: float = 2.0):
        super().__init__()
        check_count("LengthScale", "heads", heads)
        if features is not None:
            check_count("LengthScale", "features", features)
        self.heads, self.features, self.delta, self.reach = heads, features, delta, reach
        self.b = torch.nn.Parameter(torch.full((heads,), math.log(math.expm1(0.1))))
        self.g = torch.nn.Parameter(torch.zeros(heads))
        self.by_input = None if features is None else torch.nn.Linear(features, 2 * heads, bias=False)
        if self.by_input is not None:
            torch.nn.init.zeros_(self.by_input.weight)

    def forward(self, n: Tensor, x: Tensor | None = None) -> Tensor:
        if (x is None) != (self.by_input is None):
            wanted = "no inputs x" if x is not None else f"inputs x [*, L, {self.features}]"
            raise ValueError(f"LengthScale: with features={self.features} it takes {wanted}")
        b, g = self.b[:, None], self.g[:, None]  # [H, 1]
        if self.by_input is not None and x is not None:
            more = self.by_input(x).transpose(-2, -1)  # [*, 2 H, L]
            b, g = b + more[..., : self.heads, :], g + more[..., self.heads :, :]
        # A query that sees nothing has no scores to scale, but must not make an infinity of them. Single precision at
        # least: half precision does not count to 70000.
        length = n.clamp(min=1).to(torch.promote_types(b.dtype, torch.float32)).log1p()
        s = self.delta + F.softplus(b) * length ** (self.reach * torch.tanh(g))
        return s.unsqueeze(-1)

    def extra_repr(self) -> str:
        given = "" if self.features is None else f", features={self.features}"
        return f"heads={self.heads}{given}, delta={self.delta:g}, reach={self.reach:g}"
