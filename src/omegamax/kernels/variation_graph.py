r"""Total variation on any graph, for a batch of rows at once: flows, cuts and the groups they define.

The dual of ``argmin 1/2 |w - x|^2 + sum_e lambda_e |w_i - w_j|`` is a flow ``u`` with ``|u_e| <= lambda_e`` that levels
the heights ``x - div u`` as far as its limits let it. Where the heights of a group are level with ``|u_e| <= lambda_e``
on its inner edges and the limits reached on its outer ones, downhill, the group is fused; where they cannot be
levelled, the edges of a minimal cut are at their limits and split the group (Hochbaum 2001; Chambolle & Darbon 2009).
Both are found by pushing what stands above the mean of a group towards what lies below it.

Everything has rows last, ``[N, R]`` for the nodes and ``[E, R]`` for the edges.
"""

from __future__ import annotations

import warnings

import torch
from torch import Tensor

from omegamax._warnings import ConvergenceWarning

FAR = 2**30
WARM_STEPS = 200
CHECK = 4


class Graph:
    """The edges ``i[e] - j[e]`` of ``nodes`` nodes; a flow is positive from i to j."""

    def __init__(self, nodes: int, edges: Tensor):
        self.nodes = nodes
        self.i, self.j = edges
        self.tail, self.head = edges.flatten(), edges.flip(0).flatten()

    def difference(self, w: Tensor) -> Tensor:
        return w[self.i] - w[self.j]

    def divergence(self, u: Tensor) -> Tensor:
        out = u.new_zeros(self.nodes, u.shape[-1]).index_add_(0, self.i, u)
        return out.index_add_(0, self.j, u, alpha=-1)

    def at_tails(self, arcs: Tensor) -> Tensor:
        return arcs.new_zeros(self.nodes, arcs.shape[-1]).index_add_(0, self.tail, arcs)

    def at_heads(self, arcs: Tensor) -> Tensor:
        return arcs.new_zeros(self.nodes, arcs.shape[-1]).index_add_(0, self.head, arcs)


def components(graph: Graph, joined: Tensor) -> Tensor:
    """The least node of the component that each node is in, by the edges that are ``joined: [E, R]``."""
    nodes, rows = graph.nodes, joined.shape[-1]
    label = torch.arange(nodes, device=joined.device)[:, None].expand(nodes, rows).contiguous()
    for _ in range(nodes):
        a, b = label[graph.i], label[graph.j]
        least = torch.minimum(a, b)
        # The roots of both ends take the lesser label, and every node then looks up its root.
        lower = label.scatter_reduce(0, torch.where(joined, a, nodes - 1), torch.where(joined, least, nodes), "amin")
        lower = lower.scatter_reduce(0, torch.where(joined, b, nodes - 1), torch.where(joined, least, nodes), "amin")
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


def solve(x: Tensor, limits: Tensor, edges: Tensor) -> Tensor:
    """The values ``w: [N, R]`` for ``x`` within [-1, 1] and ``limits: [E, R]``, lambda; a limit of 0 is no edge."""
    if not edges.numel():
        return x
    graph = Graph(x.shape[0], edges)
    eps = torch.finfo(x.dtype).eps
    flow = ascend(graph, x, limits, WARM_STEPS)
    step = graph.difference(x - graph.divergence(flow))
    side = torch.where(flow == limits, 1.0, 0.0) - torch.where(flow == -limits, 1.0, 0.0)
    side = torch.where((limits > 0) & (step * side > 1e-3), side, 0.0)
    for _ in range(4 * x.shape[0]):
        held = side * limits
        joined = (limits > 0) & (side == 0)
        label = components(graph, joined)
        value = averaged(x - graph.divergence(held), label)
        flow = torch.where(joined, flow, held)
        flow, reach, stuck = level(graph, x, value, flow, torch.where(joined, limits, 0.0))
        stuck = torch.zeros_like(stuck).scatter_reduce(0, label, stuck, "amax").gather(0, label)
        split = joined & (reach[graph.i] != reach[graph.j]) & (stuck[graph.i] > 0)
        if bool(split.any()):
            side = torch.where(split, torch.where(reach[graph.j], 1.0, -1.0), side)
            continue
        wrong = (side != 0) & (graph.difference(value) * side < -64 * eps * (1 + limits))
        if not bool(wrong.any()):
            break
        side = torch.where(wrong, 0.0, side)
    for _ in range(x.shape[0]):
        tied = (side != 0) & (graph.difference(value) * side <= 64 * eps * (1 + limits))
        if not bool(tied.any()):
            break
        side = torch.where(tied, 0.0, side)
        label = components(graph, (limits > 0) & (side == 0))
        value = averaged(x - graph.divergence(side * limits), label)
    return value


