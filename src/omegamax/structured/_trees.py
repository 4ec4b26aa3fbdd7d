"""Trees: over the words of a sentence, and spanning a graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax._checks import check_integers, check_mask
from omegamax.structured._factor import BuiltIn


class DependencyTree(BuiltIn):
    """Trees in which every word has one head, another word or the root; scores ``[*, n, n]`` are [modifier, head].

    The diagonal holds the scores of attaching a word to the root. A word whose row ``mask`` takes out is absent.

    Args:
        projective: only trees whose arcs do not cross, the root standing left of the first word.
        single_root: exactly one word is attached to the root.

    Coming from lpsmap: its ``DepTree(u, packed=True, projective=True)`` allows only one word below the root, which is
    ``DependencyTree(u, projective=True, single_root=True)`` here; without ``projective`` it allows any number, as
    ``DependencyTree(u)`` does. ``packed=True`` is the layout used here.

        >>> from omegamax.structured import sparsemap
        >>> scores = torch.tensor([[2.0, 0.0, 0.0], [1.0, 0.5, 0.0], [0.5, 1.0, 0.0]])
        >>> sparsemap(scores, DependencyTree())
        tensor([[1.0000, 0.0000, 0.0000],
                [0.7500, 0.2500, 0.0000],
                [0.2500, 0.7500, 0.0000]])

    Reference: McDonald et al. (HLT/EMNLP 2005) for the best tree with crossing arcs, Eisner (COLING 1996) without.
    """

    event_dims = 2

    def __init__(self, projective: bool = False, single_root: bool = False):
        self.projective, self.single_root = bool(projective), bool(single_root)

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        return "projective" if self.projective else "arborescence", (event[0], int(self.single_root)), None

    def part_count(self, event: tuple[int, ...]) -> int:
        return event[0]

    def check(self, name: str, scores: Tensor) -> None:
        if scores.shape[-1] != scores.shape[-2]:
            raise ValueError(
                f"{name}: scores of a DependencyTree must be square [*, n, n] (modifier, head), got shape "
                f"{tuple(scores.shape)}"
            )

    def prepare(
        self, name: str, scores: Tensor, additional: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        check_mask(name, scores, mask)
        mask = mask.expand_as(scores)
        here = mask.any(-1)
        if bool((~here).all(-1).any()):
            raise ValueError(f"{name}: mask leaves no word in a row of scores of shape {tuple(scores.shape)}")
        scores = scores.masked_fill(~(mask & here[..., None, :]), -math.inf)
        # An absent word hangs, as a leaf at no cost, from the word before it; leading ones from the word after.
        size = scores.shape[-1]
        at = torch.arange(size, device=scores.device)
        head = torch.where(here.cumsum(-1) > 0, at - 1, at + 1)
        leaf = torch.where(head[..., None] == at, 0.0, -math.inf).to(scores.dtype)
        return torch.where(here[..., None], scores, leaf), additional

    def __repr__(self) -> str:
        flags = [f"{n}=True" for n in ("projective", "single_root") if getattr(self, n)]
        return f"DependencyTree({', '.join(flags)})"


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
        check_integers("SpanningTree", "edges", edges, "an integer tensor [2, E]")
        if edges.dim() != 2 or edges.shape[0] != 2:
            raise ValueError(f"SpanningTree: edges must be [2, E], got shape {tuple(edges.shape)}")
        edges = edges.detach().to("cpu", torch.int64)
        count = edges.shape[1]
        if nodes is None:
            nodes = int(edges.max()) + 1 if count else 1
        nodes = check_integer("SpanningTree", "nodes", nodes)
        if count and (int(edges.min()) < 0 or int(edges.max()) >= nodes):
            raise ValueError(
                f"SpanningTree: edges must lie in [0, {nodes}), got from {int(edges.min())} to {int(edges.max())}"
            )
        loops = (edges[0] == edges[1]).nonzero()
        if len(loops):
            raise ValueError(f"SpanningTree: edges must not join a node to itself, got edge {int(loops[0])} that does")
        parts = _count_components(edges, nodes)
        if parts > 1:
            raise ValueError(f"SpanningTree: edges must connect all {nodes} nodes, got {parts} separate parts")
        self.edges, self.nodes = edges, nodes

    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        return "spanning_tree", (self.nodes,), self.edges

    def part_count(self, event: tuple[int, ...]) -> int:
        return self.nodes - 1

    def check(self, name: str, scores: Tensor) -> None:
        if scores.shape[-1] != self.edges.shape[1]:
            raise ValueError(
                f"{name}: scores of this SpanningTree must be [*, {self.edges.shape[1]}], one for each edge, got shape "
                f"{tuple(scores.shape)}"
            )

    def __repr__(self) -> str:
        return f"SpanningTree({self.edges.shape[1]} edges, {self.nodes} nodes)"


def _count_components(edges: Tensor, nodes: int) -> int:
    """Count the connected components of a graph."""
    label = list(range(nodes))

    def root(node: int) -> int:
        while label[node] != node:
            label[node] = label[label[node]]
            node = label[node]
        return node

    for a, b in edges.T.tolist():
        label[root(a)] = root(b)
    return sum(label[node] == node for node in range(nodes))
