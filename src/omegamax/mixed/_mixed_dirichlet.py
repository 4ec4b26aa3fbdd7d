"""A face at random, then a Dirichlet distribution on it."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.distributions import Gamma, constraints
from torch.distributions.utils import broadcast_all
from torch.nn.functional import logsigmoid

from omegamax._checks import check_vectors
from omegamax._constraints import finite_positive_vector
from omegamax._numerics import working_dtype
from omegamax._torch_internals import new_instance
from omegamax.mixed._base import Mixed
from omegamax.mixed._faces import check_face
from omegamax.mixed._gamma_means import GammaMeans


class MixedDirichlet(Mixed):
    r"""A face drawn vertex by vertex, and a Dirichlet point on it.

    .. math:: P_F(f) \propto \exp \sum_i (2 f_i - 1) \, s_i \quad (f \ne \emptyset), \qquad
              Y \mid f \sim \mathrm{Dirichlet}(\alpha_i : i \in f)

    Faces are sets of independent vertices of odds :math:`e^{2 s_i}`, given that there is one: probabilities,
    marginals, entropy and divergence of the face cost O(K), no sum over :math:`2^K` faces. What the Dirichlet
    distributions add, expectations of :math:`\log\Gamma` and :math:`\psi` of the sum of random concentrations, are
    integrals over a line of products over vertices: O(K) too, to about 1e-13 for any concentrations.

    The face is discrete, so samples carry no gradient (``has_rsample`` is False). :meth:`sample_face` and
    :meth:`rsample_on` split a draw into a face and a point with gradients to the concentrations.

    Args:
        face_scores: s, ``[*, K]``; a positive score makes the vertex likely, ``+-inf`` sure or absent.
        concentration: alpha, positive, ``[*, K]``.

    Half precision is computed, and returned, in float32.

        >>> p = MixedDirichlet(torch.tensor([0.0, 0.5, -0.5]), torch.ones(3))
        >>> p.face_probs()
        tensor([0.1090, 0.2964, 0.0401, 0.2964, 0.0401, 0.1090, 0.1090])
        >>> p.nonzeros()
        tensor(1.6635)

    Reference: Farinhas et al. (ICLR 2022).
    """

    arg_constraints = {  # noqa: RUF012
        "face_scores": constraints.real_vector,
        "concentration": finite_positive_vector,
    }
    has_rsample = False

    def __init__(self, face_scores: Tensor, concentration: Tensor | float, validate_args: bool | None = None) -> None:
        scores, concentration = broadcast_all(face_scores, concentration)
        check_vectors("MixedDirichlet", "face_scores", scores, "K")
        dtype = torch.promote_types(working_dtype(scores), concentration.dtype)
        self.face_scores, self.concentration = scores.to(dtype), concentration.to(dtype)
        super().__init__(scores.shape[:-1], scores.shape[-1:], validate_args=validate_args)

    def expand(self, batch_shape: Any, _instance: Any = None) -> MixedDirichlet:
        new = new_instance(self, MixedDirichlet, _instance)
        shape = torch.Size(batch_shape) + self._event_shape
        new.face_scores, new.concentration = self.face_scores.expand(shape), self.concentration.expand(shape)
        super(MixedDirichlet, new).__init__(torch.Size(batch_shape), self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def _device(self) -> torch.device:
        return self.face_scores.device

    # --- The face

    @property
    def _log_odds(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return log-probabilities that a vertex is in, that it is out, ``[*, K]``, and that there is one, ``[*]``."""
        inside, outside = logsigmoid(2 * self.face_scores), logsigmoid(-2 * self.face_scores)
        return inside, outside, self._log_first(inside, outside).logsumexp(-1)

    @staticmethod
    def _log_first(inside: Tensor, outside: Tensor) -> Tensor:
        """Return the log-probability that a vertex is the first one in, ``[*, K]``, without 1 minus a product."""
        before = outside.cumsum(-1).roll(1, -1)
        start = torch.arange(outside.shape[-1], device=outside.device) == 0
        return inside + torch.where(start, 0.0, before)

    def log_face_prob(self, face: Tensor) -> Tensor:
        """Return the log-probability of faces ``[*, K]`` (bool, broadcasts with the batch), in O(K)."""
        face = self._check_face(face)
        inside, outside, some = self._log_odds
        log_p = torch.where(face, inside, outside).sum(-1) - some
        return torch.where(face.any(-1), log_p, -math.inf)

    @property
    def face_marginals(self) -> Tensor:
        """Return the probability that an entry is not zero, ``[*, K]``."""
        inside, _, some = self._log_odds
        return (inside - some.unsqueeze(-1)).exp().clamp(max=1)

    def nonzeros(self) -> Tensor:
        """Return the expected number of non-zero entries, ``[*]``; in O(K)."""
        return self.face_marginals.sum(-1)

    def face_entropy(self) -> Tensor:
        """Return the entropy of the face, ``[*]``; in O(K)."""
        return -self._face_mean(*self._log_odds)

    def face_divergence(self, other: MixedDirichlet) -> Tensor:
        """Return the Kullback-Leibler divergence of the face from that of ``other``, ``[*]``; in O(K)."""
        pairs = zip(self._log_odds, other._log_odds, strict=True)
        return self._face_mean(*(_minus(mine, theirs) for mine, theirs in pairs))

    def _face_mean(self, inside: Tensor, outside: Tensor, some: Tensor) -> Tensor:
        """Return mean over faces of the sum of ``inside`` or ``outside`` at each vertex, less ``some``."""
        q = self.face_marginals
        return (_times(q, inside) + _times(1 - q, outside)).sum(-1) - some

    # --- Samples

    def sample_face(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Draw faces ``sample_shape + [*, K]``, bool."""
        shape = self._extended_shape(sample_shape)
        with torch.no_grad():
            inside, outside, _ = self._log_odds
            first = torch.distributions.Categorical(logits=self._log_first(inside, outside), validate_args=False)
            at = first.sample(torch.Size(shape[: len(shape) - self.face_scores.dim()])).unsqueeze(-1)
            position = torch.arange(shape[-1], device=self._device)
            free = torch.rand(shape, dtype=inside.dtype, device=self._device) < inside.exp()
            return (position == at) | (free & (position > at))

    def rsample_on(self, face: Tensor) -> Tensor:
        """Return points on faces ``[*, K]`` (bool, broadcasts with the batch), with gradients to the concentrations."""
        face = check_face("MixedDirichlet.rsample_on", face, self.vertices, bool(self._validate_args))
        alpha, face = torch.broadcast_tensors(self.concentration, face)
        # A gamma variable of small shape underflows; that of shape alpha + 1 times U^(1/alpha) has a logarithm.
        tiny = torch.finfo(alpha.dtype).tiny
        uniform = torch.rand_like(alpha).clamp(min=tiny)
        gamma = Gamma(alpha + 1, torch.ones_like(alpha), validate_args=False).rsample()
        log_gamma = gamma.log() + uniform.log() / alpha
        y = torch.where(face, log_gamma, -math.inf).softmax(-1)
        # An entry of the face that rounds to 0 would change the face.
        return torch.where(face, y.clamp(min=tiny), 0.0)

    def sample(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return points ``sample_shape + [*, K]``."""
        with torch.no_grad():
            return self.rsample_on(self.sample_face(sample_shape))

    # --- The density and its means

    def log_prob(self, value: Tensor) -> Tensor:
        """Return the log-density at points ``[*, K]``: of the face, and of the Dirichlet distribution on it."""
        self._check_value(value)
        face = self.face(value)
        alpha = torch.where(face, self.concentration, 1.0)
        total = torch.where(face, self.concentration, 0.0).sum(-1)
        safe = torch.where(face, value, 1.0)
        inner = (torch.xlogy(alpha - 1, safe) - alpha.lgamma()).sum(-1) + total.lgamma()
        inside, outside, some = self._log_odds
        return torch.where(face, inside, outside).sum(-1) - some + inner

    @property
    def mean(self) -> Tensor:
        """Return ``[*, K]``; in O(K)."""
        return self._gamma_means.shares().to(self.concentration)

    def entropy(self) -> Tensor:
        """Return the direct-sum entropy in nats, ``[*]``; in O(K)."""
        alpha, q, means = self._wide_concentration, self._wide_marginals, self._gamma_means
        own = (q * (alpha.lgamma() - (alpha - 1) * alpha.digamma())).sum(-1)
        sums = means.digamma_times(alpha - 1) - means.lgamma()
        return self.face_entropy() + (own + sums).to(self.concentration)

    @property
    def _gamma_means(self) -> GammaMeans:
        inside, _, some = self._log_odds
        # If every vertex is unlikely, odds scaled up to exp(-40) give the same distribution to rounding, and do not
        # underflow.
        lift = (inside.detach().amax(-1) + 40).clamp(max=0)
        return GammaMeans(_wide(inside - lift.unsqueeze(-1)), _wide(some - lift), self._wide_concentration)

    @property
    def _wide_concentration(self) -> Tensor:
        return _wide(self.concentration)

    @property
    def _wide_marginals(self) -> Tensor:
        inside, _, some = self._log_odds
        return (_wide(inside) - _wide(some).unsqueeze(-1)).exp().clamp(max=1)


def dirichlet_divergence(p: MixedDirichlet, q: MixedDirichlet) -> Tensor:
    """Return the Kullback-Leibler divergence of two mixed Dirichlet distributions, ``[*]``; in O(K)."""
    a, b, share = p._wide_concentration, q._wide_concentration, p._wide_marginals
    means = p._gamma_means
    other = GammaMeans(means.log_in, means.log_some, b)  # the faces of p, the concentrations of q
    own = (share * (b.lgamma() - a.lgamma() + (a - b) * a.digamma())).sum(-1)
    sums = means.lgamma() - other.lgamma() - means.digamma_times(a - b)
    return p.face_divergence(q) + (own + sums).to(p.concentration)


def _wide(t: Tensor) -> Tensor:
    return t if t.device.type == "mps" else t.double()  # Apple's devices have no float64


def _times(p: Tensor, log_ratio: Tensor) -> Tensor:
    """Return ``p * log_ratio``, 0 where p is 0 whatever the ratio."""
    return p * torch.where(p > 0, log_ratio, 0.0)


def _minus(a: Tensor, b: Tensor) -> Tensor:
    """Return ``a - b`` of log-probabilities, 0 where they agree, both -inf too."""
    return torch.where(a == b, 0.0, a - torch.where(a == b, 0.0, b))
