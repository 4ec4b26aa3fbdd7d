"""The maps that fuse neighbours, as modules, with a strength that is fixed or learnt."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional
from omegamax._checks import check_above
from omegamax.maps import Omega
from omegamax.maps.penalised import keeps_order
from omegamax.maps.total_variation import check_edges, check_strength
from omegamax.nn.alpha import hold


class Strength(torch.nn.Module):
    r"""The weight of a penalty that gradient descent can move, and no step can make negative.

    .. math:: \lambda = \log(1 + \exp(\mathit{raw}))

    Args:
        init: where it starts, > 0.

    ``forward()`` gives lambda, a tensor without axes.

        >>> Strength(0.5)()
        tensor(0.5000, grad_fn=<SoftplusBackward0>)
    """

    def __init__(self, init: float | Tensor = 1.0):
        super().__init__()
        check_above("Strength", "init", init, 0.0)
        raw = torch.as_tensor(init, dtype=torch.float64).detach()
        if raw.dim() or not bool(raw.isfinite()):
            raise ValueError(f"Strength: init must be one finite number, got {init}")
        # The inverse of softplus, by expm1 so that a small start keeps its digits.
        raw = raw + (-(-raw).expm1()).log()
        self.raw = torch.nn.Parameter(raw.to(torch.get_default_dtype()))

    def forward(self) -> Tensor:
        raw = self.raw.float() if self.raw.dtype in (torch.float16, torch.bfloat16) else self.raw
        return torch.nn.functional.softplus(raw)


class _PenalisedMap(torch.nn.Module):
    """A map with the ``strength`` of a penalty and a ``base``."""

    strength: float | Tensor | Strength

    def __init__(self, strength: float | Tensor, base: str | Omega, learnable: bool):
        super().__init__()
        check_strength(type(self).__name__, strength)
        if learnable:
            self.strength = Strength(strength)
        else:
            hold(self, "strength", strength)
        keeps_order(type(self).__name__, base)
        self.base = base

    def options(self) -> dict:
        """Return the arguments of the function that are not the scores, with the strength as it is now."""
        strength = self.strength() if isinstance(self.strength, Strength) else self.strength
        return {"strength": strength, "base": self.base}

    def extra_repr(self) -> str:
        fixed = "" if isinstance(self.strength, Strength) else f"strength={self.strength}, "
        along = f"dim={self.dim}, " if hasattr(self, "dim") else ""
        return f"{fixed}{along}base={self.base!r}"


class Fusedmax(_PenalisedMap):
    """Module of :func:`omegamax.fusedmax`, strength fixed or learnt.

    Args:
        strength: as in the function; where it starts, if learnt.
        dim: axis of normalisation.
        base: as in the function.
        learnable: make it a :class:`~omegamax.nn.Strength`.

    >>> Fusedmax(strength=0.1)(torch.tensor([1.0, 0.9, -1.0, 0.8]))
    tensor([0.4000, 0.4000, 0.0000, 0.2000])
    """

    def __init__(
        self, strength: float | Tensor = 1.0, dim: int = -1, base: str | Omega = "sparsemax", learnable: bool = False
    ):
        super().__init__(strength, base, learnable)
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.fusedmax(z, dim=self.dim, mask=mask, **self.options())


class TVmax(_PenalisedMap):
    """Module of :func:`omegamax.tvmax`, strength fixed or learnt: scores ``[*, H, W]``.

    Args:
        strength, base, learnable: as in :class:`Fusedmax`.

    >>> TVmax(strength=0.1)(torch.tensor([[1.0, 0.9, -1.0], [0.95, 0.5, 0.0]]))
    tensor([[0.3375, 0.2625, 0.0000],
            [0.3375, 0.0625, 0.0000]])
    """

    def __init__(self, strength: float | Tensor = 0.01, base: str | Omega = "sparsemax", learnable: bool = False):
        super().__init__(strength, base, learnable)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.tvmax(z, mask=mask, **self.options())


class GraphFusedmax(_PenalisedMap):
    """Module of :func:`omegamax.graph_fusedmax`, strength fixed or learnt; the graph moves with the module.

    Args:
        edges: integers ``[2, E]``.
        strength, dim, base, learnable: as in :class:`Fusedmax`.
        weights: of the edges, ``[E]``; a Parameter is learnt.

    >>> GraphFusedmax(torch.tensor([[0, 0, 0], [1, 2, 3]]), 0.1)(torch.tensor([1.0, 0.9, -1.0, 0.8]))
    tensor([0.3333, 0.3333, 0.0000, 0.3333])
    """

    edges: Tensor
    weights: Tensor | None

    def __init__(
        self,
        edges: Tensor,
        strength: float | Tensor = 1.0,
        dim: int = -1,
        weights: Tensor | None = None,
        base: str | Omega = "sparsemax",
        learnable: bool = False,
    ):
        super().__init__(strength, base, learnable)
        hold(self, "edges", check_edges("GraphFusedmax", edges))
        hold(self, "weights", weights)
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.graph_fusedmax(z, self.edges, dim=self.dim, weights=self.weights, mask=mask, **self.options())

    def extra_repr(self) -> str:
        return f"edges={self.edges.shape[-1]}, {super().extra_repr()}"


class Oscarmax(_PenalisedMap):
    """Module of :func:`omegamax.oscarmax`, strength fixed or learnt.

    Args:
        strength, dim, base, learnable: as in :class:`Fusedmax`.

    >>> Oscarmax(strength=0.1)(torch.tensor([1.0, 0.9, -1.0, 0.8]))
    tensor([0.3333, 0.3333, 0.0000, 0.3333])
    """

    def __init__(
        self, strength: float | Tensor = 1.0, dim: int = -1, base: str | Omega = "sparsemax", learnable: bool = False
    ):
        super().__init__(strength, base, learnable)
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.oscarmax(z, dim=self.dim, mask=mask, **self.options())
