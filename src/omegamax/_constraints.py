"""Constraints of parameters that have to be finite too; those of torch let infinity pass."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import constraints
from torch.distributions.constraints import Constraint


class _Finite(Constraint):
    """Numbers, none of them infinite or NaN."""

    def check(self, value: Tensor) -> Tensor:
        return value.isfinite()


class _FinitePositive(Constraint):
    """Finite numbers above zero."""

    def check(self, value: Tensor) -> Tensor:
        return (value > 0) & value.isfinite()


class _FiniteLowerCholesky(Constraint):
    """Finite lower triangular matrices with positive diagonals."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return constraints.lower_cholesky.check(value) & value.isfinite().flatten(-2).all(-1)


class _FinitePositiveDefinite(Constraint):
    """Finite positive definite matrices."""

    event_dim = 2

    def check(self, value: Tensor) -> Tensor:
        return constraints.positive_definite.check(value) & value.isfinite().flatten(-2).all(-1)


finite = _Finite()
finite_vector = constraints.independent(finite, 1)
finite_positive = _FinitePositive()
finite_positive_vector = constraints.independent(finite_positive, 1)
finite_positive_definite = _FinitePositiveDefinite()
finite_lower_cholesky = _FiniteLowerCholesky()
