"""Maps whose probabilities stay within given bounds."""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import is_number
from omegamax._checks import apply_mask, check_scores
from omegamax._map_parameters import check_bounds, entry_parameter
from omegamax._operation import Map
from omegamax.kernels import export
from omegamax.maps._constrained_jacobians import softmax_jvp, softmax_vjp, sparsemax_jvp, sparsemax_vjp
from omegamax.maps.k_subsets import threshold
from omegamax.maps.omega import Omega
from omegamax.maps.record import MapRecord
from omegamax.maps.registry import get, register


class Bounded(Omega):
    r"""``base`` on ``{lower <= p <= upper}``: the regulariser of constrained softmax and sparsemax.

    Args:
        base: ``"softmax"`` or ``"sparsemax"``, or their Omega. Softmax takes no ``lower``.
        upper: ceilings, broadcastable to the scores. Gradients reach them.
        lower: floors, likewise.

    The margin is that of ``base``: scores so far apart leave at most one entry strictly between its bounds.

        >>> Bounded("sparsemax", upper=0.75).argmax(torch.tensor([2.0, 1.0, 0.0]))
        tensor([0.7500, 0.2500, 0.0000])
    """

    def __init__(self, base: str | Omega, upper: float | Tensor, lower: float | Tensor | None = None):
        self.base = get(base)
        if self.base.name not in ("softmax", "sparsemax"):
            raise ValueError(f"Bounded: base must be 'softmax' or 'sparsemax', got {self.base!r}")
        if self.base.name == "softmax" and lower is not None:
            raise ValueError("Bounded: lower bounds need base='sparsemax', got base='softmax'")
        self.upper = upper
        self.lower = lower

    @property
    def keeps_order(self) -> bool:  # type: ignore[override]
        return not any(isinstance(bound, Tensor) and bound.dim() for bound in (self.upper, self.lower))

    @property
    def name(self) -> str:
        return f"constrained_{self.base.name}"

    @property
    def margin(self) -> float:
        return self.base.margin

    @property
    def parameters(self) -> tuple[float | Tensor, ...]:
        return (self.upper,) if self.lower is None else (self.upper, self.lower)

    def with_parameters(self, *parameters: float | Tensor) -> Bounded:
        return Bounded(self.base, *parameters)

    def parameter_gradients(self, z: Tensor, p: Tensor) -> tuple[Tensor, ...]:
        # A bound is worth what its entry would gain over the free ones by passing it.
        kept = z != -math.inf
        scores = torch.where(kept, z, 0.0)
        if self.base.name == "softmax":
            # The slope of p log p at 0 is infinite: an entry that may have no mass counts as masked.
            kept = kept & (torch.as_tensor(self.upper) > 0)
            gain = scores - torch.where(kept, self.upper, 1.0).log() - log_threshold(z, p, self.upper)
            return (torch.where(kept & (p >= self.upper), gain.clamp(min=0), 0.0),)
        lower = 0.0 if self.lower is None else self.lower
        gain = scores - p - threshold(z, p, lower, self.upper)
        high = torch.where(kept & (p >= self.upper), gain.clamp(min=0), 0.0)
        low = torch.where(kept & (p <= lower), gain.clamp(max=0), 0.0)
        return (high,) if self.lower is None else (high, low)

    def __call__(self, p: Tensor) -> Tensor:
        return self.base(p)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        if self.base.name == "softmax":
            return constrained_softmax(z, self.upper, dim, mask=mask)
        return constrained_sparsemax(z, self.upper, dim, lower=self.lower, mask=mask)

    def __repr__(self) -> str:
        return f"Bounded({self.base!r}, upper={self.upper}, lower={self.lower})"


def log_threshold(z: Tensor, p: Tensor, upper: float | Tensor) -> Tensor:
    """Return lambda of ``p = min(upper, exp(z - lambda))``, ``[*, 1]``; where no entry is free, its upper limit."""
    kept = (z != -math.inf) & (p > 0)
    scores = torch.where(kept, z, 0.0)
    gap = scores - torch.where(kept, p, 1.0).log()
    free = torch.where(kept & (p < upper), p, 0.0)
    mass = free.sum(-1, keepdim=True)
    mean = (free / torch.where(mass > 0, mass, 1.0) * gap).sum(-1, keepdim=True)
    most = torch.where(kept, gap, math.inf).amin(-1, keepdim=True)
    return torch.where(mass > 0, mean, torch.where(most.isinf(), 0.0, most))


