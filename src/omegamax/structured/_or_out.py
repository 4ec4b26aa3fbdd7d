"""Logic with an outcome: a variable that is on if and only if one of some others is, or all of them are."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax.structured._logic import BatchedFace, Face, LogicFactor, Polytope, concatenate_with_outcome, is_interior


class OrPolytope(Polytope):
    r"""Inputs :math:`a_1, \dots, a_n` and, last, the output b = a_1 or ... or a_n.

    .. math:: \{(a, b) \in [0, 1]^{n+1} : a_i \le b \le \textstyle\sum_j a_j\}

    Reference: Martins et al. (JMLR 2015), OR with output.
    """

    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        # Without b <= sum a: isotonic, inputs above the output are pooled with it, and the box may come last.
        inputs, output = z[..., :-1], z[..., -1:]
        top = inputs.sort(-1, descending=True).values
        count = torch.arange(2, z.shape[-1] + 1, device=z.device, dtype=z.dtype)
        pooled = (output + top.cumsum(-1)) / count
        # An input is pooled if it is above the mean of those before it; means rise up to there and fall after.
        level = torch.maximum(output, pooled.amax(-1, keepdim=True))
        ordered = torch.cat([torch.minimum(inputs, level), level], -1).clamp(0, 1)
        short = ordered[..., :-1].sum(-1, keepdim=True) < ordered[..., -1:]
        if not bool(short.any()):
            return ordered
        # Where that breaks b <= sum a, it holds with equality: one of a_1, ..., a_n, not b.
        flipped = torch.cat([inputs, 1 - output], -1)
        one = z.new_ones((1,) * z.dim())
        one_of = kernels.solve("k_subsets", flipped, one, 2)
        return torch.where(short, torch.cat([one_of[..., :-1], 1 - one_of[..., -1:]], -1), ordered)

    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        free = is_interior(u, tol)
        inputs, output = u[..., :-1], u[..., -1:]
        tied = free[..., :-1] & free[..., -1:] & (inputs >= output - tol)
        some = tied.any(-1, keepdim=True)
        # With an input tied to the output, equality means that all others are 0, where the box holds them anyway.
        tight = ~some & (inputs.sum(-1, keepdim=True) <= output + tol)
        return _OrFace(free, torch.cat([tied, some], -1), tight)


class _OrFace(BatchedFace):
    """Inputs of a ``pool`` move as one with the output; where ``tight``, those outside keep to b = sum a."""

    def __init__(self, free: Tensor, pool: Tensor, tight: Tensor):
        self.free = free.double()
        self.alone, self.pool = (free & ~pool).double(), pool.double()
        self.share = self.pool / self.pool.sum(-1, keepdim=True).clamp(min=1)
        normal = torch.cat([self.alone[..., :-1], -self.alone[..., -1:]], -1) * tight
        self.normal = normal / normal.square().sum(-1, keepdim=True).clamp(min=1).sqrt()

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        if d_scores is None:
            return torch.zeros_like(self.alone)
        moved = self.alone * d_scores + self.share * (self.pool * d_scores).sum(-1, keepdim=True)
        return moved - self.normal * (self.normal * moved).sum(-1, keepdim=True)


class OrOut(LogicFactor):
    r"""The last variable is on if and only if one of the others is.

    .. math:: u_i \le u_n \le \sum_{j<n} u_j

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([0.75, -0.5, 0.25]))
        >>> fg.add(OrOut(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([0.5000, 0.0000, 0.5000])
    """

    def __init__(self, *variables: Any):
        row = concatenate_with_outcome("OrOut", variables)
        super().__init__(row.graph, row.index[None], row.negated[None], OrPolytope())


class AndOut(LogicFactor):
    r"""The last variable is on if and only if all the others are.

    .. math:: 1 - \sum_{j<n} (1 - u_j) \le u_n \le u_i

        >>> import torch
        >>> from omegamax.structured import FactorGraph
        >>> fg = FactorGraph()
        >>> u = fg.variable_from(torch.tensor([1.0, 0.25, 0.75]))
        >>> fg.add(AndOut(u))
        >>> _ = fg.solve()
        >>> u.value
        tensor([1.0000, 0.5000, 0.5000])
    """

    def __init__(self, *variables: Any):
        row = ~concatenate_with_outcome("AndOut", variables)  # De Morgan
        super().__init__(row.graph, row.index[None], row.negated[None], OrPolytope())
