"""What is done to a retrieved state: the regulariser Psi of states, and the map that it defines."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import check_above

# How far outside the domain, in units of rounding, a state may be that was rounded when it was stored.
SLACK = 8


class Psi(ABC):
    r"""A convex regulariser of states, infinite off its domain.

    .. math:: \hat q(x) = \arg\max_q \langle q, x \rangle - \Psi(q) = \nabla \Psi^*(x)

    It is the convex half of a memory's energy, and its map is what a step ends with.
    """

    # Whether the map ignores a positive factor in front of its argument.
    scale_free: bool = False

    @property
    @abstractmethod
    def name(self) -> str:
        """Return the name as :func:`resolve_psi` takes it."""

    @abstractmethod
    def __call__(self, q: Tensor, rounded_in: torch.dtype | None = None) -> Tensor:
        """Return Psi(q) over the last axis, ``[*, D] -> [*]``.

        Rounding may have put q outside the domain by a little: that of its dtype, or of another it was ``rounded_in``.
        """

    @abstractmethod
    def argmax(self, x: Tensor) -> Tensor:
        """Return the map, ``[*, D] -> [*, D]``."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}()"


class Identity(Psi):
    r""":math:`\Psi(q) = \tfrac12 \|q\|^2`: the state is left as it was retrieved.

    >>> Identity().argmax(torch.tensor([3.0, 4.0]))
    tensor([3., 4.])
    """

    name = "identity"

    def __call__(self, q: Tensor, rounded_in: torch.dtype | None = None) -> Tensor:
        return 0.5 * q.square().sum(-1)

    def argmax(self, x: Tensor) -> Tensor:
        return x


class Ball(Psi):
    r"""A ball, perhaps of a subspace: the map scales to its surface.

    .. math:: \Psi^*(x) = r \sqrt{\|Px\|^2 + c^2}, \qquad \Psi(q) = -c \sqrt{r^2 - \|q\|^2} \quad (Pq = q, \|q\| \le r)

    for the projection P of the subclass; with c = 0, Psi is 0 in the ball.
    """

    def __init__(self, radius: float | None, eps: float):
        if radius is not None:
            check_above(type(self).__name__, "radius", radius, 0.0)
        if not is_number(eps) or not 0 <= eps < math.inf:
            raise ValueError(f"{type(self).__name__}: eps must be a number >= 0, got {eps!r}")
        self.radius = radius
        self.eps = float(eps)

    @property
    def scale_free(self) -> bool:  # type: ignore[override]
        return self.eps == 0

    @abstractmethod
    def project(self, x: Tensor) -> Tensor:
        """Return P x."""

    @abstractmethod
    def sizes(self, features: int) -> tuple[float, float]:
        """Return r and c."""

    def __call__(self, q: Tensor, rounded_in: torch.dtype | None = None) -> Tensor:
        radius, c = self.sizes(q.shape[-1])
        slack = radius * _slack(q, rounded_in)
        off = torch.linalg.vector_norm((q - self.project(q)).detach(), dim=-1)
        norm = torch.linalg.vector_norm(q, dim=-1)
        inside = (norm.detach() <= radius + slack) & (off <= slack)
        value = 0 * norm
        if c:
            room = (radius - norm) * (radius + norm)
            # At the surface the slope is infinite; rounding may even have put the state beyond it.
            value = torch.where(room > 0, -c * torch.where(room > 0, room, 1.0).sqrt(), value)
        return torch.where(inside | norm.isnan(), value, math.inf)

    def argmax(self, x: Tensor) -> Tensor:
        radius, c = self.sizes(x.shape[-1])
        # Squares of large entries overflow, those of small ones vanish.
        scale = x.detach().abs().amax(-1, keepdim=True)
        scale = torch.where(scale > 0, scale, 1.0)
        u = self.project(x / scale)
        # What is left of a projection may be small again, and then it has the rounding of what is gone.
        again = u.detach().abs().amax(-1, keepdim=True)
        again = torch.where(again > 0, again, 1.0)
        u, scale = self.project(u / again), scale * again
        norm = torch.linalg.vector_norm(u, dim=-1, keepdim=True)
        if c:
            norm = torch.hypot(norm, c / scale)
        return radius * u / torch.where(norm == 0, 1.0, norm)

    def __repr__(self) -> str:
        radius = "" if self.radius is None else f"radius={self.radius:g}"
        eps = f"eps={self.eps:g}" if self.eps else ""
        return f"{type(self).__name__}({', '.join(filter(None, (radius, eps)))})"


