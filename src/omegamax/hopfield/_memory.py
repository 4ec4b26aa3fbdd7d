"""Patterns that can be asked for by what they look like."""

from __future__ import annotations

import math
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from omegamax._checks import check_above, check_floating
from omegamax._map_parameters import row_parameter
from omegamax._numerics import disable_autocast
from omegamax.hopfield._psi import Psi, Sign, resolve_psi
from omegamax.hopfield._separable import Exponential, Power, Separable
from omegamax.hopfield.steps import check_beta, check_patterns, check_steps, resolve_omega, settle
from omegamax.maps import Omega, SequentialKSubsets, TotalVariation2d
from omegamax.maps.conjugate import conjugate_minus
from omegamax.structured import Factor, GraphOmega, StructuredOmega


@dataclass(frozen=True)
class Retrieval:
    """What became of queries ``[*, D]``; the tensors share their leading axes.

    Attributes:
        state: where each query ended, ``[*, D]``.
        weights: of the patterns as that state sees them, ``[*, N]``: one 1 for a pattern, several positive entries for
            a metastable state.
        steps: updates that were made, ``[*]``.
        converged: whether the last of them moved the state by no more than ``tol``, ``[*]``.
        energies: before each step and at the end, ``[T + 1, *]``; None unless recorded.
        trajectory: likewise the states, ``[T + 1, *, D]``.
    """

    state: Tensor
    weights: Tensor
    steps: Tensor
    converged: Tensor
    energies: Tensor | None = None
    trajectory: Tensor | None = None


