"""The baselines: all in the interior, or all on the vertices."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Categorical, constraints

from omegamax._constraints import finite_positive
from omegamax._torch_internals import new_instance
from omegamax.mixed._concrete import ConcreteMixed, concrete_parameters, concrete_sample


class GumbelSoftmax(ConcreteMixed):
    r"""Softmax of Gumbel noise: torch's ``RelaxedOneHotCategorical`` with the interface of a mixed distribution.

    .. math:: Y = \mathrm{softmax}\bigl((z + G) / \lambda\bigr)

    All of its mass is in the interior. With ``hard`` it is the straight-through version: samples are the vertices
    nearest to the soft ones (a ``OneHotCategorical``, and ``log_prob`` is its), with the gradients of the soft ones.

    Args:
        temperature: lambda, positive; a number or a tensor that broadcasts with the batch.
        probs, logits: of the vertices, ``[*, K]``, one of the two.
        hard: whether samples are vertices.

        >>> GumbelSoftmax(0.5, logits=torch.zeros(3)).face_probs()
        tensor([0., 0., 0., 0., 0., 0., 1.])
        >>> GumbelSoftmax(0.5, logits=torch.zeros(3), hard=True).face_probs()
        tensor([0.3333, 0.3333, 0.3333, 0.0000, 0.0000, 0.0000, 0.0000])

    Reference: Maddison et al. (ICLR 2017), Jang et al. (ICLR 2017).
    """

    arg_constraints = {"temperature": finite_positive, "logits": constraints.real_vector}  # noqa: RUF012
    hard: bool

    def __init__(
        self,
        temperature: Tensor | float,
        probs: Tensor | None = None,
        logits: Tensor | None = None,
        hard: bool = False,
        validate_args: bool | None = None,
    ) -> None:
        self.logits, (self.temperature,) = concrete_parameters("GumbelSoftmax", probs, logits, temperature=temperature)
        self.hard = hard
        super().__init__(self.logits.shape[:-1], self.logits.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> GumbelSoftmax:
        new = new_instance(self, GumbelSoftmax, _instance)
        batch = torch.Size(batch_shape)
        new.logits, new.temperature = self.logits.expand(batch + self._event_shape), self.temperature.expand(batch)
        new.hard = self.hard
        super(GumbelSoftmax, new).__init__(batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``; with ``hard``, vertices with the gradients of the soft points."""
        # A soft entry that rounds to 0 would leave the interior.
        soft = concrete_sample(self.logits, self.temperature, sample_shape).clamp(
            min=torch.finfo(self.logits.dtype).tiny
        )
        if not self.hard:
            return soft
        vertex = torch.nn.functional.one_hot(soft.argmax(-1), self.vertices).to(soft.dtype)
        return vertex + (soft - soft.detach())

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, K]``; -inf on faces without mass."""
        self._check_value(value)
        face = self.face(value)
        if self.hard:
            return self._log_vertex(face)
        inside = face.all(-1)
        # Points on the border are moved to where the density can be evaluated, then left out.
        safe = torch.where(inside.unsqueeze(-1), value, 1 / self.vertices).to(self.logits.dtype)
        return torch.where(inside, self._log_concrete(safe), -math.inf)

    def _log_vertex(self, face: Tensor) -> Tensor:
        return torch.where(face.sum(-1) == 1, torch.where(face, self.logits, 0.0).sum(-1), -math.inf)

    def _log_concrete(self, value: Tensor) -> Tensor:
        """Return the log-density of Maddison et al.; torch broadcasts a batch of temperatures along the wrong axis."""
        log_y = value.log()
        score = self.logits - self.temperature.unsqueeze(-1) * log_y
        parts = score - score.logsumexp(-1, keepdim=True) - log_y
        return parts.sum(-1) + math.lgamma(self.vertices) + (self.vertices - 1) * self.temperature.log()

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch)."""
        face = self._check_face(face)
        if self.hard:
            return self._log_vertex(face)
        inside = torch.where(face.all(-1), 0.0, -math.inf).to(self.logits.dtype)
        return inside.expand(torch.broadcast_shapes(face.shape[:-1], self._batch_shape))

    def nonzeros(self) -> Tensor:
        """Return 1 with ``hard``, else K, ``[*]``."""
        return torch.full_like(self.temperature, 1 if self.hard else self.vertices)

    @property
    def mean(self) -> Tensor:
        """Return ``[*, K]``, with ``hard`` only."""
        if not self.hard:
            raise NotImplementedError("GumbelSoftmax.mean: closed form for hard=True only")
        return self.probs

    def entropy(self) -> Tensor:
        """Return the entropy in nats, ``[*]``; with ``hard`` only, else :func:`omegamax.mixed.entropy`."""
        if not self.hard:
            raise NotImplementedError(
                "GumbelSoftmax.entropy: closed form for hard=True only; use omegamax.mixed.entropy"
            )
        return Categorical(logits=self.logits, validate_args=False).entropy()
