"""Which rule computes the expectation of which basis under which density."""

from __future__ import annotations

from collections.abc import Callable

from torch import Tensor

from omegamax.basis import Basis
from omegamax.densities._base import Density

Rule = Callable[..., Tensor]

RULES: dict[tuple[type[Density], type[Basis]], Rule] = {}


def rule(density: type[Density], basis: type[Basis]) -> Callable[[Rule], Rule]:
    """Make a function ``(density, basis) -> [*, J]`` the rule for two types and for subtypes that have none.

    A rule keeps no state: everything that its backward needs is in the graph.
    """

    def register(function: Rule) -> Rule:
        RULES[density, basis] = function
        return function

    return register


def find(density: type, basis: type) -> Rule:
    """The rule registered for the closest pair of ancestors; the density's own type weighs more than the basis's."""
    for a in density.__mro__:
        for b in basis.__mro__:
            if (a, b) in RULES:
                return RULES[a, b]
    known = ", ".join(f"{a.__name__} with {b.__name__}" for a, b in RULES)
    raise NotImplementedError(f"expect: no rule for {density.__name__} with {basis.__name__}; there is {known}")


def expect(density: Density, basis: Basis) -> Tensor:
    r""":math:`E_p[\psi_j(t)]` for every function of a basis, ``[*, J]``.

    Args:
        density: batch shape ``[*]``, over n dimensions.
        basis: J functions over n dimensions.

    Differentiable, also twice, in every parameter of the density. The same as ``density.expect(basis)``.
    """
    n = density.event_shape[-1]
    if basis.dimension != n:
        raise ValueError(
            f"expect: the density is over {n} dimension(s), the basis {type(basis).__name__} over {basis.dimension}"
        )
    return find(type(density), type(basis))(density, basis)
