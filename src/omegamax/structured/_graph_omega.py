"""The regulariser of a factor graph, which makes a map of it."""

from __future__ import annotations

import math
from collections.abc import Callable

from torch import Tensor

from omegamax._arguments import check_integer
from omegamax._numerics import returned_dtype
from omegamax.maps import Omega
from omegamax.structured._graph import FactorGraph
from omegamax.structured._variables import Variable

Build = Callable[[FactorGraph, Variable], None]


class GraphOmega(Omega):
    r"""Half the squared norm on the marginals on which all factors of a graph agree, so that LP-SparseMAP is the map.

    .. math:: \Omega(u) = \tfrac12 \lVert u \rVert^2 - \sum_f \phi_f(u_f) \quad (u_f \in P_f \text{ for all } f)

    It goes where an Omega goes: into memories, attention and :func:`omegamax.fenchel_young_loss`, as
    :class:`StructuredOmega` does with one factor.

    Args:
        build: called with an empty graph and its variables, adds the factors.
        shape: of the variables, with product K; ``(K,)`` by default.

        >>> import torch
        >>> from omegamax.structured import AtMostOne, Xor
        >>> def neighbours(fg, u):  # one of the first three, and no two of the last three
        ...     fg.add(Xor(u[:3]))
        ...     fg.add(AtMostOne(u[1:]))
        >>> GraphOmega(neighbours).argmax(torch.tensor([0.5, 0.5, 0.0, 0.75]))
        tensor([0.5833, 0.4167, 0.0000, 0.5833])

    Reference: Niculae & Martins (ICML 2020).
    """

    name = "lp_sparsemap"
    margin = math.inf
    at_most = True  # marginals differ in their sums, so that the level of the scores counts

    def __init__(self, build: Build, shape: tuple[int, ...] | None = None):
        if not callable(build):
            raise TypeError(f"GraphOmega: build must be a function of a graph and its variables, got {build!r}")
        self.build = build
        self.shape = (
            None if shape is None else tuple(check_integer("GraphOmega", "shape", size, least=1) for size in shape)
        )

    @property
    def total(self) -> float:
        """NaN: marginals may differ in their sums."""
        return math.nan

    def __call__(self, p: Tensor) -> Tensor:
        """Return Omega(p), ``[*, K] -> [*]``, where no factor has additional scores."""
        if self._graph(p)[0].has_additional:
            raise NotImplementedError(
                "GraphOmega: with additional scores the value is not known of all marginals; FactorGraph.loss and "
                "conjugate do without"
            )
        return 0.5 * p.square().sum(-1)

    def solve(self, z: Tensor) -> Tensor:
        fg, u = self._graph(z)
        fg.solve()
        return u.value.reshape(z.shape)

    def conjugate(self, z: Tensor) -> Tensor:
        """Return ``Omega*(z)`` over the last axis, ``[*, K] -> [*]``; its gradient is the marginals."""
        return self._graph(z.double())[0].conjugate().reshape(z.shape[:-1]).to(returned_dtype(z))

    def _graph(self, z: Tensor) -> tuple[FactorGraph, Variable]:
        shape = (z.shape[-1],) if self.shape is None else self.shape
        if z.shape[-1] != math.prod(shape):
            raise ValueError(
                f"GraphOmega: scores must be [*, {math.prod(shape)}] for variables of shape {shape}, got shape "
                f"{tuple(z.shape)}"
            )
        fg = FactorGraph()
        u = fg.variable_from(z.reshape(-1, *shape), batch_dims=1)
        self.build(fg, u)
        return fg, u

    def __repr__(self) -> str:
        name = getattr(self.build, "__name__", repr(self.build))
        return f"GraphOmega({name}{'' if self.shape is None else f', shape={self.shape}'})"
