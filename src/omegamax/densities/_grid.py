"""Densities of arbitrary scores, by quadrature: the one family that needs no closed form."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import torch
from torch import Tensor
from torch.distributions import constraints

from omegamax._checks import check_above, check_floating, is_plain
from omegamax._numerics import on_support, tsallis_log, working_dtype
from omegamax._torch_internals import new_instance
from omegamax.densities._base import Density
from omegamax.densities._deformed import deformed_log_power
from omegamax.densities._weighted_entmax import weighted_entmax

if TYPE_CHECKING:
    from omegamax.basis import Basis

Score = Callable[[Tensor], Tensor]


class GridDensity(Density):
    r"""The density that an arbitrary score becomes under Tsallis regularisation, discretised by a quadrature rule.

    .. math:: p(t) = \bigl[(\alpha - 1)(f(t) - \tau)\bigr]_+^{1/(\alpha - 1)}, \qquad \sum_i w_i \, p(t_i) = 1

    Every integral (normalisation, moments, entropies, expectations of basis functions) is the same sum over the nodes,
    so that the results are exactly those of a distribution with the mass :math:`w_i p(t_i)` at node i, and as close to
    the continuous ones as the rule is. :func:`gauss_legendre_nodes` makes rules.

    ``log_prob`` and ``prob`` take any points. They are exact if the score is given as a function, by
    :meth:`from_function`. Without it, densities in one dimension are interpolated linearly between the nodes and
    constant beyond the outermost two; in more dimensions a point has the value of the nearest node.
    ``sample`` draws nodes.

    Args:
        scores: :math:`f(t_i)`, ``[*, Q]``; ``-inf`` takes a node away.
        nodes: :math:`t_i`, ``[Q, n]`` or ``[*, Q, n]``.
        node_weights: :math:`w_i > 0`, ``[Q]`` or ``[*, Q]``.
        alpha: > 0 and finite, 1 is softmax; a float or a tensor ``[*]``. Gradients reach it, the scores and the
            weights.

        >>> nodes = torch.tensor([[0.1], [0.3], [0.5], [0.7], [0.9]])
        >>> density = GridDensity(torch.tensor([0.0, 1.0, 2.0, 0.0, 0.0]), nodes, torch.full((5,), 0.2), alpha=2.0)
        >>> density.probs_at_nodes
        tensor([0.4000, 1.4000, 2.4000, 0.4000, 0.4000])
        >>> density.mean
        tensor([0.4600])
        >>> density.prob(torch.tensor([0.2]))
        tensor(0.9000)

    Reference: Martins et al. (NeurIPS 2020), Def. 1 and Prop. 1.
    """

    has_rsample = False
    arg_constraints = {  # noqa: RUF012
        "scores": constraints.real_vector,
        "node_weights": constraints.independent(constraints.positive, 1),
    }
    support = constraints.real_vector

    def __init__(
        self,
        scores: Tensor,
        nodes: Tensor,
        node_weights: Tensor,
        alpha: float | Tensor = 2.0,
        validate_args: bool | None = None,
        *,
        function: Score | None = None,
    ):
        for argument, value in (("scores", scores), ("nodes", nodes), ("node_weights", node_weights)):
            check_floating("GridDensity", argument, value)
        count = scores.shape[-1] if scores.dim() else 0
        if count == 0:
            raise ValueError(f"GridDensity: scores must have shape [*, Q] with Q >= 1, got {tuple(scores.shape)}")
        if nodes.dim() < 2 or nodes.shape[-2] != count:
            raise ValueError(f"GridDensity: nodes must have shape [*, {count}, n], got {tuple(nodes.shape)}")
        if node_weights.shape[-1:] != (count,):
            raise ValueError(f"GridDensity: node_weights must have shape [*, {count}], got {tuple(node_weights.shape)}")
        alpha = check_above("GridDensity", "alpha", alpha, 0.0)
        shapes = [scores.shape[:-1], nodes.shape[:-2], node_weights.shape[:-1]]
        if isinstance(alpha, Tensor):
            shapes.append(alpha.shape)
        elif alpha == math.inf:  # not isinf, which dynamo cannot trace for a float that changes
            raise ValueError("GridDensity: alpha must be finite, got inf")
        try:
            batch = torch.broadcast_shapes(*shapes)
        except RuntimeError:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(f"GridDensity: the batch shapes of the arguments do not broadcast, got {listed}") from None
        dtype = torch.promote_types(working_dtype(scores), nodes.dtype)
        self.scores = scores.to(dtype).expand(*batch, count)
        self.nodes, self.node_weights = nodes.to(dtype), node_weights.to(dtype)
        self.alpha = alpha.to(dtype).expand(batch) if isinstance(alpha, Tensor) else alpha
        self.function = function
        if validate_args is None and not is_plain(scores, node_weights):
            validate_args = False  # values cannot be looked at while they are traced or mapped over
        super().__init__(batch, nodes.shape[-1:], validate_args=validate_args)
        self.probs_at_nodes = weighted_entmax(self.scores, self._each, self.node_weights)

    @classmethod
    def from_function(
        cls,
        function: Score,
        nodes: Tensor,
        node_weights: Tensor,
        alpha: float | Tensor = 2.0,
        batch_shape: Sequence[int] = (),
        validate_args: bool | None = None,
    ) -> GridDensity:
        """Return the density of a score that can be evaluated anywhere, so that ``prob`` is exact between the nodes.

        Args:
            function: takes points ``sample + batch_shape + [n]`` to scores ``sample + batch_shape``.
            batch_shape: that of the parameters inside ``function``.

            >>> from omegamax.densities import gauss_legendre_nodes
            >>> nodes, weights = gauss_legendre_nodes(cells=20, order=8, low=-2, high=2)
            >>> density = GridDensity.from_function(lambda t: -t[..., 0].abs(), nodes, weights, alpha=2.0)
            >>> density.prob(torch.tensor([[0.0], [0.5], [1.5]]))
            tensor([1.0000, 0.5000, 0.0000])
        """
        batch = torch.Size(batch_shape)
        shared = nodes.dim() == 2
        front = nodes.reshape(nodes.shape[0], *(1 for _ in batch), nodes.shape[1]) if shared else nodes.movedim(-2, 0)
        scores = function(front)
        scores = scores.expand(torch.broadcast_shapes(scores.shape, (nodes.shape[-2], *batch))).movedim(0, -1)
        return cls(scores, nodes, node_weights, alpha, validate_args, function=function)

    def expand(self, batch_shape, _instance=None):
        new = new_instance(self, GridDensity, _instance)
        shape = torch.Size(batch_shape)
        new.scores, new.probs_at_nodes = (t.expand(*shape, t.shape[-1]) for t in (self.scores, self.probs_at_nodes))
        new.nodes, new.node_weights, new.function = self.nodes, self.node_weights, self.function
        new.alpha = self.alpha.expand(shape) if isinstance(self.alpha, Tensor) else self.alpha
        Density.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def masses(self) -> Tensor:
        """Return ``w_i p(t_i)``, ``[*, Q]``, which sum to one."""
        return self.node_weights * self.probs_at_nodes

    @property
    def mean(self) -> Tensor:
        return self._sum(self.nodes)

    @property
    def covariance_matrix(self) -> Tensor:
        offset = self.nodes - self.mean.unsqueeze(-2)
        return (self.masses.unsqueeze(-1) * offset).mT @ offset

    def expect(self, basis: Basis) -> Tensor:
        r"""Return :math:`\sum_i w_i p(t_i) \psi(t_i)`, ``[*, J]``.

        Differentiable in scores, weights, nodes and alpha.
        """
        return self._sum(basis(self.nodes))

    def escort(self, beta: float | Tensor) -> GridDensity:
        r"""Return the density :math:`p(t_i)^\beta / \sum_j w_j p(t_j)^\beta` on the same nodes.

        beta is any number, or a tensor ``[*]``.

        >>> nodes = torch.tensor([[0.25], [0.75]])
        >>> density = GridDensity(torch.tensor([0.5, 0.0]), nodes, torch.full((2,), 0.5), alpha=2.0)
        >>> density.probs_at_nodes, density.escort(2.0).probs_at_nodes
        (tensor([1.2500, 0.7500]), tensor([1.4706, 0.5294]))
        """
        power = beta.unsqueeze(-1) if isinstance(beta, Tensor) else beta
        some, safe = on_support(self.probs_at_nodes)
        scores = torch.where(some, power * safe.log(), -math.inf)

        def score(t: Tensor) -> Tensor:
            log_p = self.log_prob(t)
            outside = log_p == -math.inf  # where 0 times it would be NaN, and a negative number times it +inf
            return torch.where(outside, -math.inf, beta * torch.where(outside, 0.0, log_p))

        function = None if self.function is None else score
        return GridDensity(scores, self.nodes, self.node_weights, 1.0, False, function=function)

    def entropy(self) -> Tensor:
        p = self.probs_at_nodes
        return -(self.masses * on_support(p)[1].log()).sum(-1)

    def tsallis_entropy(self) -> Tensor:
        value = (self.masses * tsallis_log(self.probs_at_nodes, self._each)).sum(-1)
        return -value / self.alpha

    def log_prob(self, value: Tensor) -> Tensor:
        if self._validate_args:
            self._validate_sample(value)
        if self.function is None:
            p = self._interpolate(value)
            return torch.where(p <= 0, -math.inf, torch.where(p <= 0, 1.0, p).log())
        # The node of the largest density stands for the normaliser: the score's fall from there gives the value here.
        best = self.probs_at_nodes.argmax(-1, keepdim=True)
        top, peak = (t.gather(-1, best).squeeze(-1) for t in (self.scores, self.probs_at_nodes))
        some, safe = on_support(peak)
        e, level = self.alpha - 1, safe.log()
        log_p = deformed_log_power(level, (top - self.function(value)) * (-e * level).exp(), e)
        return torch.where(some, log_p, -math.inf)

    def prob(self, value: Tensor) -> Tensor:
        return self._interpolate(value) if self.function is None else self.log_prob(value).exp()

    def support_contains(self, value: Tensor) -> Tensor:
        return self.prob(value) > 0

    def sample(self, sample_shape=torch.Size()) -> Tensor:  # noqa: B008 (the signature of torch)
        """Return nodes drawn with their masses, ``sample_shape + [*, n]``."""
        with torch.no_grad():
            shape = torch.Size(sample_shape)
            masses = self.masses.expand(*self.batch_shape, self.masses.shape[-1])
            index = torch.multinomial(masses.reshape(-1, masses.shape[-1]), max(shape.numel(), 1), replacement=True)
            index = index[:, : shape.numel()].T.reshape(shape + self.batch_shape)
            return self._at_nodes(self.nodes, index)

    @property
    def _each(self) -> float | Tensor:
        return self.alpha.unsqueeze(-1) if isinstance(self.alpha, Tensor) else self.alpha

    def _sum(self, values: Tensor) -> Tensor:
        """Sum ``values [Q, J]`` or ``[*, Q, J]`` under the masses, ``[*, J]``."""
        return (self.masses.unsqueeze(-2) @ values).squeeze(-2)

    def _at_nodes(self, values: Tensor, index: Tensor) -> Tensor:
        """Return ``values [*, Q, J]`` at nodes ``index`` of shape sample + batch: sample + batch + [J]."""
        batch, features = self.batch_shape, values.shape[-1]
        values = values.expand(*batch, *values.shape[-2:])
        # Samples last: the gradient of a gather is as large as what is gathered from.
        samples = math.prod(index.shape[: index.dim() - len(batch)])  # not -1: a batch of none leaves it open
        at = index.reshape(samples, *batch).movedim(0, -1).unsqueeze(-1)
        found = values.gather(-2, at.expand(*at.shape[:-1], features))
        return found.movedim(-2, 0).reshape(*index.shape, features)

    def _interpolate(self, value: Tensor) -> Tensor:
        return torch.where(value.isnan().any(-1), math.nan, self._between_nodes(value))

    def _between_nodes(self, value: Tensor) -> Tensor:
        value = value.expand(torch.broadcast_shapes(value.shape, self.batch_shape + self.event_shape))
        p = self.probs_at_nodes.unsqueeze(-1)
        offset = self.nodes - value.unsqueeze(-2)  # sample + batch + [Q, n]
        if self.dimension > 1:
            return self._at_nodes(p, offset.square().sum(-1).argmin(-1)).squeeze(-1)
        offset = offset.squeeze(-1)
        # The neighbours on either side; where one is missing the other stands for it.
        left = torch.where(offset <= 0, offset, -math.inf).argmax(-1)
        right = torch.where(offset >= 0, offset, math.inf).argmin(-1)
        left = torch.where((offset <= 0).any(-1), left, right)
        right = torch.where((offset >= 0).any(-1), right, left)
        below, above = (self._at_nodes(self.nodes, i).squeeze(-1) for i in (left, right))
        gap = above - below
        share = torch.where(gap > 0, (value.squeeze(-1) - below) / torch.where(gap > 0, gap, 1.0), 0.0)
        low, high = (self._at_nodes(p, i).squeeze(-1) for i in (left, right))
        return low + share * (high - low)
