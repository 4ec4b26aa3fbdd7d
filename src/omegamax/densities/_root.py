"""Roots of the matrices of densities: triangular, or diagonal where there is no more."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._arguments import check_type, is_number
from omegamax._checks import check_floating, check_scale, check_symmetric, is_plain
from omegamax._numerics import factor_in_plane


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
        self._square = square

    @property
    def square(self) -> Tensor | None:
        """Return Sigma, or its diagonal, if that is what was given."""
        return self._square

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


class MatchedRoot(Root):
    """The root of the Sigma that belongs to a covariance ``[*, n, n]``: a multiple of it, made if anyone asks for it.

    Args:
        covariance: that of the density of ``alpha``.
        match: returns Sigma.
    """

    def __init__(self, covariance: Tensor, alpha: float, match: Callable[[Tensor], Tensor]):
        self._values = self._square = None
        self.diagonal = False
        self.covariance, self.alpha = covariance, alpha
        self._match = match

    @property
    def square(self) -> Tensor:
        """Return Sigma, with its gradient, in whatever mode it is first asked for."""
        if self._square is None:
            with torch.enable_grad():
                self._square = self._match(self.covariance)
        return self._square

    @property
    def given(self) -> Tensor:
        """Return the covariance."""
        return self.covariance


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
