r"""Total variation on any graph, for a batch of rows at once: flows, and the groups they define.

The dual of ``argmin 1/2 |w - x|^2 + sum_e lambda_e |w_i - w_j|`` is a flow ``u`` with ``|u_e| <= lambda_e`` that levels
the heights ``x - div u`` as far as these limits let it. Accelerated gradients find it; an edge at its limit whose ends
differ in height lies between two groups, any other edge inside one. The value of a group follows from what its outer
edges carry, exactly, and together with the flow it has a duality gap: half the squared distance of the heights from
the values.

Rows come last here: ``[N, R]`` for nodes, ``[E, R]`` for edges.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from omegamax._warnings import ConvergenceWarning

# All in rows within [-1, 1].
LEVEL = 1e-12  # slope of a flow's heights at which it is good
APART = 1e-10  # least difference of two groups
GAP = 1e-8
MAX_STEPS = 20_000
_LOOK = 50  # steps between two looks at how far they came


class Graph:
    """The edges ``i[e] - j[e]`` of ``nodes`` nodes; a flow is positive from i to j."""

    def __init__(self, nodes: int, edges: Tensor):
        self.nodes = nodes
        self.i, self.j = edges

    def difference(self, w: Tensor) -> Tensor:
        return w.index_select(0, self.i) - w.index_select(0, self.j)

    def divergence(self, u: Tensor) -> Tensor:
        out = u.new_zeros(self.nodes, u.shape[-1])
        return out.index_add_(0, self.i, u).index_add_(0, self.j, u, alpha=-1)

    def resistance(self) -> Tensor:
        """The degrees of both ends of each edge together, ``[E, 1]``: no row of ``D D^T`` sums to more."""
        degree = torch.bincount(torch.cat([self.i, self.j]), minlength=self.nodes)
        return (degree[self.i] + degree[self.j])[:, None].double()


class Grid(Graph):
    """The edges of a grid, across before down, as :func:`grid_edges` counts them: slices instead of indices."""

    def __init__(self, height: int, width: int, device: torch.device):
        super().__init__(height * width, grid_edges(height, width, device))
        self.shape = height, width

    def difference(self, w: Tensor) -> Tensor:
        w = w.reshape(*self.shape, w.shape[-1])
        return torch.cat([(w[:, :-1] - w[:, 1:]).flatten(0, 1), (w[:-1] - w[1:]).flatten(0, 1)])

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


def grid_edges(height: int, width: int, device: torch.device) -> Tensor:
    """The edges ``[2, E]`` of a grid whose cells are numbered row by row."""
    cells = torch.arange(height * width, device=device).reshape(height, width)
    across = torch.stack([cells[:, :-1], cells[:, 1:]]).flatten(1)
    down = torch.stack([cells[:-1], cells[1:]]).flatten(1)
    return torch.cat([across, down], -1)


def components(graph: Graph, joined: Tensor) -> Tensor:
    """The least node of the component that each node is in, by the edges that are ``joined: [E, R]``."""
    nodes, rows = graph.nodes, joined.shape[-1]
    label = torch.arange(nodes, device=joined.device)[:, None].expand(nodes, rows).contiguous()
    for _ in range(nodes):
        # The roots of both ends take the lesser label, and every node then looks up its root.
        a, b = label.index_select(0, graph.i), label.index_select(0, graph.j)
        least = torch.where(joined, torch.minimum(a, b), nodes)
        lower = label.scatter_reduce(0, a, least, "amin").scatter_reduce_(0, b, least, "amin")
        lower = lower.gather(0, lower)
        lower = lower.gather(0, lower)
        if torch.equal(lower, label):
            break
        label = lower
    return label


def averaged(v: Tensor, label: Tensor) -> Tensor:
    """The mean of ``v`` over each component, at each of its nodes; one number for a component."""
    count = torch.zeros_like(v).scatter_add_(0, label, torch.ones_like(v))
    total = torch.zeros_like(v).scatter_add_(0, label, v)
    return (total / count.clamp(min=1)).gather(0, label)


def solve(name: str, graph: Graph, x: Tensor, limits: Tensor) -> Tensor:
    """The values ``w: [N, R]`` for ``x`` within [-1, 1] and ``limits: [E, R]``, lambda; a limit of 0 is no edge."""
    if not graph.i.numel():
        return x
    flow, left = ascend(graph, x, limits)
    step = graph.difference(x - graph.divergence(flow))
    side = torch.where(flow == limits, 1.0, 0.0) - torch.where(flow == -limits, 1.0, 0.0)
    side = torch.where(step * side > APART + 10 * left, side, 0.0)
    for _ in range(graph.nodes):
        outer = side * limits
        label = components(graph, (limits > 0) & (side == 0))
        value = averaged(x - graph.divergence(outer), label)
        # Groups that come out level, or in the wrong order, are one.
        wrong = (side != 0) & (graph.difference(value) * side <= APART)
        if not bool(wrong.any()):
            break
        side = torch.where(wrong, 0.0, side)
    heights = x - graph.divergence(torch.where(side == 0, flow, outer))
    gap = (heights - value).square().sum(0).amax().item() / 2
    if gap > GAP:
        warnings.warn(
            f"{name}: stopped after {MAX_STEPS} steps with a duality gap of {gap:.1e} times the square of half the "
            "range of a row",
            ConvergenceWarning,
            stacklevel=2,
        )
    return value


def ascend(graph: Graph, x: Tensor, limits: Tensor) -> tuple[Tensor, Tensor]:
    """The flow by accelerated gradients with restarts, and the steepest slope between heights it has yet to level."""
    resistance = graph.resistance()
    rate, lowest = 1 / resistance, -limits
    best, worst = torch.zeros_like(limits), torch.zeros_like(x[:1])
    rows = torch.arange(x.shape[-1], device=x.device)
    flow = ahead = best
    age = torch.zeros_like(x[:1])
    for count in range(1, MAX_STEPS + 1):
        moved = torch.addcmul(ahead, graph.difference(x - graph.divergence(ahead)), rate).clamp_(lowest, limits)
        change = moved - flow
        back = (ahead - moved).mul_(resistance)
        if count % _LOOK == 0:
            left = back.abs().amax(0, keepdim=True)
            enough = (4 * torch.finfo(x.dtype).eps * moved.abs().amax(0, keepdim=True)).clamp(min=LEVEL)
            busy = (left > enough).squeeze(0)
            remaining = int(busy.sum())
            if not remaining:
                break
            if remaining <= len(rows) // 2:
                best[:, rows], worst[:, rows] = moved, left
                rows, x, limits, lowest = rows[busy], x[:, busy], limits[:, busy], lowest[:, busy]
                moved, change, back, age = moved[:, busy], change[:, busy], back[:, busy], age[:, busy]
        # Momentum that would go uphill is dropped (O'Donoghue & Candes 2015).
        age = torch.where(back.mul_(change).sum(0, keepdim=True) > 0, 0.0, age + 1)
        flow, ahead = moved, torch.addcmul(moved, change, age / (age + 3))
    best[:, rows], worst[:, rows] = moved, left
    return best, worst