def constrained_softmax(z: Tensor, upper: float | Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
    r"""Return softmax with a ceiling on each probability.

    .. math:: \arg\max_{p \in \Delta,\; p \le u} \langle p, z \rangle - \sum_i p_i \log p_i
              = \min(u, c \exp z)

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry.
        upper: the ceilings, a float or a tensor broadcastable to ``z``; at least 1 in total. Gradients reach it.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: in [0, upper], summing to one along ``dim``.

        >>> constrained_softmax(torch.tensor([2.0, 1.0, 0.0]), upper=0.5)
        tensor([0.5000, 0.3655, 0.1345])

    Reference: Martins & Kreutzer (EMNLP 2017), Sec. 4.1.
    """
    name = "constrained_softmax"
    dim = check_scores(name, z, dim)
    upper = _to_bound(name, "upper", upper, z)
    z = apply_mask(name, z, mask)
    if isinstance(upper, Tensor):
        check_bounds(name, z, upper, None, dim)
    return _softmax(z, upper, dim=dim)


def constrained_sparsemax(
    z: Tensor,
    upper: float | Tensor,
    dim: int = -1,
    *,
    lower: float | Tensor | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    r"""Return sparsemax with a ceiling, and if wanted a floor, on each probability.

    .. math:: \arg\max_{p \in \Delta,\; l \le p \le u} \langle p, z \rangle - \tfrac12 \lVert p \rVert^2
              = \mathrm{clip}(z - \tau(z), l, u)

    Args:
        z: scores, K of them along ``dim``; ``-inf`` masks an entry (its floor then counts for nothing).
        upper: the ceilings, a float or a tensor broadcastable to ``z``; at least 1 in total. Gradients reach it.
        lower: the floors, likewise, at most 1 in total; none by default. Gradients reach it.
        mask: bool, broadcastable to ``z``; ``False`` masks an entry.

    Returns:
        Like ``z``: in [lower, upper], summing to one along ``dim``.

        >>> constrained_sparsemax(torch.tensor([2.0, 1.0, 0.0]), upper=0.75)
        tensor([0.7500, 0.2500, 0.0000])
        >>> constrained_sparsemax(torch.tensor([2.0, 1.0, 0.0]), upper=0.75, lower=0.125)
        tensor([0.7500, 0.1250, 0.1250])

    Reference: Malaviya, Ferreira & Martins (ACL 2018), Prop. 1; the scan is Pardalos & Kovoor (1990).
    """
    name = "constrained_sparsemax"
    dim = check_scores(name, z, dim)
    upper = _to_bound(name, "upper", upper, z)
    floor = _to_bound(name, "lower", 0.0 if lower is None else lower, z)
    z = apply_mask(name, z, mask)
    if isinstance(upper, Tensor) and isinstance(floor, Tensor):
        check_bounds(name, z, upper, floor, dim)
    if isinstance(floor, Tensor) and lower is not None:
        gone = z == -math.inf
        upper = entry_parameter(name, "upper", upper, z)
        upper, floor = torch.where(gone, 0.0, upper), torch.where(gone, 0.0, floor)
    return _sparsemax(z, upper, floor, dim=dim)


def _to_bound(name: str, argument: str, value: float | Tensor, z: Tensor) -> float | Tensor:
    """Return a bound as its kernel takes it: on GPUs a scalar stays one, which is not read for each entry."""
    if z.is_cuda and is_number(value):
        return float(value)
    return entry_parameter(name, argument, value, z)


_softmax = Map(
    "constrained_softmax",
    ["upper"],
    partial(kernels.solve, "capped_softmax"),
    softmax_vjp,
    softmax_jvp,
    gradient=partial(kernels.solve, "capped_softmax_vjp"),
    bounded="capped_softmax",
    export=export.capped_softmax,
)


_sparsemax = Map(
    "constrained_sparsemax",
    ["upper", "lower"],
    lambda z, upper, lower, dim: kernels.solve("box_simplex", z, lower, upper, 1.0, dim),
    sparsemax_vjp,
    sparsemax_jvp,
    gradient=lambda p, g, upper, lower, dim: kernels.solve("box_simplex_vjp", p, g, lower, upper, dim),
    bounded="box_simplex",
    export=lambda z, upper, lower, dim: export.box_simplex(z, lower, upper, 1.0, dim),
)


register(
    MapRecord(
        "constrained_softmax",
        constrained_softmax,
        lambda upper: Bounded("softmax", upper),
        summary="softmax with a ceiling on each entry (fertility)",
        complexity="O(K log K)",
        cite="martins2017learning",
        example={"upper": 0.6},
        example_of_one={"upper": 1.0},
        colour="#8a6a52",
        domain="bounded",
        program=lambda cp, p, omega: -cp.sum(cp.entr(p)),
    )
)


register(
    MapRecord(
        "constrained_sparsemax",
        constrained_sparsemax,
        lambda upper, lower=None: Bounded("sparsemax", upper, lower),
        summary="sparsemax with a ceiling and a floor on each entry",
        complexity="O(K log K)",
        cite="malaviya2018sparse",
        example={"upper": 0.6},
        example_of_one={"upper": 1.0},
        colour="#c9609f",
        domain="bounded",
        program=lambda cp, p, omega: (cp.sum_squares(p) - 1) / 2,
    )
)
