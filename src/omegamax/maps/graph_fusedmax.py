"""Neighbours in a graph with equal probabilities: total variation, over any base map."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._checks import apply_mask, check_scores
from omegamax.maps._penalty_arguments import check_edges
from omegamax.maps.omega import Omega
from omegamax.maps.penalised import Penalised, check_base, solve_in_working_dtype
from omegamax.maps.record import Learnable, MapRecord
from omegamax.maps.registry import register
from omegamax.maps.total_variation import prox_graph, tv_prox_graph


class GraphFused(Penalised):
    r"""``base(p) + strength * sum_e w_e |p_i - p_j|``: the regulariser of :func:`omegamax.graph_fusedmax`.

    Args:
        base: a map by name or its Omega, as there.
        edges: integers ``[2, E]``.
        strength: >= 0. Gradients reach it.
        weights: of the edges, ``[E]``; ones if None. Gradients reach them.

        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> GraphFused("sparsemax", star, 0.1).argmax(torch.tensor([1.0, 0.9, -1.0, 0.8]))
        tensor([0.3333, 0.3333, 0.0000, 0.3333])
    """

    name = "graph_fusedmax"

    def __init__(self, base: str | Omega, edges: Tensor, strength: float | Tensor = 1.0, weights: Tensor | None = None):
        super().__init__(base, strength)
        self.edges = check_edges("GraphFused", edges)
        self.weights = weights

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        parameters = (*self.base.parameters, self.strength)
        return parameters if self.weights is None else (*parameters, self.weights)

    def with_parameters(self, *parameters: float | Tensor) -> GraphFused:
        if self.weights is None:
            return super().with_parameters(*parameters)
        *others, weights = parameters
        twin = super().with_parameters(*others)
        twin.weights = torch.as_tensor(weights)
        return twin

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        slopes = super().parameter_gradients(z, p)
        if self.weights is None:
            return slopes
        return (*slopes, -self.strength * self.within(z)._between(p, *self.edges))

    @property
    def reach(self) -> float:
        # Both ends of the lead can move by the weight of their edges.
        if self.edges.shape[-1] == 0:
            return 0.0
        weights = torch.ones_like(self.edges[0], dtype=torch.float64) if self.weights is None else self.weights.double()
        degree = weights.new_zeros(int(self.edges.max()) + 1)
        weights = torch.where(self.edges[0] == self.edges[1], 0.0, weights)  # a loop moves nothing
        degree.index_add_(0, self.edges.flatten(), weights.repeat(2))
        return 2 * degree.max().item()

    def penalty(self, p: Tensor) -> Tensor:
        gap = self._between(p, *self.edges)
        return gap.sum(-1) if self.weights is None else (gap * self.weights.to(p.dtype)).sum(-1)

    def smooth(self, z: Tensor) -> Tensor:
        return tv_prox_graph(z, self.edges, self.strength, weights=self.weights)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return graph_fusedmax(z, self.edges, self.strength, dim, weights=self.weights, base=self.base, mask=mask)


def graph_fusedmax(
    z: Tensor,
    edges: Tensor,
    strength: float | Tensor = 1.0,
    dim: int = -1,
    *,
    weights: Tensor | None = None,
    base: str | Omega = "sparsemax",
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return probabilities in connected clusters: a penalty on the difference of neighbours in a graph.

    .. math:: \arg\max_p \langle p, z \rangle - \Omega(p) - \lambda \sum_{(i, j) \in E} w_{ij} |p_i - p_j|

    Args:
        z: scores, one for each of the K nodes along ``dim``; ``-inf`` masks a node.
        edges: integers ``[2, E]``, each undirected edge once; one graph for all rows. A loop counts for nothing.
        strength: the penalty's weight lambda >= 0, a number or a tensor: 0-d, or of size 1 along ``dim``. Gradients
            reach it.
        weights: of the edges, ``[E]``, >= 0; ones if None. Gradients reach them.
        base: as in :func:`fusedmax`.
        mask: bool, broadcastable to ``z``; ``False`` masks a node, with its edges.

    Returns:
        Like ``z``: in the domain of ``base``.

        >>> star = torch.tensor([[0, 0, 0], [1, 2, 3]])
        >>> graph_fusedmax(torch.tensor([1.0, 0.9, -1.0, 0.8]), star, strength=0.1)
        tensor([0.3333, 0.3333, 0.0000, 0.3333])

    Reference: Martins et al. (ICIP 2021), Prop. 1.
    """
    dim = check_scores("graph_fusedmax", z, dim)
    omega = check_base("graph_fusedmax", base)

    def solve(x: Tensor) -> Tensor:
        return omega.argmax(prox_graph("graph_fusedmax", x, edges, strength, dim, weights, "z"), dim)

    return solve_in_working_dtype(apply_mask("graph_fusedmax", z, mask), omega, (dim,), solve)


def _program(cp, p, omega: GraphFused):
    first, second = omega.edges.tolist()
    return (cp.sum_squares(p) - 1) / 2 + omega.strength * cp.sum(cp.abs(p[first] - p[second]))


register(
    MapRecord(
        "graph_fusedmax",
        graph_fusedmax,
        lambda edges, strength=1.0, weights=None, base="sparsemax": GraphFused(base, edges, strength, weights),
        summary="neighbours in any graph get equal weights",
        complexity="a few cuts of the graph",
        cite="martins2021tvmax",
        example={"edges": torch.tensor([[0, 1], [1, 2]]), "strength": 0.25},
        colour="#4a5aa8",
        program=_program,
        learnable=Learnable("strength"),
        equivariant=False,
    )
)
