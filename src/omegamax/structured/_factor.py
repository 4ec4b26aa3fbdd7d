"""Factors: sets of structures, over which a maximum can be taken."""

from __future__ import annotations

import math
from abc import ABCMeta, abstractmethod
from typing import Any

from torch import Tensor

from omegamax import kernels
from omegamax._checks import check_floating, check_mask
from omegamax._compile import disable_compile
from omegamax.kernels.structures import TOLERANCE, ActiveSet, iteration_limit, search
from omegamax.kernels.structures.oracles import oracle
from omegamax.structured._solution import ActiveSolution, Solution
from omegamax.structured._variables import Variable


class Infeasible(ValueError):
    """Scores that no structure of a factor fits."""


class FactorType(ABCMeta):
    """Take the variables of a graph, where these come first, off the arguments of a factor: ``SomeFactor(u, ...)``."""

    def __call__(cls, *arguments: Any, **options: Any) -> Any:
        if not arguments or not isinstance(arguments[0], Variable):
            return super().__call__(*arguments, **options)
        factor = super().__call__(*arguments[1:], **options)
        factor.variables = arguments[0]
        return factor


class Factor(metaclass=FactorType):
    r"""A finite set of structures, each a 0/1 vector of parts, over which a maximum can be taken.

    Two methods make a factor of one's own: :meth:`maximize` finds a structure of largest score, :meth:`features` says
    which parts structures have. Both work on a flat batch, on whichever rows they are given: parameters that differ
    between rows go through ``additional``.

        >>> import torch
        >>> class OneOfEach(Factor):  # one entry of every group of three
        ...     def maximize(self, scores, additional):
        ...         return scores.unflatten(-1, (-1, 3)).argmax(-1)
        ...
        ...     def features(self, structures):
        ...         return torch.nn.functional.one_hot(structures, 3).flatten(-2), None
        >>> from omegamax.structured import sparsemap
        >>> sparsemap(torch.tensor([1.0, 0.5, -1.0, 2.0, 0.0, 0.0]), OneOfEach())
        tensor([0.7500, 0.2500, 0.0000, 1.0000, 0.0000, 0.0000])

    With the variables of a :class:`FactorGraph` in front of its own arguments, a factor holds them, which is what
    :meth:`FactorGraph.add` takes: ``fg.add(DependencyTree(u, projective=True))``.

    Attributes:
        event_dims: how many trailing axes of the scores make one problem.
        variables: those of a graph that it holds, or None.
        operation: the kernel that solves it, or None where :meth:`maximize` is all there is.
    """

    event_dims: int = 1
    operation: str | None = None
    variables: Variable | None = None

    @abstractmethod
    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        """Return a structure of largest score for each row, ``[B, ...]`` in any form that :meth:`features` understands.

        The score is that of its parts, ``scores [B, *event]`` (regularised) and ``additional [B, m]`` (not), summed.
        Parts with score ``-inf`` are forbidden; where that leaves none, any structure will do.
        """

    @abstractmethod
    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return the parts of structures, ``[B, *event]``, and their additional parts ``[B, m]`` or None."""

    def additional_size(self, event: tuple[int, ...]) -> int | None:
        """Return how many additional scores there are, if that is known."""
        return None

    def part_count(self, event: tuple[int, ...]) -> int | None:
        """Return how many parts every structure has, if all have as many."""
        return None

    def additional_scores(self, scores: Tensor) -> Tensor | None:
        """Return additional scores ``[*, m]`` that the factor brings along, differentiable in its parameters."""
        return None

    def additional_features(self, target: Tensor) -> Tensor | None:
        """Return the additional parts ``[*, m]`` of structures given by their 0/1 parts ``[*, *event]``."""
        return None

    def check(self, name: str, scores: Tensor) -> None:
        """Refuse scores ``[*, *event]`` whose event is not of this factor; ``name`` is the function to be named."""
        return

    def prepare(
        self, name: str, scores: Tensor, additional: Tensor | None, mask: Tensor
    ) -> tuple[Tensor, Tensor | None]:
        """Return the scores with the parts taken out for which ``mask`` is False."""
        check_mask(name, scores, mask)
        return scores.masked_fill(~mask, -math.inf), additional

    def search(
        self, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float, max_iter: int
    ) -> ActiveSet:
        """Find the active set of scores ``[B, *event]`` and ``[B, m]``."""
        event, count = scores.shape[1:], additional.shape[-1]

        def best(unary: Tensor, parts: Tensor) -> tuple[Tensor, Tensor]:
            structures = self.maximize(unary.unflatten(-1, event), parts if count else None)
            answer = self.features(structures)
            if not isinstance(answer, tuple) or len(answer) != 2:
                raise TypeError(
                    f"{type(self).__name__}.features: must return a pair, parts and additional parts or None, got "
                    f"{type(answer).__name__}"
                )
            features = self._check_parts("parts", answer[0], (len(unary), *event)).to(unary).flatten(1)
            if not count:
                return features, parts
            return features, self._check_parts("additional parts", answer[1], (len(unary), count)).to(unary)

        return search(best, scores.flatten(1), additional, start, tol, max_iter)

    def _check_parts(self, what: str, given: object, wanted: tuple[int, ...]) -> Tensor:
        """Return what :meth:`features` did, if it is a tensor of this shape."""
        if not isinstance(given, Tensor) or tuple(given.shape) != wanted:
            shape = f"shape {tuple(given.shape)}" if isinstance(given, Tensor) else type(given).__name__
            raise ValueError(f"{type(self).__name__}.features: {what} must be a tensor of shape {wanted}, got {shape}")
        return given

    @disable_compile
    def solve(
        self,
        scores: Tensor,
        additional: Tensor | None = None,
        *,
        start: ActiveSet | None = None,
        structures: bool = False,
        tol: float = TOLERANCE,
        max_iter: int | None = None,
    ) -> Solution:
        """Solve the SparseMAP problems of a flat batch, without gradients.

        Args:
            scores: ``[B, *event]``, float64.
            additional: ``[B, m]``, float64.
            start: the ``active`` of an earlier solution for similar scores.
            structures: whether the solution must have its ``active`` set, also where marginals are had without.
            tol, max_iter: of the search; without a limit, one that grows with the event.
        """
        scores = scores.detach()
        parts = self.additional_scores(scores) if additional is None else additional
        parts = scores.new_zeros(len(scores), 0) if parts is None else parts.detach()
        limit = iteration_limit(scores[:1].numel()) if max_iter is None else max_iter
        active = self.search(scores, parts, start, tol, limit)
        infeasible = active.residual == math.inf
        if bool(infeasible.any()):
            row, which = int(infeasible.nonzero()[0]), "scores and additional scores" if parts.shape[1] else "scores"
            raise Infeasible(
                f"{self!r}: {which} leave no structure in row {row}: each has a part whose score is -inf (or masked)"
            )
        return ActiveSolution(active, scores.shape[1:])

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class BuiltIn(Factor):
    """A factor whose search is a kernel, and whose structures are given by their 0/1 parts."""

    operation = "active_set"

    @abstractmethod
    def kind(self, event: tuple[int, ...]) -> tuple[str, tuple[int, ...], Tensor | None]:
        """Return kind, sizes and graph, as the kernel takes them."""

    def additional_size(self, event: tuple[int, ...]) -> int:
        return 0

    def search(
        self, scores: Tensor, additional: Tensor, start: ActiveSet | None, tol: float, max_iter: int
    ) -> ActiveSet:
        kind = self.kind(tuple(scores.shape[1:]))
        result: Any = kernels.solve("active_set", scores.flatten(1), additional, *kind, start, tol, max_iter)
        return result

    def maximize(self, scores: Tensor, additional: Tensor | None) -> Tensor:
        parts = self.additional_scores(scores) if additional is None else additional
        parts = scores.new_zeros(len(scores), 0) if parts is None else parts
        event = tuple(scores.shape[1:])
        return oracle(*self.kind(event))(scores.flatten(1), parts)[0].unflatten(-1, event)

    def features(self, structures: Tensor) -> tuple[Tensor, Tensor | None]:
        return structures, self.additional_features(structures)


def expand_parameter(
    name: str, argument: str, value: float | Tensor | None, scores: Tensor, shape: tuple[int, ...]
) -> Tensor:
    """Broadcast a parameter of the factor ``name`` to a shape, in the dtype of scores; zeros where there is none."""
    if value is None:
        return scores.new_zeros(shape)
    value = value.to(scores) if isinstance(value, Tensor) else scores.new_tensor(value)
    try:
        return value.expand(shape)
    except RuntimeError:
        raise ValueError(
            f"{name}: {argument} must broadcast to {shape} for scores of shape {tuple(scores.shape)}, got shape "
            f"{tuple(value.shape)}"
        ) from None


def expand_additional(
    name: str, factor: Factor, additional: Tensor, event: tuple[int, ...], batch: tuple[int, ...]
) -> Tensor:
    """Refuse additional scores of a factor that are not ``[*, m]``; return them with the axes of the batch."""
    check_floating(name, "additional", additional)
    size = factor.additional_size(event)
    if additional.dim() < 1 or size not in (None, additional.shape[-1]):
        raise ValueError(
            f"{name}: additional scores for {factor!r} must be [*, {'m' if size is None else size}], got shape "
            f"{tuple(additional.shape)}"
        )
    try:
        return additional.expand(*batch, additional.shape[-1])
    except RuntimeError:
        raise ValueError(
            f"{name}: additional scores of shape {tuple(additional.shape)} do not broadcast to the batch {batch}"
        ) from None
