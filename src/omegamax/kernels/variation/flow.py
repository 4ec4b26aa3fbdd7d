r"""Solve total variation on any graph, for a batch of rows at once: a flow, and the groups it defines.

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
from omegamax.kernels.variation.graphs import Graph, average

# All in rows within [-2, 2].
LEVEL = 1e-12  # slope of a flow's heights at which it is good
APART = 1e-10  # least difference of two groups
GAP = 1e-8
MAX_STEPS = 20_000
_LOOK = 50  # steps between two looks at how far they came


def solve(name: str, graph: Graph, x: Tensor, limits: Tensor) -> Tensor:
    """Solve for ``w: [N, R]``, with ``x`` within [-2, 2] and lambda as ``limits: [E, R]``; a limit of 0 is no edge."""
    if not limits.numel():
        return x
    flow, left = ascend(graph, x, limits)
    step = graph.difference(x - graph.divergence(flow))
    side = torch.where(flow == limits, 1.0, 0.0) - torch.where(flow == -limits, 1.0, 0.0)
    side = torch.where(step * side > APART + 10 * left, side, 0.0)
    for _ in range(graph.nodes):
        outer = side * limits
        label = graph.components((limits > 0) & (side == 0))
        value = average(x - graph.divergence(outer), label)
        # Groups that come out level, or in the wrong order, are one.
        wrong = (side != 0) & (graph.difference(value) * side <= APART)
        if not bool(wrong.any()):
            break
        side = torch.where(wrong, 0.0, side)
    heights = x - graph.divergence(torch.where(side == 0, flow, outer))
    gap = (heights - value).square().sum(0).amax().item() / 2
    if gap > GAP:
        warnings.warn(
            f"{name}: stopped after {MAX_STEPS} steps with a relative duality gap of {gap:.1e}",
            ConvergenceWarning,
            stacklevel=2,
        )
    return value


def ascend(graph: Graph, x: Tensor, limits: Tensor) -> tuple[Tensor, Tensor]:
    """Find the flow by accelerated gradients with restarts; return it and the largest slope that it leaves in a row."""
    # Both degrees of an edge together: no row of the matrix of the quadratic sums to more.
    degree = graph.around(torch.ones_like(limits[:, :1]))
    resistance = degree[graph.i] + degree[graph.j]
    rate, lowest = 1 / resistance, -limits
    best, worst = torch.zeros_like(limits), torch.zeros_like(x[:1])
    rows = torch.arange(x.shape[-1], device=x.device)
    flow = ahead = torch.zeros_like(limits)
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
                moved, change, back = moved[:, busy], change[:, busy], back[:, busy]
                left, age = left[:, busy], age[:, busy]
        # Momentum that would go uphill is dropped (O'Donoghue & Candes 2015).
        age = torch.where(back.mul_(change).sum(0, keepdim=True) > 0, 0.0, age + 1)
        flow, ahead = moved, torch.addcmul(moved, change, age / (age + 3))
    best[:, rows], worst[:, rows] = moved, left
    return best, worst
