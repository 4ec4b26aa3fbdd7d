"""What a regulariser is: a value, the map it defines, and the conjugate that ties the two together."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor

from omegamax._checks import apply_mask, check_scores
from omegamax._numerics import returned_dtype, working_dtype
from omegamax.maps.conjugate import conjugate_minus


class Omega(ABC):
    r"""A convex regulariser of probabilities ``p``, infinite off its domain.

    .. math:: \hat p(z) = \arg\max_p \langle p, z \rangle - \Omega(p), \qquad
              \Omega^*(z) = \max_p \langle p, z \rangle - \Omega(p)

    A subclass gives the value, the map, the margin and the names; everything else in the library (losses, attention,
    memories) is built from these.

    Reference: Blondel, Martins & Niculae (JMLR 2020), Def. 1.
    """

    # Whether each probability is one non-decreasing function of its own score, the same for all entries of a row: the
    # map then passes on what was done to its scores to make neighbours alike.
    keeps_order: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Give the name of the map, as :func:`omegamax.get` takes it."""

    @property
    @abstractmethod
    def margin(self) -> float:
        """Give the smallest lead of the target's score over all others for a loss of exactly 0; ``inf`` if none is."""

    @property
    def total(self) -> float | Tensor:
        """Give the sum of the probabilities in the domain."""
        return 1.0

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        """Give the scalars of the constructor that the conjugate has gradients for."""
        return ()

    def with_parameters(self, *parameters: float | Tensor) -> Omega:
        """Return the same regulariser with other :attr:`parameters`."""
        return self

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        """Return the derivatives of ``Omega*(z)`` in :attr:`parameters` at ``p = argmax(z)``; differentiable in both.

        One for each parameter, broadcastable to ``z``: ``[*, 1]`` for a number for each row, ``[*, K]`` for one for
        each entry. By the envelope theorem the change of ``p`` does not count: it is the derivative of ``-Omega(p)``
        for a parameter of the value, and a multiplier for one of the domain.
        """
        return ()

    def within(self, z: Tensor) -> Omega:
        """Return the regulariser of what the scores leave: masked entries may take more than themselves out of it."""
        return self

    @abstractmethod
    def __call__(self, p: Tensor) -> Tensor:
        """Return Omega(p) over the last axis, ``[*, K] -> [*]``."""

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        """Return the probabilities along ``dim``, shaped like ``z``; by default :meth:`solve` of each row."""
        dim = check_scores(self.name, z, dim)
        z = apply_mask(self.name, z, mask)
        if z.dim() == 0:  # a row of one
            return self.argmax(z.reshape(1)).reshape(())
        rows = z.to(working_dtype(z)).movedim(dim, -1)
        return self.solve(rows).movedim(-1, dim).to(returned_dtype(z))

    def solve(self, z: Tensor) -> Tensor:
        """Return the probabilities along the last axis of scores that are float32 or float64, ``-inf`` where masked.

        A subclass gives this or :meth:`argmax`. Its gradient is that of its operations, or of an
        ``autograd.Function`` among them.
        """
        raise NotImplementedError(f"{type(self).__name__}: give solve(z), the map along the last axis, or argmax")

    def conjugate(self, z: Tensor) -> Tensor:
        """Return ``Omega*(z)`` over the last axis, ``[*, K] -> [*]``; its gradient is :meth:`argmax`."""
        return conjugate_minus(self, z)

    def conjugate_at(self, z: Tensor, p: Tensor, origin: Tensor | None = None) -> Tensor:
        """Return ``<p, z - origin> - Omega(p)`` at ``p = argmax(z)``; ``origin`` is one score a row, ``[*, 1]``.

        Nothing is differentiated through it. A subclass overrides it if the optimum gives the value away for less.
        """
        at_p = self.within(z)(p)
        # A masked entry, without mass, meets a finite score: 0 times -inf would be NaN.
        low = torch.finfo(z.dtype).min
        scores = z if origin is None else z - origin
        return (p * scores.clamp(min=low)).sum(tuple(range(at_p.dim() - z.dim(), 0))) - at_p
