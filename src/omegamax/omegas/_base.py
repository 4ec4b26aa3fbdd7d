"""What a regulariser is: a value, the map it defines, and the conjugate that ties the two together."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor


class Omega(ABC):
    r"""A convex regulariser of probabilities ``p``, infinite off its domain.

    .. math:: \hat p(z) = \arg\max_p \langle p, z \rangle - \Omega(p), \qquad
              \Omega^*(z) = \max_p \langle p, z \rangle - \Omega(p)

    A subclass gives the value, the map, the margin and the names; everything else in the library (losses, attention,
    memories) is built from these.

    Reference: Blondel, Martins & Niculae (JMLR 2020), Def. 1.
    """

    @property
    @abstractmethod
    def name(self) -> str:
        """Name of the map, as :func:`omegamax.get` takes it."""

    @property
    @abstractmethod
    def margin(self) -> float:
        """Smallest gap between the target's score and all others at which the loss is exactly 0; ``inf`` if none."""

    @property
    def total(self) -> float | Tensor:
        """What the probabilities of the domain sum to."""
        return 1.0

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        """The constructor's numbers that the conjugate has gradients for."""
        return ()

    def with_parameters(self, *parameters: float | Tensor) -> Omega:
        """The same regulariser with other :attr:`parameters`."""
        return self

    def parameter_gradients(self, p: Tensor) -> tuple[Tensor, ...]:
        """Derivatives of ``Omega(p)`` in :attr:`parameters` at fixed ``p``, ``[*, K] -> [*]`` each."""
        return ()

    @abstractmethod
    def __call__(self, p: Tensor) -> Tensor:
        """Omega(p) over the last axis, ``[*, K] -> [*]``."""

    @abstractmethod
    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        """The map: probabilities along ``dim``, shaped like ``z``."""

    def conjugate(self, z: Tensor) -> Tensor:
        """``Omega*(z)`` over the last axis, ``[*, K] -> [*]``; its gradient is :meth:`argmax`."""
        if torch.compiler.is_compiling():
            # The envelope theorem gives the first derivative, which is all that a compiled graph is asked for.
            return _value(self, z, self.argmax(z.detach()).detach())
        return _Conjugate.apply(z, self, *self.parameters)


def _value(omega: Omega, z: Tensor, p: Tensor) -> Tensor:
    """``<z, p> - Omega(p)``, with ``-inf * 0 = 0`` for masked entries."""
    return torch.where(p == 0, 0.0, z * p).sum(-1) - omega(p)


class _Conjugate(torch.autograd.Function):
    """Omega*, whose derivatives of every order are those of the map."""

    generate_vmap_rule = True

    @staticmethod
    def forward(z, omega, *parameters):
        omega = omega.with_parameters(*parameters)
        return _value(omega, z, omega.argmax(z))

    @staticmethod
    def setup_context(ctx, inputs, output):
        z, ctx.omega, *parameters = inputs
        tensors = [a for a in parameters if isinstance(a, Tensor)]
        ctx.save_for_backward(z, *tensors)
        ctx.save_for_forward(z, *tensors)
        ctx.floats = [None if isinstance(a, Tensor) else a for a in parameters]

    @staticmethod
    def backward(ctx, g):
        z, omega, parameters = _restored(ctx)
        p = omega.argmax(z)
        grads = [None] * len(parameters)
        if any(ctx.needs_input_grad[2:]):
            for i, slope in enumerate(omega.parameter_gradients(p)):
                if ctx.needs_input_grad[2 + i]:
                    grads[i] = -(g * slope).unsqueeze(-1).sum_to_size(parameters[i].shape)
        return (g.unsqueeze(-1) * p, None, *grads)

    @staticmethod
    def jvp(ctx, dz, _, *dparameters):
        z, omega, _ = _restored(ctx)
        p = omega.argmax(z)
        out = torch.zeros_like(p[..., 0]) if dz is None else (p * dz).sum(-1)
        for tangent, slope in zip(dparameters, omega.parameter_gradients(p), strict=False):
            if tangent is not None:
                out = out - slope * tangent.squeeze(-1) if tangent.dim() else out - slope * tangent
        return out


def _restored(ctx) -> tuple[Tensor, Omega, list[float | Tensor]]:
    z, *tensors = ctx.saved_tensors
    rest = iter(tensors)
    parameters = [next(rest) if a is None else a for a in ctx.floats]
    return z, ctx.omega.with_parameters(*parameters), parameters
