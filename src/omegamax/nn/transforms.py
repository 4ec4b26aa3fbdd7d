"""Every map as a module. Each ``forward(z, mask=None)`` calls the function of the same name."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax import functional, maps
from omegamax.maps import Omega, get
from omegamax.nn.alpha import Alpha, alpha_for, hold, hold_alpha


class Softmax(torch.nn.Module):
    """Module of :func:`omegamax.softmax`.

    >>> Softmax()(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.5741, 0.3482, 0.0777])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.softmax(z, self.dim, mask=mask)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Sparsemax(torch.nn.Module):
    """Module of :func:`omegamax.sparsemax`.

    >>> Sparsemax()(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.sparsemax(z, self.dim, mask=mask)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Entmax15(torch.nn.Module):
    """Module of :func:`omegamax.entmax15`.

    >>> Entmax15()(torch.tensor([3.0, 0.5, -1.0]))
    tensor([1., 0., 0.])
    """

    def __init__(self, dim: int = -1):
        super().__init__()
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.entmax15(z, self.dim, mask=mask)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class Entmax(torch.nn.Module):
    """Module of :func:`omegamax.entmax`, alpha fixed or learnt.

    Args:
        alpha: as in the function; where it starts, if learnt.
        dim: axis of normalisation.
        learnable: make it an :class:`~omegamax.nn.Alpha`.
        per: one alpha for each head, ``n``, or for each index of an axis, ``(axis, size)``, if learnt.
        bounds: interval that a learnt alpha cannot leave.

    >>> Entmax(alpha=1.25)(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.6315, 0.3451, 0.0235])
    >>> Entmax(learnable=True, per=8)
    Entmax(
      dim=-1
      (alpha): Alpha(bounds=(1, 2), per=(-3, 8))
    )
    """

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        alpha: float | Tensor = 1.5,
        dim: int = -1,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (1.0, 2.0),
    ):
        super().__init__()
        self.dim = dim
        hold_alpha(self, alpha, learnable, per, bounds, above=0.0)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.entmax(z, alpha_for(self.alpha, z), self.dim, mask=mask)

    def extra_repr(self) -> str:
        return _alpha_and_dim(self)


class Normmax(torch.nn.Module):
    """Module of :func:`omegamax.normmax`, alpha fixed or learnt.

    Args:
        alpha, dim, learnable, per: as in :class:`Entmax`.
        bounds: as there, above 1.

    >>> Normmax()(torch.tensor([1.0, 0.5, -1.0]))
    tensor([0.6890, 0.3110, 0.0000])
    """

    alpha: float | Tensor | Alpha

    def __init__(
        self,
        alpha: float | Tensor = 2.0,
        dim: int = -1,
        learnable: bool = False,
        per: int | tuple[int, int] | None = None,
        bounds: tuple[float, float] = (1.1, 4.0),
    ):
        super().__init__()
        self.dim = dim
        hold_alpha(self, alpha, learnable, per, bounds, above=1.0)

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.normmax(z, alpha_for(self.alpha, z), self.dim, mask=mask)

    def extra_repr(self) -> str:
        return _alpha_and_dim(self)


class KSubsets(torch.nn.Module):
    """Module of :func:`omegamax.k_subsets`.

    >>> KSubsets(k=2)(torch.tensor([1.0, 0.75, 0.5, 0.25, 0.0]))
    tensor([0.8750, 0.6250, 0.3750, 0.1250, 0.0000])
    """

    k: float | Tensor

    def __init__(self, k: float | Tensor, dim: int = -1, at_most: bool = False):
        super().__init__()
        maps.KSubsets(k, at_most)  # refuses what is no budget
        hold(self, "k", k)
        self.dim = dim
        self.at_most = at_most

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.k_subsets(z, self.k, self.dim, at_most=self.at_most, mask=mask)

    def extra_repr(self) -> str:
        return f"k={self.k}, dim={self.dim}{', at_most=True' if self.at_most else ''}"


class ConstrainedSoftmax(torch.nn.Module):
    """Module of :func:`omegamax.constrained_softmax`.

    >>> ConstrainedSoftmax(upper=0.5)(torch.tensor([2.0, 1.0, 0.0]))
    tensor([0.5000, 0.3655, 0.1345])
    """

    upper: float | Tensor

    def __init__(self, upper: float | Tensor, dim: int = -1):
        super().__init__()
        hold(self, "upper", upper)
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.constrained_softmax(z, self.upper, self.dim, mask=mask)

    def extra_repr(self) -> str:
        return f"upper={self.upper}, dim={self.dim}"


class ConstrainedSparsemax(torch.nn.Module):
    """Module of :func:`omegamax.constrained_sparsemax`.

    >>> ConstrainedSparsemax(upper=0.75)(torch.tensor([2.0, 1.0, 0.0]))
    tensor([0.7500, 0.2500, 0.0000])
    """

    upper: float | Tensor
    lower: float | Tensor | None

    def __init__(self, upper: float | Tensor, dim: int = -1, lower: float | Tensor | None = None):
        super().__init__()
        hold(self, "upper", upper)
        hold(self, "lower", lower)
        self.dim = dim

    def forward(self, z: Tensor, mask: Tensor | None = None) -> Tensor:
        return functional.constrained_sparsemax(z, self.upper, self.dim, lower=self.lower, mask=mask)

    def extra_repr(self) -> str:
        return f"upper={self.upper}, dim={self.dim}, lower={self.lower}"


def resolve(name: str, transform: str | Omega | torch.nn.Module) -> Omega | torch.nn.Module:
    """What an argument ``transform`` stands for: the Omega of a name, an Omega, or a module along the last axis."""
    if not isinstance(transform, torch.nn.Module):
        return get(transform)
    if getattr(transform, "dim", -1) != -1:
        raise ValueError(f"{name}: a module given as transform must have dim=-1, got {transform!r}")
    return transform


def apply(transform: Omega | torch.nn.Module, z: Tensor) -> Tensor:
    """Probabilities of scores along the last axis; ``-inf`` scores are masked."""
    return transform(z) if isinstance(transform, torch.nn.Module) else transform.argmax(z)


def _alpha_and_dim(module: Entmax | Normmax) -> str:
    fixed = "" if isinstance(module.alpha, torch.nn.Module) else f"alpha={module.alpha}, "
    return f"{fixed}dim={module.dim}"
