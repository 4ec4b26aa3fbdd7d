"""Mixtures: attention with several modes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import Tensor
from torch.distributions import constraints

from omegamax._arguments import check_type
from omegamax._checks import check_vectors, is_plain, readable
from omegamax._numerics import working_dtype
from omegamax._torch_internals import new_instance
from omegamax.densities._base import Density
from omegamax.densities._beta_gaussian import BetaGaussian
from omegamax.densities._components import stack_components, substitute_weightless
from omegamax.densities._members import Gaussian

if TYPE_CHECKING:
    from omegamax.basis import Basis

Own = TypeVar("Own", bound="Mixture")


class Mixture(Density):
    r"""A weighted sum of densities of one family.

    .. math:: p(t) = \sum_{k=1}^K \pi_k \, p_k(t), \qquad
              E_p[\psi(t)] = \sum_k \pi_k E_{p_k}[\psi(t)]

    A weight of exactly 0 takes a component away, whatever its parameters are: it adds nothing to any result, and
    neither the component nor its weight has a gradient. So mixtures with fewer components than others of their batch
    are padded, and sparse weights (those of sparsemax) switch components off. Even a ``scale`` of 0 does no harm; a
    singular covariance does, if ``from_moments`` has been through it before.

    There is no closed form of the entropies.

    Args:
        weights: :math:`\pi`, ``[*, K]``, each >= 0 and their sum 1. In half precision they are computed with, and
            made to sum to 1, in float32.
        components: a density with the batch shape ``[*, K]``, over n dimensions. Axes before the last broadcast.

        >>> from omegamax.densities import TruncatedParaboloid
        >>> components = TruncatedParaboloid.from_moments(torch.tensor([[0.0], [3.0]]), 0.2)  # of half width 1
        >>> p = Mixture(torch.tensor([0.75, 0.25]), components)
        >>> p.prob(torch.tensor([[0.0], [1.5], [3.0]]))
        tensor([0.5625, 0.0000, 0.1875])
        >>> p.mean, p.variance
        (tensor([0.7500]), tensor([1.8875]))

    Reference: Farinhas, Martins and Aguiar (2021), Multimodal continuous visual attention mechanisms.
    """

    arg_constraints = {"weights": constraints.simplex}  # noqa: RUF012
    # The density is defined, and zero, between the supports of its components too: see support_contains.
    support = constraints.real_vector

    def __init__(self, weights: Tensor, components: Density, validate_args: bool | None = None):
        check_vectors("Mixture", "weights", weights, "K")
        check_type("Mixture", "components", components, Density, "a density")
        shape = tuple(weights.shape)
        if components.batch_shape[-1:] != shape[-1:]:
            wanted = f"a batch shape [*, {shape[-1]}], one component for each weight"
            raise ValueError(f"Mixture: components must have {wanted}, got {tuple(components.batch_shape)}")
        try:
            full = torch.broadcast_shapes(weights.shape, components.batch_shape)
        except RuntimeError:
            given = f"{shape} and {tuple(components.batch_shape)}"
            raise ValueError(f"Mixture: weights and the batch of components do not broadcast, got {given}") from None
        if weights.dtype != working_dtype(weights):
            weights = weights.to(working_dtype(weights))
            weights = weights / weights.sum(-1, keepdim=True)
        self.weights = weights.expand(full)
        self.components = components.expand(full)
        # No sample moves from one component to another, unless there is only the line to move on.
        self.has_rsample = components.has_rsample and (components.event_shape[0] == 1 or not weights.requires_grad)
        # One density stands for all that share it; where no one gives a component weight, another takes its place.
        self._sound = readable(weights) and bool(self._alive.all())
        self._narrow = components if self._sound else substitute_weightless(components, weights.detach())
        if validate_args is None and not is_plain(weights):
            validate_args = False  # values cannot be looked at while they are traced or mapped over
        super().__init__(full[:-1], components.event_shape, validate_args=validate_args)

    @classmethod
    def _from_moments(cls: type[Own], weights: Tensor, mean: Tensor, covariance: Tensor, alpha: float | Tensor) -> Own:
        """Return the mixture of components with these moments, of which those without weight do no harm either.

        Covariances ``[*, n, n]`` are symmetric; alpha is a float or ``[*]``. Nothing is checked, and nothing computed
        to take the place of components without weight: they must be such that their results are finite, and whoever
        made the weights must give no gradient to one that is 0.
        """
        n = mean.shape[-1]
        kind: type[BetaGaussian] = Gaussian if not isinstance(alpha, Tensor) and alpha == 1 else BetaGaussian
        new: Any = cls.__new__(cls)
        new.weights = weights
        new.components = kind._from_covariance(mean, covariance, alpha)
        new._narrow, new._sound = new.components, True
        new.has_rsample = new.components.has_rsample and (n == 1 or not weights.requires_grad)
        Density.__init__(new, weights.shape[:-1], new.components.event_shape, validate_args=False)
        return new

    @classmethod
    def stack(cls, mixtures: Sequence[Mixture], validate_args: bool | None = None) -> Mixture:
        """Return a batch ``[M, *]`` of M mixtures, as many components as the largest has; those of weight 0 fill up.

        The batch shapes ``[*]`` broadcast; the components are of one family.

            >>> from omegamax.densities import Gaussian
            >>> one = Mixture(torch.ones(1), Gaussian(torch.zeros(1, 2), 1.0))
            >>> two = Mixture(torch.tensor([0.5, 0.5]), Gaussian(torch.ones(2, 2), 1.0))
            >>> p = Mixture.stack([one, two])
            >>> p.weights, p.component_count
            (tensor([[1.0000, 0.0000],
                    [0.5000, 0.5000]]), tensor([1, 2]))
        """
        if not mixtures or not all(isinstance(each, Mixture) for each in mixtures):
            raise TypeError("Mixture.stack: mixtures must be a list of at least one Mixture")
        batch = torch.broadcast_shapes(*(each.batch_shape for each in mixtures))
        wide = [each.expand(batch) for each in mixtures]
        most = max(each.weights.shape[-1] for each in mixtures)
        weights = [torch.nn.functional.pad(each.weights, (0, most - each.weights.shape[-1])) for each in wide]
        return cls(
            torch.stack(weights), stack_components("Mixture.stack", [each.components for each in wide]), validate_args
        )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Mixture:
        new: Any = new_instance(self, Mixture, _instance)
        full = torch.Size(batch_shape) + self.weights.shape[-1:]
        new.weights, new.components = self.weights.expand(full), self.components.expand(full)
        new._sound, new._narrow, new.has_rsample = self._sound, self._narrow, self.has_rsample
        Density.__init__(new, full[:-1], self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def alpha(self) -> float | Tensor:
        """Return that of the components, if they have one in common: a float or ``[*]``."""
        alpha = self.components.alpha  # type: ignore[attr-defined]
        if not isinstance(alpha, Tensor):
            return alpha
        if alpha.stride(-1) == 0 or alpha.shape[-1] == 1 or (readable(alpha) and bool((alpha == alpha[..., :1]).all())):
            return alpha[..., 0]
        raise AttributeError("Mixture: the components have no alpha in common; see components.alpha")

    @property
    def _alive(self) -> Tensor:
        """Tell which components have weight, ``[*, K]``."""
        return self.weights != 0  # NaN is no weight of 0: what it spoils must not look like an answer

    @property
    def component_count(self) -> Tensor:
        """Return how many components have weight, ``[*]``."""
        return self._alive.sum(-1)

    # --- The density

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, n]``; -inf, with gradient 0, outside all supports."""
        if self._validate_args:
            self._validate_sample(value)
        joint, nowhere = self._joint(value)
        log_p = torch.where(nowhere, 0.0, joint).logsumexp(-1)
        return torch.where(nowhere.squeeze(-1), -math.inf, log_p)

    def responsibilities(self, value: Tensor) -> Tensor:
        r"""Return the weights given a point ``[*, n]``: :math:`\pi_k p_k(t) / p(t)`, ``[*, K]``.

        They are 0 outside all supports.
        """
        if self._validate_args:
            self._validate_sample(value)
        joint, nowhere = self._joint(value)
        return torch.where(nowhere, 0.0, torch.where(nowhere, 0.0, joint).softmax(-1))

    def _joint(self, value: Tensor) -> tuple[Tensor, Tensor]:
        """Return ``log pi_k + log p_k`` at points, ``[*, K]``, and where all of them are -inf, ``[*, 1]``."""
        alive = self._alive
        log_weights = torch.where(alive, self.weights, 1.0).log()
        joint = torch.where(alive, log_weights + self._narrow.log_prob(self._points(value)), -math.inf)
        return joint, joint.detach().amax(-1, keepdim=True) == -math.inf

    def _points(self, value: Tensor) -> Tensor:
        """Return points ``[*, n]`` for each of the components, ``[*, K, n]``."""
        value = value.unsqueeze(-2)
        return value.expand(torch.broadcast_shapes(value.shape, self._narrow.batch_shape + self.event_shape))

    def support_contains(self, value: Tensor) -> Tensor:
        return (self._narrow.support_contains(self._points(value)) & self._alive).any(-1)

    def cdf(self, value: Tensor) -> Tensor:
        """Return the distribution function at points ``[*, 1]`` of the line."""
        if self.dimension != 1:
            raise NotImplementedError(f"Mixture.cdf: needs one dimension, got {self.dimension}")
        if self._validate_args:
            self._validate_sample(value)
        return self._average(self._narrow.cdf(self._points(value)).unsqueeze(-1)).squeeze(-1)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, n]``."""
        with torch.no_grad():
            return self._choose(self._wide.sample(sample_shape), sample_shape)

    def rsample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        r"""Return points ``sample_shape + [*, n]``, with gradients.

        In one dimension they reach the components and the weights, by the derivative of the cdf at a fixed point,
        :math:`\partial t = -\partial F(t) / p(t)`. Where a gap without density separates components, no point can move
        across it: the gradients to the weights leave out what would. Those to the components are exact.

        In more dimensions a point moves with the component that it was drawn from. The weights have no gradient then:
        if they require one this is an error, and ``has_rsample`` is False.
        """
        if not self.has_rsample:
            if not self.components.has_rsample:
                raise NotImplementedError(f"Mixture.rsample: {type(self.components).__name__} has none; use sample")
            raise NotImplementedError(
                f"Mixture.rsample: in {self.dimension} dimensions the weights have no pathwise gradient; detach them "
                "for the gradients of the components alone"
            )
        if self.dimension > 1:
            return self._choose(self._wide.rsample(sample_shape), sample_shape)
        t = self.sample(sample_shape)
        mass = self.cdf(t).unsqueeze(-1)
        p = self.prob(t).detach().unsqueeze(-1)
        return t - torch.where(p > 0, (mass - mass.detach()) / torch.where(p > 0, p, 1.0), 0.0)

    @property
    def _wide(self) -> Density:
        """Return components that draw each for itself."""
        return self._narrow.expand(self.weights.shape)

    def _choose(self, points: Tensor, sample_shape: Any) -> Tensor:
        """Return one of the components' points ``[*, K, n]`` each, ``[*, n]``."""
        shape, weights = torch.Size(sample_shape), self.weights.detach()
        chosen = torch.multinomial(weights.reshape(-1, weights.shape[-1]), max(shape.numel(), 1), replacement=True)
        index = chosen[:, : shape.numel()].T.reshape(shape + self.batch_shape)[..., None, None]
        return points.gather(-2, index.expand(*index.shape[:-1], self.dimension)).squeeze(-2)

    # --- Moments

    @property
    def mean(self) -> Tensor:
        return self._average(self._narrow.mean)

    @property
    def covariance_matrix(self) -> Tensor:
        r"""Return :math:`\sum_k \pi_k (C_k + d_k d_k')`, ``[*, n, n]``; d is the way from the mean to a component's."""
        offset = self._narrow.mean - self.mean.unsqueeze(-2)
        spread = self._narrow.covariance_matrix + offset.unsqueeze(-1) * offset.unsqueeze(-2)
        return self._average(spread.flatten(-2)).unflatten(-1, spread.shape[-2:])

    def expect(self, basis: Basis) -> Tensor:
        r"""Return :math:`\sum_k \pi_k E_{p_k}[\psi(t)]`, ``[*, J]``.

        Differentiable in the weights and in the components.
        """
        return self._average(self._narrow.expect(basis))

    def _average(self, values: Tensor) -> Tensor:
        """Return the weighted sum of ``values [*, K, J]`` of the components, ``[*, J]``.

        What has no weight may be NaN.
        """
        weights = self.weights
        if not self._sound:
            alive = self._alive
            weights, values = torch.where(alive, weights, 0.0), torch.where(alive.unsqueeze(-1), values, 0.0)
        dtype = torch.promote_types(weights.dtype, values.dtype)
        return (weights.unsqueeze(-2).to(dtype) @ values.to(dtype)).squeeze(-2)

    def entropy(self) -> Tensor:
        raise NotImplementedError("Mixture.entropy: no closed form; average -log_prob over samples")

    def tsallis_entropy(self) -> Tensor:
        raise NotImplementedError("Mixture.tsallis_entropy: no closed form; integrate prob over a grid")

    def __repr__(self) -> str:
        kind, count = type(self.components).__name__, self.weights.shape[-1]
        return f"Mixture(batch_shape={tuple(self.batch_shape)}, components: {count} of type {kind})"
