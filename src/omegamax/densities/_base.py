"""What every density has, and which function computes the expectation of which basis under which density."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax.basis import Basis

Expectation = Callable[..., Tensor]

# The functions (density, basis) -> [*, J], by the types for which they are written.
EXPECTATIONS: dict[tuple[type[Density], type[Basis]], Expectation] = {}


class Density(torch.distributions.Distribution):
    r"""A density over :math:`\mathbb{R}^n` that solves a regularised prediction problem.

    .. math:: \arg\max_p \; E_p[f(t)] - \Omega_\alpha(p), \qquad
              \Omega_\alpha(p) = \frac{1}{\alpha(\alpha - 1)} \Bigl(\int p^\alpha - 1\Bigr)

    Values are points ``t`` of shape ``sample + batch + [n]``: the event is a vector, also in one dimension.
    A subclass gives ``log_prob``, ``rsample``, ``mean``, ``covariance_matrix``, ``entropy``, ``tsallis_entropy``,
    ``support_contains`` and ``expand``; :func:`register_expectation` gives it :meth:`expect`.

    Reference: Martins et al. (NeurIPS 2020), Def. 1 and Prop. 1.
    """

    has_rsample = True

    def __init__(self, batch_shape: torch.Size, event_shape: torch.Size, validate_args: bool | None = None):
        if validate_args is not False and math.prod(batch_shape) == 0:
            validate_args = False  # the constraints of torch cannot be asked of no values
        super().__init__(batch_shape, event_shape, validate_args)

    def _validate_sample(self, value: Tensor) -> None:
        if value.numel():
            super()._validate_sample(value)

    @property
    def dimension(self) -> int:
        """Return n."""
        return self._event_shape[0]

    @property
    def covariance_matrix(self) -> Tensor:
        """Return the covariance, ``[*, n, n]``."""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """Return the variance of each coordinate, ``[*, n]``."""
        return self.covariance_matrix.diagonal(dim1=-2, dim2=-1)

    def prob(self, value: Tensor) -> Tensor:
        """Return the density itself at points ``[*, n]``; exactly 0 outside the support."""
        return self.log_prob(value).exp()

    def tsallis_entropy(self) -> Tensor:
        r"""Return :math:`-\Omega_\alpha(p)` with the alpha of the density, ``[*]``; Shannon's at alpha = 1."""
        raise NotImplementedError

    def support_contains(self, value: Tensor) -> Tensor:
        """Tell whether points ``[*, n]`` lie where the density is positive; bool."""
        raise NotImplementedError

    def escort(self, beta: float | Tensor) -> Density:
        r"""Return the escort density, proportional to the power of the density on its support.

        .. math:: \tilde p^\beta(t) = p(t)^\beta \Big/ \int p^\beta

        Of a mixture it is not known: the power of a sum is no mixture.

        Reference: Martins et al. (NeurIPS 2020), Eq. 5.
        """
        raise NotImplementedError(f"{type(self).__name__}.escort: not known in closed form; take a GridDensity")

    def expect(self, basis: Basis) -> Tensor:
        r"""Return :math:`E_p[\psi_j(t)]` for every function of a basis, ``[*, J]``.

        Differentiable, also twice, in every parameter of the density.

        Args:
            basis: J functions over the n dimensions of the density.
        """
        n = self.event_shape[-1]
        if basis.dimension != n:
            raise ValueError(
                f"expect: the density is over {n} dimension(s), the basis {type(basis).__name__} over {basis.dimension}"
            )
        return find_expectation(type(self), type(basis))(self, basis)


def register_expectation(density: type[Density], basis: type[Basis]) -> Callable[[Expectation], Expectation]:
    """Make a function ``(density, basis) -> [*, J]`` serve two types, and subtypes that have none of their own.

    The function keeps no state: everything that its backward needs is in the graph.
    """

    def register(function: Expectation) -> Expectation:
        EXPECTATIONS[density, basis] = function
        return function

    return register


def find_expectation(density: type, basis: type) -> Expectation:
    """Return the function for the closest pair of ancestors; the density's own type weighs more than the basis's."""
    for a in density.__mro__:
        for b in basis.__mro__:
            if (a, b) in EXPECTATIONS:
                return EXPECTATIONS[a, b]
    known = ", ".join(f"{a.__name__} with {b.__name__}" for a, b in EXPECTATIONS)
    raise NotImplementedError(f"expect: no rule for {density.__name__} with {basis.__name__}; there is {known}")
