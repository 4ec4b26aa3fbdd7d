"""Sets of marginals of a few variables onto which the projection has a closed form."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Face(ABC):
    """The smallest face that a point lies on: how the projection moves as long as it stays there.

    Linear, in torch that can be differentiated.
    """

    @abstractmethod
    def jvp(self, d_scores: Tensor | None, d_additional: Tensor | None = None) -> Tensor:
        """Change ``[B, K, m]`` of the marginals with changes of the scores, and of the additional scores ``[B, K, a]``.

        In the scores it is the orthogonal projection onto the directions of the face.
        """

    @abstractmethod
    def matrix(self) -> Tensor:
        """That projection, ``[B, K, m, m]``."""


class SpreadFace(Face):
    """A face whose :meth:`jvp` takes changes of the scores with any number of leading axes."""

    free: Tensor  # [B, K, m]

    def matrix(self) -> Tensor:
        size = self.free.shape[-1]
        units = torch.eye(size, dtype=self.free.dtype, device=self.free.device)[:, None, None]
        return self.jvp(units.expand(size, *self.free.shape)).movedim(0, -1)


class Polytope(ABC):
    r"""The marginals that a kind of factor allows to its m variables.

    .. math:: \arg\max_{u \in P} \langle z, u \rangle + \phi(u) - \tfrac12 \lVert u \rVert^2

    where :math:`\phi` is what the additional scores, if the kind has any, are worth at best given u. ``K`` factors of a
    kind and size are solved at once; ``parameters [K, p]`` may tell them apart.
    """

    @abstractmethod
    def project(self, z: Tensor, parameters: Tensor, additional: Tensor | None) -> Tensor:
        """The solution ``[B, K, m]`` for scores ``[B, K, m]`` and additional scores ``[B, K, a]``."""

    @abstractmethod
    def face(self, u: Tensor, parameters: Tensor, additional: Tensor | None, tol: float) -> Face:
        """The face of a solution, with what is within ``tol`` of a bound taken to be on it."""


def inside(u: Tensor, tol: float) -> Tensor:
    """Which entries are at neither bound of the unit interval."""
    return (u > tol) & (u < 1 - tol)