class L2Norm(Ball):
    r"""Psi is 0 in the ball of a radius: the state is scaled to its surface, :math:`r x / \|x\|`.

    Args:
        radius: r.
        eps: c above, which makes the map smooth: :math:`r x / \sqrt{\|x\|^2 + \epsilon^2}`.

        >>> L2Norm().argmax(torch.tensor([3.0, 4.0]))
        tensor([0.6000, 0.8000])
    """

    name = "l2_norm"

    def __init__(self, radius: float = 1.0, eps: float = 0.0):
        super().__init__(radius, eps)

    def project(self, x: Tensor) -> Tensor:
        return x

    def sizes(self, features: int) -> tuple[float, float]:
        assert self.radius is not None
        return self.radius, self.eps


class LayerNorm(Ball):
    r"""Psi is 0 in the ball of states with mean 0: the state is centred, and scaled to its surface.

    Args:
        radius: r; by default the root of the number of features, so that the variance becomes 1.
        eps: added to the variance, as by :func:`torch.nn.functional.layer_norm`, which this map then is.

    A factor for each feature, as layer normalisation often has, would leave no energy: the map were no gradient.

        >>> LayerNorm().argmax(torch.tensor([0.0, 2.0, 4.0]))
        tensor([-1.2247,  0.0000,  1.2247])
    """

    name = "layer_norm"

    def __init__(self, radius: float | None = None, eps: float = 0.0):
        super().__init__(radius, eps)

    def project(self, x: Tensor) -> Tensor:
        return x - x.mean(-1, keepdim=True)

    def sizes(self, features: int) -> tuple[float, float]:
        radius = math.sqrt(features) if self.radius is None else self.radius
        return radius, math.sqrt(features * self.eps)


class Sign(Psi):
    r"""Psi is 0 in the cube: each entry of the state becomes 1 or -1; zero becomes 1.

    >>> Sign().argmax(torch.tensor([0.3, 0.0, -2.0]))
    tensor([ 1.,  1., -1.])
    """

    name = "sign"
    scale_free = True

    def __call__(self, q: Tensor, rounded_in: torch.dtype | None = None) -> Tensor:
        outside = (q.abs() > 1 + _slack(q, rounded_in)).any(-1)
        return torch.zeros_like(q[..., 0]).masked_fill(outside, math.inf)

    def argmax(self, x: Tensor) -> Tensor:
        signs = torch.where(x >= 0, 1.0, -1.0).to(x.dtype)
        return torch.where(x.isnan(), x, signs)


def _slack(q: Tensor, rounded_in: torch.dtype | None) -> float:
    return SLACK * torch.finfo(rounded_in or q.dtype).eps


_NAMED: dict[str, type[Psi]] = {"identity": Identity, "l2_norm": L2Norm, "layer_norm": LayerNorm, "sign": Sign}


def resolve_psi(name: str, psi: str | Psi) -> Psi:
    """Return the Psi of a name, or the Psi itself; ``name`` is who asks."""
    if isinstance(psi, Psi):
        return psi
    if not isinstance(psi, str):
        raise TypeError(f"{name}: psi must be a name or a Psi, got {type(psi).__name__}")
    if psi not in _NAMED:
        raise ValueError(f"{name}: no psi is called {psi!r}; known: {', '.join(_NAMED)}")
    return _NAMED[psi]()