class Memory:
    r"""An associative memory: N patterns, and the energy whose valleys they lie in.

    .. math:: E(q) = -\tfrac1\beta \Omega^*(\beta X q) + \Psi(q), \qquad
              q_{t+1} = \nabla\Psi^*\bigl(X^\top \hat p_\Omega(\beta X q_t)\bigr)

    A step minimises the energy with its concave part replaced by a tangent, so that the energy never rises.

    Args:
        patterns: ``[*, N, D]``; leading axes hold several memories.
        omega: how patterns compete for a query: name of a map, an Omega, or :class:`Power` or :class:`Exponential`; or
            a factor of :mod:`omegamax.structured`, of whose structures each part is a pattern, and which retrieves sums
            over them: a :class:`~omegamax.structured.StructuredOmega` with the shape of its parts where these have more
            than one axis, or a :class:`~omegamax.structured.GraphOmega` for several factors.
        beta: > 0, the sharpness; a number, or a tensor that broadcasts to scores ``[*, L, N]`` with size 1 along N.
            With ``inf`` (for softmax, entmax and normmax) a step goes to the pattern of the largest score, or to the
            mean of those that share it, and the energy is :math:`-\max_i x_i^\top q + \Psi(q)`.
        psi: what is done to a state: ``"identity"``, ``"l2_norm"``, ``"layer_norm"``, ``"sign"`` or a Psi.
        mask: which patterns are there, bool ``[*, N]``.

    Queries are ``[*, L, D]``, or ``[D]`` for one; their leading axes and those of the patterns broadcast. Gradients
    reach queries, patterns, ``beta`` and the parameters of ``omega``. Half precision is computed in float32.

        >>> memory = Memory(torch.tensor([[1.0, 0.0], [0.0, 1.0], [-1.0, -1.0]]), "sparsemax", beta=2.0)
        >>> found = memory.retrieve(torch.tensor([0.9, 0.2]))
        >>> found.state, found.weights
        (tensor([1., 0.]), tensor([1., 0., 0.]))
        >>> found.energies
        tensor([-0.4750, -0.5000, -0.5000])

        >>> from omegamax.structured import DependencyTree, StructuredOmega  # arcs of three words, stored one by one
        >>> trees = Memory(torch.eye(9), StructuredOmega(DependencyTree(), (3, 3)), beta=2.0)
        >>> trees.retrieve(torch.tensor([1.0, 0, 0, 0.9, 0, 0.2, 0, 0.6, 0])).state.reshape(3, 3)
        tensor([[1., 0., 0.],
                [1., 0., 0.],
                [0., 1., 0.]])

    Reference: Santos et al. (ICML 2024); Ramsauer et al. (ICLR 2021) for softmax.
    """

    def __init__(
        self,
        patterns: Tensor,
        omega: str | Omega | Factor = "softmax",
        beta: float | Tensor = 1.0,
        psi: str | Psi = "identity",
        mask: Tensor | None = None,
    ):
        check_patterns("Memory", patterns, mask)
        self.patterns = patterns
        self.omega = resolve_omega(omega)
        if isinstance(self.omega, TotalVariation2d) and self.omega.shape is None:
            raise ValueError("Memory: omega of a grid needs its shape=(H, W), with H W = N, got None")
        self.beta = beta if isinstance(beta, Tensor) else check_above("Memory", "beta", beta, 0.0)
        self._sharpness, self._omega = check_beta("Memory", beta, self.omega)
        self.psi = resolve_psi("Memory", psi)
        self.mask = mask

    @classmethod
    def classic(cls, patterns: Tensor, mask: Tensor | None = None) -> Memory:
        r"""Return the first memory, for patterns of 1 and -1: :math:`E = -\tfrac12 \|Xq\|^2`, with steps to
        :math:`\mathrm{sign}(X^\top Xq)`, all entries at once. Reference: Hopfield (PNAS 1982).
        """
        return cls(patterns, Power(2.0, rectified=False), 1.0, Sign(), mask)

    @classmethod
    def dense(cls, patterns: Tensor, degree: float = 3.0, mask: Tensor | None = None) -> Memory:
        r"""Return a memory with a polynomial: :math:`E = -\tfrac1n \sum_i [x_i^\top q]_+^n`.

        Reference: Krotov & Hopfield (NeurIPS 2016).
        """
        return cls(patterns, Power(degree), 1.0, Sign(), mask)

    @classmethod
    def exponential(cls, patterns: Tensor, mask: Tensor | None = None) -> Memory:
        r"""Return a memory with an exponential: :math:`E = -\sum_i e^{x_i^\top q}`.

        Reference: Demircigil et al. (Journal of Statistical Physics, 2017).
        """
        return cls(patterns, Exponential(), 1.0, Sign(), mask)

    @classmethod
    def modern(cls, patterns: Tensor, beta: float | Tensor = 1.0, mask: Tensor | None = None) -> Memory:
        """Return a memory with softmax, for real patterns. Reference: Ramsauer et al. (ICLR 2021)."""
        return cls(patterns, "softmax", beta, "identity", mask)

    def energy(self, q: Tensor) -> Tensor:
        """Return E(q), ``[*, L, D] -> [*, L]``; ``inf`` off the domain of ``psi``."""
        state, dtype = self._state("energy", q)
        with self._in_full():
            z = self._scores(state)
            return self._return(self._energy(state, z, self._omega.argmax(z), dtype), q, dtype, -1)

    def weights(self, q: Tensor) -> Tensor:
        """Return how much of each pattern a step takes, ``[*, L, D] -> [*, L, N]``."""
        state, dtype = self._state("weights", q)
        with self._in_full():
            return self._return(self._omega.argmax(self._scores(state)), q, dtype, -2)

    def step(self, q: Tensor) -> Tensor:
        """Return one update, ``[*, L, D] -> [*, L, D]``."""
        state, dtype = self._state("step", q)
        with self._in_full():
            return self._return(self._read(self._scores(state)), q, dtype, -2)

    def retrieve(self, q: Tensor, steps: int = 64, tol: float | None = 1e-6, *, record: bool = True) -> Retrieval:
        """Steps until each query is at rest.

        Args:
            q: queries.
            steps: the most that are made.
            tol: a query is at rest when no entry moves by more than this (times the largest entry, if above 1); it is
                then left alone, whatever the others do. None makes all steps, without a look at the states.
            record: keep the energies and the states on the way.
        """
        steps = check_steps("retrieve", steps, tol)
        start, dtype = self._state("retrieve", q)
        states: list[Tensor] = []
        energies: list[Tensor] = []

        def look(state: Tensor) -> tuple[Tensor, Tensor | None]:
            """Return scores, and weights where they were needed for the record."""
            z = self._scores(state)
            if not record:
                return z, None
            p = self._omega.argmax(z)
            states.append(state)
            energies.append(self._energy(state, z, p, dtype))
            return z, p

        with self._in_full():
            end = settle(lambda state: self._read(*look(state)), start, steps, tol)
            z, p = look(end.state)
            p = self._omega.argmax(z) if p is None else p
        one = q.dim() == 1
        return Retrieval(
            self._return(end.state, q, dtype, -2),
            self._return(p, q, dtype, -2),
            end.steps.squeeze(-1) if one else end.steps,
            end.converged.squeeze(-1) if one else end.converged,
            self._return(torch.stack(energies), q, dtype, -1) if record else None,
            self._return(torch.stack(states), q, dtype, -2) if record else None,
        )

    def to(self, *args: Any, **kwargs: Any) -> Memory:
        """Return the same memory elsewhere or in another dtype, as :meth:`torch.Tensor.to` takes them."""
        patterns = self.patterns.to(*args, **kwargs)
        mask = None if self.mask is None else self.mask.to(patterns.device)
        omega, beta = self.omega, self.beta
        moved = [a.to(patterns.device) if isinstance(a, Tensor) else a for a in (beta, *omega.parameters)]
        return Memory(patterns, omega.with_parameters(*moved[1:]), moved[0], self.psi, mask)

    def __repr__(self) -> str:
        shape = list(self.patterns.shape)
        return f"Memory(patterns={shape}, omega={self.omega!r}, beta={self.beta}, psi={self.psi!r})"

    def _in_full(self) -> AbstractContextManager[Any]:
        # Under autocast, an energy that falls by less than the rounding of half precision would seem to rise.
        return disable_autocast(self.patterns.device)

    def _state(self, method: str, q: Tensor) -> tuple[Tensor, torch.dtype]:
        """Return queries ``[*, L, D]`` in the dtype of the computation with the axes of the result, and its dtype."""
        check_floating(f"Memory.{method}", "q", q)
        features = self.patterns.shape[-1]
        if not q.dim() or q.shape[-1] != features:
            raise ValueError(f"Memory.{method}: q must be [*, L, {features}] or [{features}], got {tuple(q.shape)}")
        dtype = torch.promote_types(q.dtype, self.patterns.dtype)
        state = (q.unsqueeze(0) if q.dim() == 1 else q).to(torch.promote_types(dtype, torch.float32))
        try:
            batch = torch.broadcast_shapes(state.shape[:-2], self.patterns.shape[:-2])
        except RuntimeError:
            raise ValueError(
                f"Memory.{method}: leading axes of q {tuple(q.shape)} and of patterns {tuple(self.patterns.shape)} "
                "must broadcast"
            ) from None
        return state.expand(*batch, *state.shape[-2:]), dtype

    def _return(self, value: Tensor, q: Tensor, dtype: torch.dtype, axis: int) -> Tensor:
        value = value.to(dtype)
        return value.squeeze(axis) if q.dim() == 1 else value

    def _scores(self, state: Tensor) -> Tensor:
        """Return ``beta X q``, with ``-inf`` for patterns that are not there, ``[*, L, N]``."""
        z = state @ self.patterns.to(state.dtype).transpose(-1, -2)
        z = z * self._beta(z)
        return z if self.mask is None else z.masked_fill(~self.mask.unsqueeze(-2), -math.inf)

    def _beta(self, z: Tensor) -> float | Tensor:
        beta = self._sharpness
        return row_parameter("Memory", "beta", beta, z, -1) if isinstance(beta, Tensor) else beta

    def _energy(self, state: Tensor, z: Tensor, p: Tensor, rounded_in: torch.dtype) -> Tensor:
        beta = self._beta(z)
        beta = beta.squeeze(-1) if isinstance(beta, Tensor) and beta.dim() else beta
        if isinstance(self._omega, (StructuredOmega, GraphOmega)):
            value = self._omega.conjugate(z)  # its value is not known of all marginals
        elif isinstance(self._omega, SequentialKSubsets) and z.dtype != torch.float64:
            # Its value looks for a distribution with the marginals p, and rounded ones have none.
            value = conjugate_minus(self._omega, z.double()).to(z.dtype)
        else:
            value = conjugate_minus(self._omega, z, p=p)
        return self.psi(state, rounded_in) - value / beta

    def _read(self, z: Tensor, p: Tensor | None = None) -> Tensor:
        """Return the next state, given its scores and perhaps its weights."""
        if isinstance(self._omega, Separable) and self.psi.scale_free:
            p = self._omega.direction(z)  # where the weights themselves would overflow
        elif p is None:
            p = self._omega.argmax(z)
        return self.psi.argmax(p @ self.patterns.to(p.dtype))
