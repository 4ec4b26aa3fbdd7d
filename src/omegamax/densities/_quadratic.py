"""A density with a quadratic score: its parameters, in every form in which they come and go."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import lazy_property

from omegamax._arguments import check_type, is_number
from omegamax._checks import (
    broadcast_batches,
    check_above,
    check_floating,
    check_vectors,
    is_plain,
    readable,
)
from omegamax._constraints import (
    finite_lower_cholesky,
    finite_positive_definite,
    finite_positive_vector,
    finite_vector,
)
from omegamax._numerics import working_dtype
from omegamax._torch_internals import new_instance
from omegamax.densities._base import Density
from omegamax.densities._root import MatchedRoot, Root, inverse_root, root_of_diagonal, root_of_scale, root_of_tril

Own = TypeVar("Own", bound="Quadratic")


class Quadratic(Density):
    r"""All of the beta-Gaussian that follows from :math:`f(t) = -\tfrac12 (t - \mu)' \Sigma^{-1} (t - \mu)` alone."""

    alpha: float | Tensor
    loc: Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": finite_vector,
        "scale": finite_positive_definite,
        "scale_diag": finite_positive_vector,
        "scale_tril": finite_lower_cholesky,
        "alpha": constraints.dependent,  # its bound depends on n, and is checked below
    }
    # The density is defined, and zero, outside its ellipsoid too: see support_contains.
    support = constraints.real_vector

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float | None = None,
        alpha: float | Tensor = 2.0,
        *,
        scale_diag: Tensor | None = None,
        scale_tril: Tensor | None = None,
        validate_args: bool | None = None,
    ):
        name = type(self).__name__
        loc = as_location(name, "loc", loc)
        n = loc.shape[-1]
        given = [form is not None for form in (scale, scale_diag, scale_tril)]
        if sum(given) != 1:
            raise ValueError(f"{name}: give one of scale, scale_diag and scale_tril, got {sum(given)} of them")
        if scale_diag is not None:
            root = root_of_diagonal(name, "scale_diag", scale_diag, n, loc)
        elif scale_tril is not None:
            root = root_of_tril(name, "scale_tril", scale_tril, n, loc)
        else:
            assert scale is not None
            root = root_of_scale(name, "scale", scale, n, loc, self._validates(validate_args))
        self._assemble(loc, root, alpha, validate_args)

    @classmethod
    def _validates(cls, validate_args: bool | None) -> bool:
        """Tell whether arguments are checked: as asked, otherwise as torch's distributions do by default."""
        return cls._validate_args if validate_args is None else validate_args

    @classmethod
    def _from_root(
        cls: type[Own], loc: Tensor, root: Root, alpha: float | Tensor, validate_args: bool | None = None
    ) -> Own:
        density = cls.__new__(cls)
        density._assemble(loc, root, alpha, validate_args)
        return density

    def _assemble(self, loc: Tensor, root: Root, alpha: float | Tensor, validate_args: bool | None) -> None:
        """Set every attribute: what ``__init__`` and the other ways to make a density share."""
        name, n = type(self).__name__, loc.shape[-1]
        alpha = check_above(name, "alpha", alpha, 1 - 2 / n)
        shapes = [loc.shape[:-1], root.batch_shape]
        if isinstance(alpha, Tensor):
            check_floating(name, "alpha", alpha, "a float or a floating-point tensor")
            if readable(alpha) and bool(alpha.isinf().any()):
                raise ValueError(f"{name}: alpha must be finite everywhere, got inf")
            shapes.append(alpha.shape)
        elif alpha == math.inf:
            raise ValueError(f"{name}: alpha must be finite, got inf")
        try:
            batch = broadcast_batches(*shapes)
        except RuntimeError:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(f"{name}: batch shapes of loc, scale and alpha do not broadcast, got {listed}") from None
        self._broadcast(loc.to(root.dtype), root, alpha, batch)
        if validate_args is None and not is_plain(loc, root.given):
            validate_args = False  # values cannot be looked at while they are traced or mapped over
        super().__init__(batch, torch.Size([n]), validate_args=validate_args)

    def _broadcast(self, loc: Tensor, root: Root, alpha: float | Tensor, batch: torch.Size) -> None:
        """Set the parameters: those that expectations take as they are, those that users see with the whole batch."""
        n = loc.shape[-1]
        self._loc, self._root = loc, root
        self.loc = loc if loc.shape[:-1] == batch else loc.expand((*batch, n))
        self.alpha = alpha.expand(batch) if isinstance(alpha, Tensor) else alpha
        # The one form that was given; torch checks it. The others are made when asked for.
        if isinstance(root, MatchedRoot):
            return
        if root.square is None:
            self.scale_tril = root.tril().expand((*batch, n, n))
        elif root.diagonal:
            self.scale_diag = root.square.expand((*batch, n))
        else:
            square = root.square
            self.scale = square if square.shape[:-2] == batch else square.expand((*batch, n, n))

    @classmethod
    def from_canonical(
        cls: type[Own],
        theta1: Tensor,
        theta2: Tensor | float,
        alpha: float | Tensor = 2.0,
        *,
        validate_args: bool | None = None,
    ) -> Own:
        r"""Return the density of the score ``theta1' t + t' theta2 t``.

        ``theta1`` is ``[*, n]``, ``theta2`` ``[*, n, n]`` and negative definite.

            >>> from omegamax.densities import BetaGaussian
            >>> p = BetaGaussian.from_canonical(torch.tensor([2.0]), torch.tensor([[-0.5]]), alpha=1.0)
            >>> p.loc, p.scale
            (tensor([2.]), tensor([[1.]]))

        Reference: Martins et al. (NeurIPS 2020), section 2.4.
        """
        name = f"{cls.__name__}.from_canonical"
        theta1 = as_location(name, "theta1", theta1)
        if not is_number(theta2):
            check_type(name, "theta2", theta2, Tensor, "a float or a tensor")
        validate = cls._validates(validate_args)
        root = inverse_root(root_of_scale(name, "-2 theta2", -2 * theta2, theta1.shape[-1], theta1, validate))
        loc = root.colour(root.colour_transposed(theta1.to(root.dtype)))
        return cls._from_root(loc, root, alpha, validate_args)

    def expand(self: Own, batch_shape: Any, _instance: Own | None = None) -> Own:
        new: Any = new_instance(self, type(self), _instance)
        batch = torch.Size(batch_shape)
        loc = self.loc.expand((*batch, self.dimension))  # from which all results have the batch
        new._broadcast(loc, self._root, self.alpha, batch)
        Density.__init__(new, batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @lazy_property
    def scale(self) -> Tensor:
        """Return Sigma, ``[*, n, n]``."""
        return self._root.gram().expand((*self._batch_shape, self.dimension, self.dimension))

    @lazy_property
    def scale_diag(self) -> Tensor:
        """Return the diagonal of Sigma, ``[*, n]``."""
        return self.scale.diagonal(dim1=-2, dim2=-1)

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Return the Cholesky factor L of Sigma, ``[*, n, n]``."""
        return self._root.tril().expand((*self._batch_shape, self.dimension, self.dimension))

    @property
    def canonical(self) -> tuple[Tensor, Tensor]:
        r"""Return ``(theta1, theta2)`` of shapes ``[*, n]`` and ``[*, n, n]``.

        The score is ``theta1' t + t' theta2 t``.

        .. math:: \theta_1 = \Sigma^{-1} \mu, \qquad \theta_2 = -\tfrac12 \Sigma^{-1}
        """
        n = self.dimension
        half = self._root.whiten_matrix(torch.eye(n, dtype=self.loc.dtype, device=self.loc.device))
        precision = (half.mT @ half).expand((*self._batch_shape, n, n))
        return (precision @ self.loc.unsqueeze(-1)).squeeze(-1), -0.5 * precision

    def __repr__(self) -> str:
        alpha = tuple(self.alpha.shape) if isinstance(self.alpha, Tensor) else self.alpha
        return f"{type(self).__name__}(loc: {tuple(self.loc.shape)}, alpha: {alpha})"


def as_location(name: str, argument: str, loc: Tensor) -> Tensor:
    """Refuse what is not a floating tensor ``[*, n]``; half precision becomes float32."""
    check_vectors(name, argument, loc)
    return loc.to(working_dtype(loc))
