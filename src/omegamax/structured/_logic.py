"""Factors with a closed form, and the polytopes of their marginals: the bases of logic among binary variables."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from omegamax.structured._variables import Variable, concatenate

if TYPE_CHECKING:
    from omegamax.structured._graph import FactorGraph


class Polytope(ABC):
    r"""The marginals that a kind of factor allows to its m variables.

    .. math:: \arg\max_{u \in P} \langle z, u \rangle + \phi(u) - \tfrac12 \lVert u \rVert^2

    where :math:`\phi` is what the additional scores, if the kind has any, are worth at best given u. ``K`` factors of a
    kind and size are solved at once; ``parameters [K, p]`` may tell them apart.
    """

    @abstractmethod
    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        """Return the solution ``[B, K, m]`` for scores ``[B, K, m]`` and additional scores ``[B, K, a]``."""

    @abstractmethod
    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        """Return the face of a solution, with what is within ``tol`` of a bound taken to be on it."""

    def additional_marginals(self, u: Tensor, additional: Tensor | None) -> Tensor | None:
        """Return the best additional marginals ``[B, K, a]`` given u, of a kind that has any.

        Without additional scores u must be 0/1, which leaves no choice.
        """
        return None


class Face(ABC):
    """The smallest face that a point lies on: how the projection moves as long as it stays there.

    Linear, in torch that can be differentiated.
    """

    @abstractmethod
    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        """Return the change ``[B, K, m]`` of the marginals with changes ``[B, K, m]`` and ``[B, K, a]`` of the scores.

        In the scores it is the orthogonal projection onto the directions of the face.
        """

    @abstractmethod
    def matrix(self) -> Tensor:
        """Return that projection, ``[B, K, m, m]``."""


class BatchedFace(Face):
    """A face whose :meth:`jvp` takes changes of the scores with any number of leading axes."""

    free: Tensor  # [B, K, m]

    def matrix(self) -> Tensor:
        size = self.free.shape[-1]
        units = torch.eye(size, dtype=self.free.dtype, device=self.free.device)[:, None, None]
        return self.jvp(units.expand(size, *self.free.shape)).movedim(0, -1)


def is_interior(u: Tensor, tol: float) -> Tensor:
    """Tell which entries are at neither bound of the unit interval."""
    return (u > tol) & (u < 1 - tol)


class LogicFactor:
    """K factors of one kind on m variables each, whose projection has a closed form.

    Args:
        graph: the graph of the variables.
        index, negated: ``[K, m]``, which variables, and whether as their negations.
        polytope: the kind.
        parameters: ``[K, p]``, of the kind.
        additional: ``[*batch, K, a]``, its additional scores.
    """

    def __init__(
        self,
        graph: FactorGraph,
        index: np.ndarray,
        negated: np.ndarray,
        polytope: Polytope,
        parameters: np.ndarray | None = None,
        additional: Tensor | None = None,
    ):
        self.graph, self.index, self.negated, self.polytope = graph, index, negated, polytope
        self.parameters = np.zeros((len(index), 0)) if parameters is None else parameters
        self.additional = additional

    def __repr__(self) -> str:
        count, size = self.index.shape
        return f"{type(self).__name__} on {size} variables" if count == 1 else f"{count} {type(self).__name__} factors"


def concatenate_with_outcome(name: str, variables: tuple[Any, ...]) -> Variable:
    """Lay variables side by side, of which there must be two: the last is the outcome of the others."""
    row = concatenate(name, variables)
    if row.index.size < 2:
        raise ValueError(f"{name}: variables must be at least two, the last being the outcome, got one")
    return row
