"""A density with a quadratic score: its parameters, in every form in which they come and go."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import lazy_property

from omegamax._arguments import check_type, is_number
from omegamax._checks import (
    check_above,
    check_floating,
    check_scale,
    check_symmetric,
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
from omegamax._numerics import factor_in_plane, working_dtype
from omegamax.densities._base import Density

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
            same = all(shape == shapes[0] for shape in shapes)
            batch = shapes[0] if same else torch.broadcast_shapes(*shapes)  # which takes torch a tenth of a millisecond
        except RuntimeError:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(f"{name}: batch shapes of loc, scale and alpha do not broadcast, got {listed}") from None
        self._root = root
        self._loc = loc.to(root.dtype)  # not yet broadcast
        self.loc = self._loc.expand((*batch, n))
        self.alpha = alpha.expand(batch) if isinstance(alpha, Tensor) else alpha
        # The one form that was given; torch checks it. The others are made when asked for.
        if root.square is None:
            self.scale_tril = root.tril().expand((*batch, n, n))
        elif root.diagonal:
            self.scale_diag = root.square.expand((*batch, n))
        else:
            self.scale = root.square.expand((*batch, n, n))
        if validate_args is None and (not is_plain(loc, root.given) or math.prod(batch) == 0):
            validate_args = False  # values cannot be looked at while they are traced or mapped over; or there are none
        super().__init__(batch, torch.Size([n]), validate_args=validate_args)

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
        new: Any = type(self).__new__(type(self)) if _instance is None else _instance
        batch = torch.Size(batch_shape)
        ranks = {"loc": 1, "scale": 2, "scale_diag": 1, "scale_tril": 2}
        for name, value in self.__dict__.items():
            new.__dict__[name] = value.expand(batch + value.shape[-ranks[name] :]) if name in ranks else value
        new._loc = new.loc
        new.alpha = self.alpha.expand(batch) if isinstance(self.alpha, Tensor) else self.alpha
        new._batch_shape = batch
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


class Root:
    """``L`` with ``L L' = Sigma``: lower triangular ``[*, n, n]``, or its diagonal ``[*, n]`` if there is no more.

    The batch is that of the argument it came from, not yet broadcast with the location's: one factor serves many.

    Args:
        values: L; None: to be computed from ``square`` if anyone asks for it, as many expectations do not.
        diagonal: whether there is a diagonal only.
        square: Sigma, or its diagonal, if that is what was given.
    """

    def __init__(self, values: Tensor | None, diagonal: bool, square: Tensor | None = None):
        assert values is not None or square is not None
        self._values = values
        self.diagonal = diagonal
        self.square = square

    @property
    def values(self) -> Tensor:
        """Return L, or its diagonal."""
        if self._values is None:
            assert self.square is not None
            self._values = cholesky(self.square)
        return self._values

    @property
    def given(self) -> Tensor:
        """Return what it was made from: Sigma or L."""
        return self.values if self.square is None else self.square

    @property
    def dtype(self) -> torch.dtype:
        return self.given.dtype

    @property
    def batch_shape(self) -> torch.Size:
        return self.given.shape[:-1] if self.diagonal else self.given.shape[:-2]

    def tril(self) -> Tensor:
        """Return ``L`` in full, ``[*, n, n]``."""
        if not self.diagonal:
            return self.values
        return self.values.unsqueeze(-1) if self.values.shape[-1] == 1 else torch.diag_embed(self.values)

    def gram(self) -> Tensor:
        """Return ``L L'``, ``[*, n, n]``."""
        if self.diagonal:
            return torch.diag_embed(self.values.square() if self.square is None else self.square)
        return self.values @ self.values.mT if self.square is None else self.square

    def log_det(self) -> Tensor:
        """Return ``log det L``, ``[*]``: half of that of Sigma."""
        pivots = self.values if self.diagonal else self.values.diagonal(dim1=-2, dim2=-1)
        return pivots.log().sum(-1)

    def times(self, factor: Tensor | float) -> Root:
        """Return ``factor L`` with one number for each of the batch, ``[*]``."""
        if isinstance(factor, Tensor):
            factor = factor[..., None] if self.diagonal else factor[..., None, None]
        return Root(self.values * factor, self.diagonal)

    def colour(self, z: Tensor) -> Tensor:
        """Return ``L z`` for vectors ``[*, n]``."""
        return self.values * z if self.diagonal else _columns(torch.matmul, self.values, z)

    def colour_transposed(self, z: Tensor) -> Tensor:
        """Return ``L' z`` for vectors ``[*, n]``."""
        return self.values * z if self.diagonal else _columns(torch.matmul, self.values.mT, z)

    def whiten(self, x: Tensor) -> Tensor:
        """Return ``L^-1 x`` for vectors ``[*, n]``."""
        return x / self.values if self.diagonal else _columns(_solve, self.values, x)

    def whiten_matrix(self, matrix: Tensor) -> Tensor:
        """Return ``L^-1 M`` for matrices ``[*, n, k]``."""
        return matrix / self.values.unsqueeze(-1) if self.diagonal else _solve(self.values, matrix)

    def take(self, indices: list[int]) -> Root:
        """Return the root of the rows and columns ``indices`` of Sigma."""
        if self.diagonal:
            return Root(self.values[..., indices], True)
        rows = self.values[..., indices, :]
        return Root(cholesky(rows @ rows.mT), False)


