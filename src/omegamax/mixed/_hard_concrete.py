"""A Concrete point, stretched beyond the simplex and projected back."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.nn.functional import logsigmoid

from omegamax._constraints import finite_positive
from omegamax._torch_internals import new_instance
from omegamax.functional import sparsemax
from omegamax.mixed._concrete import ConcreteMixed, concrete_parameters, concrete_sample


class HardConcrete(ConcreteMixed):
    r"""Stretch and project: sparsemax of a multiple of a Concrete (Gumbel-softmax) point.

    .. math:: Y = \mathrm{sparsemax}(\tau Y'), \qquad Y' \sim \mathrm{Concrete}(z, \lambda), \qquad \tau \ge 1

    With two vertices it is the usual binary distribution on the line, stretched to :math:`((1 - \tau)/2, (1 + \tau)/2)`
    and clipped to [0, 1]; ``log_prob`` and ``log_face_prob`` exist for two vertices only. Densities are with respect to
    the direct sum of the Lebesgue measures of the faces, see :class:`Mixed`. Samples carry gradients to all parameters.

    Args:
        temperature: lambda, positive; a number or a tensor that broadcasts with the batch.
        probs, logits: of the vertices, ``[*, K]``, one of the two, as in torch's ``RelaxedOneHotCategorical``.
        stretch: tau, at least 1, where it is the Concrete distribution itself; a number or a tensor like
        ``temperature``.
            1.2 stretches two vertices to the usual (-0.1, 1.1).

        >>> p = HardConcrete(0.5, logits=torch.tensor([0.5, 0.0]), stretch=1.2)
        >>> p.face_probs()  # the two vertices, the edge
        tensor([0.3320, 0.1546, 0.5134])
        >>> HardConcrete(0.5, logits=torch.zeros(2, 8)).rsample().shape
        torch.Size([2, 8])

    Reference: Farinhas et al. (ICLR 2022); two vertices: Louizos et al. (ICLR 2018).
    """

    arg_constraints = {  # noqa: RUF012
        "temperature": finite_positive,
        "logits": constraints.real_vector,
        "stretch": constraints.greater_than_eq(1),
    }

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        stretch: Tensor | float = 1.2,
        validate_args: bool | None = None,
    ) -> None:
        self.logits, (self.temperature, self.stretch) = concrete_parameters(
            "HardConcrete", probs, logits, temperature=temperature, stretch=stretch
        )
        super().__init__(self.logits.shape[:-1], self.logits.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> HardConcrete:
        new = new_instance(self, HardConcrete, _instance)
        batch = torch.Size(batch_shape)
        new.logits = self.logits.expand(batch + self._event_shape)
        new.temperature, new.stretch = self.temperature.expand(batch), self.stretch.expand(batch)
        super(HardConcrete, new).__init__(batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``, with gradients to every parameter."""
        return sparsemax(self.stretch.unsqueeze(-1) * concrete_sample(self.logits, self.temperature, sample_shape))

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, 2]``; for two vertices only."""
        self._needs_edge("log_prob")
        self._check_value(value)
        one, zero, _ = self._log_faces()
        first, second = value[..., 0], value[..., 1]
        inside = (first > 0) & (second > 0)
        # Where on the unit interval the point was before it was stretched, and how far from its other end.
        margin = 0.5 * (self.stretch - 1)
        x = (torch.where(inside, first, 0.5) + margin) / self.stretch
        rest = (torch.where(inside, second, 0.5) + margin) / self.stretch
        u = self.temperature * (x.log() - rest.log()) - self._lead
        inner = self.temperature.log() - self.stretch.log() + logsigmoid(u) + logsigmoid(-u) - x.log() - rest.log()
        return torch.where(inside, inner, torch.where(first > 0, one, zero))

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, 2]`` (bool, broadcasts with the batch); for two vertices only."""
        self._needs_edge("log_face_prob")
        face = self._check_face(face)
        one, zero, edge = self._log_faces()
        return torch.where(face.all(-1), edge, torch.where(face[..., 0], one, zero))

    @property
    def _lead(self) -> Tensor:
        return self.logits[..., 0] - self.logits[..., 1]

    def _log_faces(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return the log-probabilities of (1, 0), of (0, 1) and of the edge, each ``[*]``."""
        beyond = self.stretch > 1
        tau = torch.where(beyond, self.stretch, 2.0)
        end = self.temperature * ((tau + 1) / (tau - 1)).log()  # logit of the point that lands on the vertex
        one, zero = logsigmoid(self._lead - end), logsigmoid(-self._lead - end)
        edge = logsigmoid(end - self._lead) + logsigmoid(end + self._lead) + (-(-2 * end).expm1()).log()
        return torch.where(beyond, one, -math.inf), torch.where(beyond, zero, -math.inf), torch.where(beyond, edge, 0.0)

    def _needs_edge(self, what: str) -> None:
        if self.vertices != 2:
            raise NotImplementedError(f"HardConcrete.{what}: exists for 2 vertices only, got {self.vertices}")
