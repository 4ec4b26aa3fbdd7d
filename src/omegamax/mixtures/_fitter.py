"""From points to a fitted mixture: starts, restarts, derivatives, and back to the user's units."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer, check_number
from omegamax._checks import check_above
from omegamax.densities import Mixture
from omegamax.maps import Omega, get
from omegamax.mixtures import _fused
from omegamax.mixtures._implicit import attach_fixed_point
from omegamax.mixtures._init import one_hot
from omegamax.mixtures._packed import pack
from omegamax.mixtures._points import GivenPoints, Points
from omegamax.mixtures._step import Iteration, MixtureParameters

Mixed = TypeVar("Mixed", bound=Mixture)


@dataclass(frozen=True, eq=False)
class Fitter:
    """Points, and how to fit a mixture to them."""

    given: GivenPoints
    rule: Iteration
    alpha: float | Tensor  # of the components
    iterations: int
    tolerance: float | None = None
    implicit: bool = False
    framed: Points | None = None  # once :meth:`open` has been called: not all ways need them

    def open(self) -> Fitter:
        """Return the same with the points in their frame."""
        return replace(self, framed=self.given.bring_to_frame())

    @property
    def points(self) -> Points:
        """Return the points in their frame."""
        assert self.framed is not None
        return self.framed

    @property
    def differentiable(self) -> bool:
        """Tell whether anything asks for the gradient of the result."""
        given = (self.given.weights, self.given.positions, self.given.spread, self.rule.e)
        return torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in given)

    @property
    def is_unrolled(self) -> bool:
        """Tell whether all iterations are taken, and gradients go back through all of them."""
        return self.tolerance is None and not (self.implicit and self.differentiable)

    def _inputs(self) -> dict[str, Tensor]:
        """Return all that a step depends on but for its state."""
        points = self.points
        given = {"weights": points.weights, "x": points.x, "spread": points.spread, "e": self.rule.e}
        return {name: t for name, t in given.items() if isinstance(t, Tensor)}

    def begin(self, labels: Tensor, components: int) -> MixtureParameters:
        """Return the moments of the members of each component; ``labels [*, L]``."""
        plain = replace(self.rule, mix=None)
        gamma = one_hot(labels, components, self.points.x.dtype)
        return plain.maximise(self.points, gamma, plain.fit_one(self.points))

    def state_of(self, name: str, mixture: Mixture, components: int) -> MixtureParameters:
        """Return the parameters of a mixture, in the frame, no variance below the floor."""
        points = self.points
        if mixture.weights.shape[-1] != components or mixture.event_shape[0] != points.dimension:
            wanted = f"{components} components in {points.dimension} dimension(s)"
            found = f"{mixture.weights.shape[-1]} in {mixture.event_shape[0]}"
            raise ValueError(f"{name}: init must be a mixture of {wanted}, got {found}")
        batch = points.batch_shape
        try:
            mixture = mixture.expand(batch)
        except RuntimeError:
            found = f"{tuple(mixture.batch_shape)}, which does not expand to {tuple(batch)}"
            raise ValueError(f"{name}: init must have the batch of the weights, got {found}") from None
        whole = self.rule.fit_one(points)
        weights, alive = mixture.weights.to(points.x), (mixture.weights > 0).unsqueeze(-1)
        unit = points.unit[..., None, None]
        mean = (mixture.components.mean.to(points.x) - points.centre.unsqueeze(-2)) / unit
        cov = pack(mixture.components.covariance_matrix.to(points.x)) / unit.square()  # type: ignore[attr-defined]
        mean, cov = torch.where(alive, mean, whole.mean.detach()), torch.where(alive, cov, whole.cov.detach())
        return MixtureParameters(weights, mean, self.rule.hold_at_floor(points, cov))

    def fit(self, state: MixtureParameters) -> MixtureParameters:
        """Iterate from here on, with gradients through the iterations or at the fixed point."""
        if not (self.implicit and self.differentiable):
            return self._settle(self._run(state))
        with torch.no_grad():
            state = self._run(state)
        inputs = self._inputs()

        def step(theta: Tensor, *values: Tensor) -> Tensor:
            changed: dict[str, Any] = dict(zip(inputs, values, strict=True))
            rule = replace(self.rule, e=changed.pop("e", self.rule.e))
            points = replace(self.points, **changed)
            return rule.step(points, state.like(theta), rule.fit_one(points)).flat()

        return self._settle(state.like(attach_fixed_point(step, state.flat(), *inputs.values())))

    def fit_members(self, labels: Tensor, components: int) -> MixtureParameters:
        """Iterate from the members of each component, ``labels [*, L]``."""
        if self._is_fused(components):
            return _fused.fit(self.points, labels, components, self.iterations)[0]
        return self.fit(self.begin(labels, components))

    def _is_fused(self, components: int) -> bool:
        """Tell whether all iterations, and the gradient through them, are those of one kernel."""
        return self.is_unrolled and _fused.applies(self.given, self.rule, components)

    def _run(self, state: MixtureParameters) -> MixtureParameters:
        return self.rule.run(self.points, state, self.iterations, self.tolerance)

    def _settle(self, state: MixtureParameters) -> MixtureParameters:
        """Take a last step without sparse mixing, so that the components that are left get their masses again."""
        if self.rule.mix is None or self.iterations == 0:
            return state
        plain = replace(self.rule, mix=None)
        return plain.step(self.points, state, plain.fit_one(self.points))

    def search(self, labels: Tensor, components: int) -> tuple[MixtureParameters, Tensor, Tensor]:
        """Return the best of several starts ``[starts, *, L]``: its state, its J ``[*]`` and its labels ``[*, L]``."""
        with torch.no_grad():  # a block: a compiler cannot look into a method that is decorated
            if self._is_fused(components):
                state, values = _fused.fit(self.points, labels, components, self.iterations)
                values = values - self.points.dimension * self.points.unit.log()
            else:
                state = self._settle(self._run(self.begin(labels, components)))
                values = self.rule.objective(self.points, state)
            best = find_best(values)
            return (
                MixtureParameters(*(take_along_first(t, best) for t in state)),
                take_along_first(values, best),
                take_along_first(labels, best),
            )

    def mix(self, state: MixtureParameters, kind: type[Mixed]) -> Mixed:
        """Return the mixture with these parameters, in the units of the positions."""
        return self.mix_moments(*state.in_units(self.points), kind)

    def mix_moments(self, weights: Tensor, mean: Tensor, cov: Tensor, kind: type[Mixed]) -> Mixed:
        """Return the mixture with these weights ``[*, K]`` and these moments of its components."""
        alpha = self.alpha.unsqueeze(-1) if isinstance(self.alpha, Tensor) else self.alpha
        return kind._from_moments(weights, mean, cov, alpha)


def find_best(values: Tensor) -> Tensor:
    """Return which of the values ``[N, *]`` is the largest, ``[*]``.

    Of starts that end at the same mixture in another order, the first, whatever is rounded how.
    """
    top = values.amax(0)
    return (values >= top - 1e-9 * top.abs().clamp(min=1)).int().argmax(0)


def take_along_first(values: Tensor, index: Tensor) -> Tensor:
    """Return those of ``values [N, *, ...]`` at ``index [*]`` along the first axis, ``[*, ...]``."""
    index = index.reshape((1, *index.shape, *(1,) * (values.dim() - 1 - index.dim())))
    return values.gather(0, index.expand((1, *values.shape[1:]))).squeeze(0)


def make_fitter(
    points: GivenPoints,
    iterations: int,
    responsibilities: str | Omega,
    alpha: float | Tensor,
    distance: str,
    tolerance: float | None = None,
    implicit: bool = False,
) -> Fitter:
    """Return the fitter that these arguments ask for."""
    name, n = points.name, points.dimension
    alpha = check_above(name, "alpha", alpha, n / (n + 2))
    check_choice(name, "distance", distance, ("gaussian", "fenchel_young"))
    iterations = check_integer(name, "iterations", iterations, least=0)
    if tolerance is not None:
        tolerance = check_number(name, "tolerance", tolerance, least=0, finite=False)
    omega = get(responsibilities)
    if isinstance(omega.total, Tensor) or omega.total != 1:
        raise ValueError(f"{name}: responsibilities must sum to one, got {omega!r}")
    e: float | Tensor
    if isinstance(alpha, Tensor):
        try:
            alpha.expand(points.batch_shape)
        except RuntimeError:
            given = f"{tuple(alpha.shape)}, which does not expand to {tuple(points.batch_shape)}"
            raise ValueError(f"{name}: alpha must have the batch of the weights, got shape {given}") from None
        e = alpha.to(points.weights.device, points.exact_dtype).unsqueeze(-1) - 1
    else:
        if alpha == float("inf"):
            raise ValueError(f"{name}: alpha must be finite, got inf")
        e = alpha - 1
    rule = Iteration(omega, 0.0 if distance == "gaussian" else e)
    return Fitter(points, rule, alpha, iterations, tolerance, implicit)
