"""Compute on graphs whose nodes carry a scalar for each row: differences, divergences, components.

Rows come last: ``[N, R]`` for nodes, ``[E, R]`` for edges.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad


class Graph:
    """The edges ``i[e] - j[e]`` of ``nodes`` nodes, ``edges: [2, E]``; a flow is positive from i to j."""

    def __init__(self, nodes: int, edges: Tensor):
        self.nodes = nodes
        self.i, self.j = edges

    def ends(self, v: Tensor) -> tuple[Tensor, Tensor]:
        """Return what the nodes carry, at both ends of each edge."""
        return v.index_select(0, self.i), v.index_select(0, self.j)

    def difference(self, v: Tensor) -> Tensor:
        """Compute ``v_i - v_j`` on each edge."""
        a, b = self.ends(v)
        return a - b

    def divergence(self, u: Tensor) -> Tensor:
        """Compute what flows out of each node."""
        out = u.new_zeros(self.nodes, u.shape[-1])
        return out.index_add_(0, self.i, u).index_add_(0, self.j, u, alpha=-1)

    def around(self, v: Tensor) -> Tensor:
        """Sum over the edges of each node."""
        return v.new_zeros(self.nodes, v.shape[-1]).index_add_(0, self.i, v).index_add_(0, self.j, v)

    def components(self, joined: Tensor) -> Tensor:
        """Label each node with an index below N of its component, by the edges that are ``joined: [E, R]``."""
        rows = joined.shape[-1]
        label = torch.arange(self.nodes, device=joined.device)[:, None].expand(self.nodes, rows).contiguous()
        for _ in range(self.nodes):
            # The roots of both ends take the lesser label, and every node then looks up its root.
            a, b = self.ends(label)
            least = torch.where(joined, torch.minimum(a, b), self.nodes)
            lower = label.scatter_reduce(0, a, least, "amin").scatter_reduce_(0, b, least, "amin")
            lower = lower.gather(0, lower)
            lower = lower.gather(0, lower)
            if torch.equal(lower, label):
                break
            label = lower
        return label


class ChainGraph(Graph):
    """Each node joined to the next one."""

    def __init__(self, nodes: int, device: torch.device):
        cells = torch.arange(nodes, device=device)
        super().__init__(nodes, torch.stack([cells[:-1], cells[1:]]))

    def ends(self, v: Tensor) -> tuple[Tensor, Tensor]:
        return v[:-1], v[1:]

    def divergence(self, u: Tensor) -> Tensor:
        return pad(u, (0, 0, 0, 1)) - pad(u, (0, 0, 1, 0))

    def components(self, joined: Tensor) -> Tensor:
        return pad(cumulate((~joined).long()), (0, 0, 1, 0))


class GridGraph(Graph):
    """Each cell joined to the next in its row and in its column: edges across, then edges down."""

    def __init__(self, height: int, width: int, device: torch.device):
        cells = torch.arange(height * width, device=device).reshape(height, width)
        across = torch.stack([cells[:, :-1], cells[:, 1:]]).flatten(1)
        down = torch.stack([cells[:-1], cells[1:]]).flatten(1)
        super().__init__(height * width, torch.cat([across, down], -1))
        self.shape = height, width

    def difference(self, v: Tensor) -> Tensor:
        v = v.reshape(*self.shape, v.shape[-1])
        return torch.cat([(v[:, :-1] - v[:, 1:]).flatten(0, 1), (v[:-1] - v[1:]).flatten(0, 1)])

    def divergence(self, u: Tensor) -> Tensor:
        (height, width), rows = self.shape, u.shape[-1]
        across, down = u.split([height * (width - 1), (height - 1) * width])
        across, down = across.reshape(height, width - 1, rows), down.reshape(height - 1, width, rows)
        out = u.new_zeros(height, width, rows)
        out[:, :-1] += across
        out[:, 1:] -= across
        out[:-1] += down
        out[1:] -= down
        return out.flatten(0, 1)


def cumulate(v: Tensor) -> Tensor:
    """Sum ``v`` up to each node, scanned along the axis on which processors of all kinds are fast at it."""
    return v.mT.cumsum(-1).mT.contiguous()


def average(v: Tensor, label: Tensor) -> Tensor:
    """Average ``v`` over each component; its nodes get the same value to the last bit."""
    count = torch.zeros_like(v).scatter_add_(0, label, torch.ones_like(v))
    total = torch.zeros_like(v).scatter_add_(0, label, v)
    return (total / count.clamp_(min=1)).gather(0, label)