def cholesky(matrix: Tensor) -> Tensor:
    """Return the Cholesky factor; NaN for a matrix that has none.

    A NaN spoils its own entry of the batch only, and nothing waits for a GPU.
    """
    if matrix.is_cuda and matrix.shape[-1] == 2:  # a few small kernels, which a CUDA graph can hold
        return factor_in_plane(matrix)
    factor, info = torch.linalg.cholesky_ex(matrix)
    return torch.where((info == 0)[..., None, None], factor, math.nan)


def inverse_root(precision: Root) -> Root:
    """Return the root of the inverse, lower triangular again."""
    if precision.diagonal:
        return Root(1 / precision.values, True)
    upper = cholesky(precision.gram().flip(-2, -1)).flip(-2, -1)
    identity = torch.eye(upper.shape[-1], dtype=upper.dtype, device=upper.device)
    return Root(_solve(upper.mT, identity), False)


def _solve(tril: Tensor, columns: Tensor) -> Tensor:
    return torch.linalg.solve_triangular(tril, columns, upper=False)


def _columns(apply: Callable[[Tensor, Tensor], Tensor], matrix: Tensor, x: Tensor) -> Tensor:
    """Return ``apply(matrix, columns)`` for vectors ``[*, n]``, where those that share a matrix are its columns.

    The matrix is never copied, as broadcasting it over many vectors would.
    """
    n = x.shape[-1]
    rank = max(x.dim() - 1, matrix.dim() - 2)
    matrix = matrix.reshape((1,) * (rank + 2 - matrix.dim()) + tuple(matrix.shape))
    x = x.expand((*torch.broadcast_shapes(x.shape[:-1], matrix.shape[:-2]), n))
    own = [i for i in range(rank) if matrix.shape[i] != 1]
    shared = [i for i in range(rank) if matrix.shape[i] == 1]
    order = [*own, rank, *shared]
    moved = x.permute(order)
    batch = [matrix.shape[i] for i in own]
    columns = moved.flatten(len(own) + 1) if shared else moved.unsqueeze(-1)
    done = apply(matrix.reshape(*batch, n, n), columns).reshape(moved.shape)
    return done.permute(sorted(range(rank + 1), key=order.__getitem__))


def root_of_scale(
    name: str, argument: str, scale: Tensor | float, n: int, like: Tensor, validate: bool = False
) -> Root:
    """Return the root of Sigma given in full ``[*, n, n]``, or as a multiple of the identity.

    A number, a 0-d tensor and ``[*, 1, 1]`` are multiples of the identity. ``validate`` refuses a matrix that is not
    symmetric and positive definite.
    """
    if not isinstance(scale, Tensor):
        if not is_number(scale):
            check_type(name, argument, scale, Tensor, "a float or a tensor")
        scale = check_scale(name, argument, scale, like)
        return Root(like.new_full((n,), math.sqrt(scale)), True, like.new_full((n,), scale))
    scale = _as_floating(name, argument, scale, like)
    if scale.dim() == 0 or (scale.dim() >= 2 and scale.shape[-2:] == (1, 1)):
        diagonal = scale.expand(n) if scale.dim() == 0 else scale.squeeze(-1).expand((*scale.shape[:-2], n))
        return Root(diagonal.sqrt(), True, diagonal)
    _check_shape(name, argument, scale, (n, n))
    if validate:
        check_symmetric(name, argument, scale)
    scale = (scale + scale.mT) / 2  # so that a gradient in any entry is the one of a symmetric matrix
    root = Root(None, False, scale)
    if validate and is_plain(scale) and not bool(root.values.diagonal(dim1=-2, dim2=-1).isfinite().all()):
        bad = ~root.values.diagonal(dim1=-2, dim2=-1).isfinite().all(-1)
        raise ValueError(f"{name}: {argument} must be positive definite, got {scale.detach()[bad][0].tolist()}")
    return root


def root_of_diagonal(name: str, argument: str, diagonal: Tensor, n: int, like: Tensor) -> Root:
    """Return the root of a diagonal Sigma ``[*, n]``."""
    diagonal = _as_floating(name, argument, diagonal, like)
    _check_shape(name, argument, diagonal, (n,))
    return Root(diagonal.sqrt(), True, diagonal)


def root_of_tril(name: str, argument: str, tril: Tensor, n: int, like: Tensor) -> Root:
    """Return a Cholesky factor ``[*, n, n]`` as it is."""
    tril = _as_floating(name, argument, tril, like)
    _check_shape(name, argument, tril, (n, n))
    return Root(tril, False)


def _as_floating(name: str, argument: str, value: Tensor, like: Tensor) -> Tensor:
    check_floating(name, argument, value)
    return value.to(torch.promote_types(value.dtype, like.dtype))


def _check_shape(name: str, argument: str, value: Tensor, ending: tuple[int, ...]) -> None:
    if value.shape[-len(ending) :] != ending:
        wanted = ", ".join(map(str, ending))
        raise ValueError(
            f"{name}: {argument} must have shape [*, {wanted}] for a location of {ending[0]} coordinates, "
            f"got {tuple(value.shape)}"
        )