def ascend(graph: Graph, x: Tensor, limits: Tensor, steps: int) -> Tensor:
    """A flow that levels most of what can be levelled: accelerated projected gradients on the dual, with restarts."""
    degree = torch.bincount(graph.tail, minlength=graph.nodes).to(x.dtype)
    rate = (1 / (degree[graph.i] + degree[graph.j]))[:, None]
    flow = ahead = torch.zeros_like(limits)
    t = torch.ones_like(x[:1])
    for _ in range(steps):
        slope = graph.difference(x - graph.divergence(ahead))
        moved = (ahead + rate * slope).clamp(-limits, limits)
        change = moved - flow
        uphill = ((ahead - moved) * change / rate).sum(0, keepdim=True) > 0
        t = torch.where(uphill, 1.0, t)
        longer = (1 + (1 + 4 * t.square()).sqrt()) / 2
        flow, ahead = moved, moved + (t - 1) / longer * change
        t = longer
    return flow


def level(graph: Graph, x: Tensor, value: Tensor, flow: Tensor, limits: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Push what stands above ``value`` to where it lacks, until nothing can move.

    Returns the flow, and for each node whether it stays at or below the level: False marks the upper side of a cut.
    """
    edges = flow.shape[0]
    slack = 64 * torch.finfo(x.dtype).eps * (1 + flow.abs().amax(0, keepdim=True))
    room = torch.cat([limits - flow, limits + flow]).clamp(min=0)
    outer = torch.where(limits == 0, flow, 0.0)
    room = torch.where(torch.cat([limits, limits]) == 0, 0.0, room)
    for _ in range(x.shape[0]):
        flow = outer + (room[edges:] - room[:edges]) / 2
        excess = x - graph.divergence(flow) - value
        distance = distances(graph, room, excess < -slack)
        high = (excess > slack) & (distance > 0)
        if not bool((high & (distance < FAR)).any()):
            break
        downhill = distance[graph.tail] == distance[graph.head] + 1
        for sweep in range(4 * x.shape[0]):
            free = torch.where(downhill, room, 0.0)
            total = graph.at_tails(free)
            share = torch.where(total > 0, (excess.clamp(min=0) / total).clamp(max=1), 0.0)
            sent = free * share[graph.tail]
            if sweep % CHECK == 0 and not bool(((excess > slack) & (total > 0)).any()):
                break
            room = room - sent
            room = room + torch.cat([sent[edges:], sent[:edges]])
            excess = excess - graph.at_tails(sent) + graph.at_heads(sent)
    else:
        warnings.warn("level", ConvergenceWarning, stacklevel=2)
    stuck = high & (distance >= FAR)
    return flow, distance < FAR, stuck.to(x.dtype)


def distances(graph: Graph, room: Tensor, sinks: Tensor) -> Tensor:
    """Number of arcs with room to the nearest sink; FAR where there is no way."""
    distance = torch.where(sinks, 0, FAR)
    open_ = room > 0
    index = graph.tail[:, None].expand(room.shape)
    for step in range(graph.nodes):
        ahead = torch.where(open_, distance[graph.head] + 1, FAR).clamp(max=FAR)
        nearer = distance.scatter_reduce(0, index, ahead, "amin")
        if step % CHECK == 0 and torch.equal(nearer, distance):
            break
        distance = nearer
    return distance
