"""Spanning trees of a graph."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import is_integer
from omegamax.structured._factor import BuiltIn


class SpanningTree(BuiltIn):
    """Sets of edges that join all nodes of a graph without a cycle; scores ``[*, E]``, one for each edge.

    Args:
        edges: ``[2, E]``, integers; the graph must be connected and have no self-loops. Parallel edges may be told
            apart by their scores.
        nodes: how many there are; one more than the largest index by default.

        >>> from omegamax.structured import sparsemap
        >>> triangle = torch.tensor([[0, 1, 2], [1, 2, 0]])
        >>> sparsemap(torch.tensor([1.0, 0.5, 0.0]), SpanningTree(triangle))
        tensor([1.0000, 0.7500, 0.2500])

    Reference: Kruskal, Proceedings of the AMS 7 (1956), for the best tree.
    """

    def __init__(self, edges: Tensor, nodes: int | None = None):
        if not isinstance(edges, Tensor) or edges.dtype not in (
            torch.int64,
            torch.int32,
            torch.int16,
            torch.int8,
            torch.uint8,
        ):
            given = edges.dtype if isinstance(edges, Tensor) else type(edges).__name__
            raise TypeError(f"SpanningTree: edges must be an integer tensor [2, E], got {given}")
        if edges.dim() != 2 or edges.shape[0] != 2:
            raise ValueError(f"SpanningTree: edges must be [2, E], got shape {tuple(edges.shape)}")
        edges = edges.detach().to("cpu", torch.int64)
        count = edges.shape[1]
        if nodes is None:
            nodes = int(edges.max()) + 1 if count else 1
        elif not is_integer(nodes):
            raise TypeError(f"SpanningTree: nodes must be a whole number or None, got {nodes!r}")
        nodes = int(nodes)
        if count and (int(edges.min()) < 0 or int(edges.max()) >= nodes):
            raise ValueError(
                f"SpanningTree: edges must lie in [0, {nodes}), got from {int(edges.min())} to {int(edges.max())}"
            )
        loops = (edges[0] == edges[1]).nonzero()
        if len(loops):
            raise ValueError(f"SpanningTree: edges must not join a node to itself, got edge {int(loops[0])} that does")
        parts = _parts(edges, nodes)
        if parts > 1:
            raise ValueError(f"SpanningTree: edges must connect all {nodes} nodes, got {parts} separate parts")
        self.edges, self.nodes = edges, nodes

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        return "spanning_tree", (self.nodes,), self.edges

    def check(self, name: str, scores: Tensor) -> None:
        if scores.shape[-1] != self.edges.shape[1]:
            raise ValueError(
                f"{name}: scores of this SpanningTree must be [*, {self.edges.shape[1]}], one for each edge, got shape "
                f"{tuple(scores.shape)}"
            )

    def __repr__(self) -> str:
        return f"SpanningTree({self.edges.shape[1]} edges, {self.nodes} nodes)"


def _parts(edges: Tensor, nodes: int) -> int:
    """Number of connected components."""
    label = list(range(nodes))

    def root(node: int) -> int:
        while label[node] != node:
            label[node] = label[label[node]]
            node = label[node]
        return node

    for a, b in edges.T.tolist():
        label[root(a)] = root(b)
    return sum(label[node] == node for node in range(nodes))
