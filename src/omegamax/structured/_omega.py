"""The regulariser of structures, which makes a map of a factor."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_integer, check_type
from omegamax._numerics import returned_dtype
from omegamax.maps import Omega
from omegamax.structured._factor import Factor
from omegamax.structured._loss import conjugate_minus
from omegamax.structured._sparsemap import Problem, sparsemap


class StructuredOmega(Omega):
    r"""Half the squared norm on the marginals of a factor's structures, so that SparseMAP is the map.

    .. math:: \Omega(u) = \tfrac12 \lVert u \rVert^2 - \phi(u) \quad (u \in \mathrm{conv} \, \mathcal Y), \qquad
              \hat p(z) = \arg\max_u \langle u, z \rangle - \Omega(u)

    where :math:`\phi(u)` is what the factor's additional scores, if it has any, are worth at best given u. It goes
    where an Omega goes: into memories, attention and :func:`omegamax.fenchel_young_loss`. Scores and marginals are
    ``[*, K]``, the parts of a structure in a row.

    Args:
        factor: the structures.
        shape: of the parts, with product K, for factors that have more than one axis: ``(n, n)`` for the trees of n
            words, ``(n, s)`` for sequences.

        >>> from omegamax.structured import Matching
        >>> omega = StructuredOmega(Matching(), shape=(2, 2))
        >>> omega.argmax(torch.tensor([1.0, 0.25, 0.25, 0.0]))
        tensor([0.6250, 0.3750, 0.3750, 0.6250])
        >>> omega.conjugate(torch.tensor([1.0, 0.25, 0.25, 0.0]))
        tensor(0.2812)

    Reference: Niculae et al. (ICML 2018), Sec. 3; Santos et al. (ICML 2024), for memories.
    """

    name = "sparsemap"

    def __init__(self, factor: Factor, shape: tuple[int, ...] | None = None):
        self.factor = check_type("StructuredOmega", "factor", factor, Factor)  # type: ignore[type-abstract]
        dims = factor.event_dims
        if shape is None and dims > 1:
            raise ValueError(f"StructuredOmega: shape of the {dims} axes of {factor!r} is needed, got None")
        if shape is not None:
            shape = tuple(check_integer("StructuredOmega", "shape", size, least=1) for size in shape)
            if len(shape) != dims:
                raise ValueError(f"StructuredOmega: shape for {factor!r} must have {dims} axes, got {shape}")
        self.shape = shape

    @property
    def margin(self) -> float:
        """The lead of all parts of a structure over all others that is enough for a loss of 0, if one is.

        1 where structures have equally many parts and no additional scores: another structure trades d parts for d
        others, which costs d at least, and gains as much from the regulariser. A smaller lead may do.
        """
        return math.inf if self._count is None or not self._plain else 1.0

    @property
    def total(self) -> float:
        return math.nan if self._count is None else float(self._count)

    @property
    def at_most(self) -> bool:
        """Whether structures differ in the number of their parts, so that a shift of all scores counts."""
        return self._count is None

    @property
    def _count(self) -> int | None:
        return self.factor.part_count(self.shape or ())

    @property
    def _plain(self) -> bool:
        """Whether there are no additional scores, or all are known to be zero."""
        if type(self.factor).additional_scores is Factor.additional_scores:
            return True
        if self.shape is None:
            return False
        extra = self.factor.additional_scores(torch.zeros(self.shape, dtype=torch.float64))
        return extra is None or bool((extra == 0).all())

    def __call__(self, p: Tensor) -> Tensor:
        """Return Omega(p), ``[*, K] -> [*]``; of marginals only where there are no additional scores."""
        half = 0.5 * p.square().sum(-1)
        parts = self._unflatten(p)
        extra = self.factor.additional_scores(parts)
        if extra is None or not extra.shape[-1] or bool((extra == 0).all()):
            return half
        found = self.factor.additional_features(parts)
        if found is None or not bool(((p == 0) | (p == 1)).all()):
            raise NotImplementedError(
                f"StructuredOmega: with additional scores the value is known of 0/1 structures only, not of marginals, "
                f"for {self.factor!r}; sparsemap_loss and conjugate do without"
            )
        return half - (found * extra).sum(-1)

    def solve(self, z: Tensor) -> Tensor:
        return sparsemap(self._unflatten(z), self.factor).reshape(z.shape)

    def conjugate(self, z: Tensor) -> Tensor:
        """Return ``Omega*(z)`` over the last axis, ``[*, K] -> [*]``; its gradient is the marginals.

        Gradients reach the parameters of the factor, whose own is that of their additional parts.
        """
        problem = Problem("StructuredOmega.conjugate", self._unflatten(z), self.factor, None, None, two_state=False)
        extra = problem.additional
        zero = torch.zeros_like(problem.scores)
        value, bend = conjugate_minus(problem, zero, None if extra is None else torch.zeros_like(extra))
        return problem.send_back((value + bend).reshape(z.shape[:-1]).to(returned_dtype(z)))

    def slack(self, z: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
        """Return by how much the score of structures y ``[*, K]`` exceeds that of all others, and its size; ``[*]``.

        Zero where y is best, below it where another one is better; additional scores count.
        """
        scores, parts = (self._unflatten(x).flatten(0, x.dim() - 2) for x in (z, y))
        extra, own = self.factor.additional_scores(scores), self.factor.additional_features(parts)
        if extra is not None and extra.shape[-1] and own is None:
            raise ValueError(f"StructuredOmega: {self.factor!r} does not know the additional parts of its structures")
        best, more = self.factor.features(self.factor.maximize(scores, extra))
        difference = parts - best.to(parts)
        # A forbidden part that both have, or neither, meets no score.
        gain = difference * torch.where((scores == -math.inf) & (difference == 0), 0.0, scores)
        total, size = gain.flatten(1).sum(-1), gain.abs().flatten(1).sum(-1)
        if extra is not None and extra.shape[-1]:
            assert own is not None and more is not None
            gain = (own - more.to(own)) * extra
            total, size = total + gain.sum(-1), size + gain.abs().sum(-1)
        return total.reshape(z.shape[:-1]), size.reshape(z.shape[:-1])

    def _unflatten(self, z: Tensor) -> Tensor:
        if self.shape is None:
            return z
        if z.shape[-1] != math.prod(self.shape):
            raise ValueError(
                f"StructuredOmega: scores must be [*, {math.prod(self.shape)}] for parts of shape {self.shape}, got "
                f"shape {tuple(z.shape)}"
            )
        return z.unflatten(-1, self.shape)

    def __repr__(self) -> str:
        return f"StructuredOmega({self.factor!r}{'' if self.shape is None else f', shape={self.shape}'})"
