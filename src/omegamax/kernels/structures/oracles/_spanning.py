"""Find the best spanning tree of a graph: edges by falling score, unless they close a cycle (Kruskal)."""

from __future__ import annotations

import math

import torch
from torch import Tensor


def spanning_tree(scores: Tensor, edges: Tensor, nodes: int) -> Tensor:
    """Return 0/1 edges ``[B, E]`` of spanning trees of largest score; ``edges [2, E]`` join ``nodes`` nodes."""
    order = scores.argsort(dim=-1, descending=True, stable=True)
    heads, tails = edges.to(scores.device)
    part = torch.arange(nodes, device=scores.device).expand(len(scores), -1).clone()
    unary = torch.zeros_like(scores)
    for edge in order.unbind(-1):
        a, b = (part.gather(1, ends[edge][:, None]) for ends in (heads, tails))
        joins = a != b
        unary.scatter_(1, edge[:, None], joins.to(scores.dtype))
        part = torch.where(part == b, a, part)
    short = unary.sum(-1) != nodes - 1
    barred = ((unary > 0) & (scores == -math.inf)).any(-1)
    return unary.where(~(short | barred)[:, None], math.nan)
