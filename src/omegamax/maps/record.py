"""What the library knows of a map: one record, from which its Module, loss, colour, listings and contracts follow."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from torch import Tensor

from omegamax._arguments import check_choice

if TYPE_CHECKING:
    from omegamax.maps.omega import Omega

# What the probabilities of a map lie in: the simplex; entries in [0, 1] that sum to k; the simplex between bounds; the
# simplex over both axes of an image.
DOMAINS = ("simplex", "budget", "bounded", "image")

_VARIADIC = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)


@dataclass(frozen=True)
class Learnable:
    """A parameter that the Module of a map can learn.

    Attributes:
        parameter: its name.
        bounds: interval that a learnt value stays in unless the Module is given another; with None it stays positive.
        above: what every value exceeds, learnt or not.
    """

    parameter: str
    bounds: tuple[float, float] | None = None
    above: float = 0.0


@dataclass(frozen=True, eq=False)
class MapRecord:
    """One map: what it is called, computes, costs and looks like.

    Attributes:
        name: of the map and of its function.
        function: ``(z, *parameters, dim=-1, *, mask=None) -> p``; an image has no ``dim``.
        omega: makes its Omega from its parameters.
        summary: what it is for, in one line.
        complexity: cost of a row of K.
        cite: key of a work in ``references.bib``, or a BibTeX entry.
        example: parameters to try it with, for rows of two entries or more.
        example_of_one: those to replace where a row has one entry.
        colour: in pictures, ``"#rrggbb"``; one of a few spare ones if None.
        domain: one of :data:`DOMAINS`.
        program: its convex program, ``(cvxpy, p, omega) -> value`` or ``-> (value, constraints)``: Omega of the
            variable ``p`` as an expression of cvxpy, and what ``p`` has to satisfy apart from the sum and the bounds
            of its Omega. Contracts solve it.
        learnable: the parameter that its Module can learn.
        module: what its Module is called in :mod:`omegamax.nn`; by default the name in capitals, ``KSubsets``.
        loss: what its loss is called in :mod:`omegamax.losses`; none if None. The Module of ``sparsemax_loss`` is
            ``SparsemaxLoss``.
        equivariant: whether a permutation of the scores permutes the probabilities; False for maps with neighbours.
        ties_share: whether equal scores get equal probabilities.
    """

    name: str
    function: Callable[..., Tensor]
    omega: Callable[..., Omega]
    summary: str
    complexity: str = ""
    cite: str = ""
    example: dict[str, Any] = field(default_factory=dict)
    example_of_one: dict[str, Any] = field(default_factory=dict)
    colour: str | None = None
    domain: str = "simplex"
    program: Callable[[Any, Any, Any], Any] | None = None
    learnable: Learnable | None = None
    module: str = ""
    loss: str | None = None
    equivariant: bool = True
    ties_share: bool = True
    signature: inspect.Signature = field(init=False, repr=False, compare=False)  # of the factory
    has_required: bool = field(init=False, repr=False, compare=False)  # whether it has parameters without a default

    def __post_init__(self) -> None:
        name = f"MapRecord of {self.name!r}"
        check_choice(name, "domain", self.domain, DOMAINS)
        for argument in ("name", "module", "loss"):
            word = getattr(self, argument)
            if word and not word.isidentifier():
                raise ValueError(f"{name}: {argument} must be a name in Python, got {word!r}")
        if self.colour is not None and not re.fullmatch("#[0-9a-f]{6}", self.colour):
            raise ValueError(f"{name}: colour must be '#rrggbb', got {self.colour!r}")
        object.__setattr__(self, "module", self.module or capitalize(self.name))
        # Attention by name asks for it at each call, and finding it out takes longer than a small kernel.
        signature = inspect.signature(self.omega)
        object.__setattr__(self, "signature", signature)
        required = any(a.default is a.empty and a.kind not in _VARIADIC for a in signature.parameters.values())
        object.__setattr__(self, "has_required", required)

    @property
    def image(self) -> bool:
        """Tell whether it is normalised over the last two axes, and so takes no ``dim``."""
        return self.domain == "image"

    def __call__(self, z: Tensor, dim: int = -1, **options: Any) -> Tensor:
        """Apply the map with the example's parameters."""
        if self.image:
            return self.function(z, **{**self.example, **options})
        return self.function(z, dim=dim, **{**self.example, **options})


def capitalize(name: str) -> str:
    """Return the name of a class for that of a function.

    >>> capitalize("k_subsets_loss")
    'KSubsetsLoss'
    """
    return "".join(part.capitalize() for part in name.split("_"))
