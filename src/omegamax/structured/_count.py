"""How many of some variables are on: the polytope behind most logic factors."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import kernels
from omegamax.structured._polytope import Face, Polytope, SpreadFace, inside


class Count(Polytope):
    r"""Between ``low`` and ``high`` of m variables are on.

    .. math:: \{u \in [0, 1]^m : l \le \sum_i u_i \le h\}

    For whole numbers its vertices are the 0/1 vectors with such a sum. Parameters: ``low, high``.
    """

    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        # If the box alone keeps to the bounds, that is it; otherwise the bound it breaks holds with equality.
        box = z.clamp(0, 1)
        total = box.sum(-1, keepdim=True)
        goal = torch.minimum(torch.maximum(total, parameters[:, :1]), parameters[:, 1:])
        broken = goal != total
        if not bool(broken.any()):
            return box
        return torch.where(broken, kernels.solve("k_subsets", z, goal, 2), box)

    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        total = u.sum(-1, keepdim=True)
        tight = (total <= parameters[:, :1] + tol) | (total >= parameters[:, 1:] - tol)
        return _CountFace(inside(u, tol), tight)


class _CountFace(SpreadFace):
    def __init__(self, free: Tensor, tight: Tensor):
        self.free = free.double()
        self.share = torch.where(tight, self.free, 0.0) / self.free.sum(-1, keepdim=True).clamp(min=1)

    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        if d_scores is None:
            return torch.zeros_like(self.free)
        moved = d_scores * self.free
        return moved - self.share * moved.sum(-1, keepdim=True)
