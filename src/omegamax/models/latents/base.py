"""What stands between an encoder and a decoder."""

from __future__ import annotations

import abc
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.distributions import Distribution
from torch.nn.functional import softplus

from omegamax._arguments import check_integer
from omegamax.mixed import MaxEntropyMixed

_LEAST = 1e-2  # of scales and concentrations: float32 loses the digits of narrower densities


class Draw(NamedTuple):
    """Points ``[S, B, n, K]`` with gradients as far as they can move, and what chose them.

    ``log_choice [S, B]`` is the log-probability of discrete choices, None where there are none. A mean over draws has
    its gradient only together with the score function of the choices.
    """

    point: Tensor
    log_choice: Tensor | None = None


class Latent(torch.nn.Module, abc.ABC):
    r"""Codes between an encoder and a decoder: n variables, each a point of a simplex of K vertices.

    A subclass says which distribution q(y | x) the numbers of an encoder stand for, which distribution p(y) codes have
    before anything is seen, how gradients go through a draw, and how :math:`\mathrm{KL}(q \| p)` is computed. Densities
    of both distributions are with respect to the direct sum of the Lebesgue measures of the faces, see
    :class:`~omegamax.mixed.Mixed`.

    Args:
        variables: n.
        vertices: K. A decoder reads one number of a variable with two vertices, K of any other.
        each: numbers of the encoder for a variable.
    """

    def __init__(self, variables: int, vertices: int, each: int) -> None:
        super().__init__()
        for name, value in (("variables", variables), ("vertices", vertices)):
            check_integer(type(self).__name__, name, value, least=1)
        self.variables, self.vertices, self.each = variables, vertices, each
        self.register_buffer("_like", torch.zeros(()), persistent=False)  # knows device and dtype

    _like: Tensor

    @property
    def numbers(self) -> int:
        """Tell how many numbers the encoder gives."""
        return self.variables * self.each

    @property
    def size(self) -> int:
        """Tell how many numbers the decoder reads."""
        return self.variables * (1 if self.vertices == 2 else self.vertices)

    @abc.abstractmethod
    def distribution(self, numbers: Tensor) -> Distribution:
        """q(y | x) of the encoder's ``numbers [B, numbers]``; of batch shape ``[B, n]``."""

    @property
    @abc.abstractmethod
    def prior(self) -> Distribution:
        """p(y), of one variable."""

    def draw(self, distribution: Any, draws: int) -> Draw:
        """Draw points of the distribution, with their gradients."""
        return Draw(distribution.rsample(torch.Size([draws])))

    @abc.abstractmethod
    def divergence(self, distribution: Any, point: Tensor) -> Tensor:
        r"""Estimate :math:`\mathrm{KL}(q \| p)` with an unbiased gradient, ``[B]``; exact where it is closed.

        ``point [S, B, n, K]`` are draws of the distribution, which may serve for it.
        """

    def code(self, point: Tensor) -> Tensor:
        """Return what is sent of points of the distribution, ``[*, n, K]``: by default the points."""
        return point

    def read(self, point: Tensor) -> Tensor:
        """Return what a decoder reads of points, ``[*, size]``; of two vertices, the first."""
        code = self.code(point)
        return code[..., 0] if self.vertices == 2 else code.flatten(-2)

    def log_ratio(self, distribution: Distribution, point: Tensor) -> Tensor:
        """Return ``log p(y) - log q(y | x)`` at points ``[S, B, n, K]``, ``[S, B]``."""
        return (self.prior.log_prob(point) - distribution.log_prob(point)).sum(-1)

    def extra_repr(self) -> str:
        return f"variables={self.variables}, vertices={self.vertices}"

    def _parts(self, numbers: Tensor, count: int) -> list[Tensor]:
        """Return ``count`` tensors ``[B, n, each / count]``."""
        return list(numbers.unflatten(-1, (self.variables, self.each)).chunk(count, -1))

    def _scores(self, numbers: Tensor) -> Tensor:
        """Return the scores of vertices, ``[B, n, K]``; one number for two vertices is how far the first is ahead."""
        return torch.cat([numbers / 2, -numbers / 2], -1) if self.vertices == 2 else numbers

    def _same_everywhere(self) -> MaxEntropyMixed:
        """Return the distribution with one density on all faces: no code of any face is impossible."""
        return MaxEntropyMixed(self.vertices, self._like, validate_args=False)


def positive(numbers: Tensor) -> Tensor:
    """Scales or concentrations of any real numbers."""
    return softplus(numbers) + _LEAST
