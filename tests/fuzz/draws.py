"""Draw random calls of the maps: which map, with what parameters, on what scores.

A :class:`Case` is drawn from one integer, so that a case that failed is drawn again from the integer it was printed
with.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

import omegamax
from omegamax import TotalVariation2d

INF = math.inf
DTYPES = (torch.float32, torch.float64, torch.float32, torch.float16, torch.bfloat16)
LENGTHS = (1, 2, 3, 5, 8, 13, 16, 31, 32, 33, 63, 64, 100, 130, 197, 257, 512, 1000, 1024, 2049, 4096, 5000)
LONG_LENGTHS = (16384, 32768, 32769, 65537, 100003, 262144, 1000003)
ALPHAS = (0.1, 0.5, 0.9, 0.999, 1.0, 1.001, 1.01, 1.1, 1.25, 4 / 3, 1.5, 1.6, 1.75, 1.9, 1.999, 2.0, 2.1, 2.5, 3.0, 5.0)
MOST_ENTRIES = 300_000  # of all rows together
STRUCTURED = ("fusedmax", "tvmax", "oscarmax", "graph_fusedmax", "sequential_k_subsets")  # slow in plain torch


@dataclass
class Case:
    """One call ``function(z, dim=dim, mask=mask, **parameters)``, and what it was drawn from."""

    seed: int
    map: str
    function: Callable[..., Tensor]
    z: Tensor
    dim: int
    mask: Tensor | None
    parameters: dict[str, Any]
    distribution: str
    edge: str
    layout: str

    def __str__(self) -> str:
        given = ", ".join(f"{k}={_brief(v)}" for k, v in self.parameters.items())
        masked = "" if self.mask is None else ", mask"
        scores = f"{self.distribution} {self.edge} {self.layout} {tuple(self.z.shape)} {self.z.dtype}"
        return f"case {self.seed}: {self.map}({given}{masked}, dim={self.dim}) of {scores}"

    def call(self, z: Tensor | None = None, dtype: torch.dtype | None = None) -> Tensor:
        """Apply the map to ``z``, by default the case's own scores, with floating parameters in ``dtype``."""
        z = self.z if z is None else z
        parameters = {k: _moved(v, z, dtype) for k, v in self.parameters.items()}
        more = {} if self.mask is None else {"mask": self.mask.to(z.device)}
        return self.function(z, dim=self.dim, **parameters, **more)


def draw(seed: int, maps: tuple[str, ...], small: bool = False) -> Case:
    """Draw the case of this seed; ``small``: rows of at most 257 entries, 4,000 of all together."""
    rng = random.Random(seed)
    generator = torch.Generator().manual_seed(seed)
    name = rng.choice(maps)
    dtype = rng.choice(DTYPES)
    length = min(_length(rng, name), 257) if small else _length(rng, name)
    rows = max(1, min(rng.choice((1, 2, 3, 7, 16, 17, 64)), (4000 if small else MOST_ENTRIES) // length))
    distribution = rng.choice(tuple(DISTRIBUTIONS))
    scores = DISTRIBUTIONS[distribution](rng, generator, rows, length).clamp(-_largest(dtype), _largest(dtype))
    edge = rng.choice(("", "", "", *EDGES))
    if edge:
        EDGES[edge](rng, scores, dtype)
    z, dim, layout = _laid_out(rng, scores.to(dtype))
    mask = None
    if rng.random() < 0.2:
        mask = torch.rand(scores.shape, generator=generator) < rng.choice((0.3, 0.9))
        mask = mask.movedim(-1, dim) if z.dim() == 2 else mask.view(z.shape)
    function, parameters = _parameters(rng, generator, name, z, dim, mask)
    return Case(seed, name, function, z, dim, mask, parameters, distribution, edge, layout)


def _length(rng: random.Random, name: str) -> int:
    if name == "sequential_k_subsets":
        return rng.choice(LENGTHS[:9])
    if name in STRUCTURED:
        return rng.choice(LENGTHS[:14])
    return rng.choice(LONG_LENGTHS) if rng.random() < 0.08 else rng.choice(LENGTHS)


def _largest(dtype: torch.dtype) -> float:
    return torch.finfo(dtype).max


def _normal(scale: float):
    return lambda rng, g, n, k: scale * torch.randn(n, k, generator=g, dtype=torch.float64)


def _lead(rng, g, n, k):
    """Return equal scores with one lead of up to 2."""
    z = torch.full((n, k), rng.choice((0.0, 0.0, -3.0, 100.0)), dtype=torch.float64)
    z[:, rng.randrange(k)] += rng.choice((0.0, 0.1, 0.5, 0.9, 1.0, 1.5, 2.0))
    return z


def _soft_mask(rng, g, n, k):
    """Return normal scores, some of which a large negative number hides."""
    hidden = torch.rand(n, k, generator=g) < rng.choice((0.1, 0.5, 0.9, 0.99))
    z = rng.choice((0.1, 1.0, 3.0)) * torch.randn(n, k, generator=g, dtype=torch.float64)
    return torch.where(hidden, rng.choice((-1e4, -1e9, -3.4e38, -6e4)), z)


def _gap(rng, g, n, k):
    """Return two clouds of scores, far from each other."""
    far = torch.rand(n, k, generator=g) < rng.random()
    return torch.randn(n, k, generator=g, dtype=torch.float64) + far * rng.choice((10.0, 1e3, 1e6, 1e15, 1e30))


def _integers(rng, g, n, k):
    return torch.randint(-3, 4, (n, k), generator=g).double() * rng.choice((0.125, 0.25, 0.5, 1.0))


def _near_ties(rng, g, n, k):
    return _integers(rng, g, n, k) + rng.choice((1e-12, 1e-7, 1e-4)) * torch.randn(n, k, generator=g).double()


def _uniform(rng, g, n, k):
    return torch.rand(n, k, generator=g, dtype=torch.float64) * rng.choice((1e-3, 1.0, 30.0)) + rng.choice((0.0, -1e3))


def _decades(rng, g, n, k):
    """Return scores of both signs whose sizes lie many decades apart."""
    size = 10.0 ** (torch.rand(n, k, generator=g, dtype=torch.float64) * 40 - 30)
    return size * torch.randn(n, k, generator=g, dtype=torch.float64).sign()


DISTRIBUTIONS: dict[str, Callable[..., Tensor]] = {
    "normal": _normal(1.0),
    "wide normal": _normal(30.0),
    "flat normal": _normal(0.01),
    "nearly constant": _normal(1e-6),
    "huge normal": _normal(1e30),
    "uniform": _uniform,
    "lead": _lead,
    "integers": _integers,
    "near ties": _near_ties,
    "soft mask": _soft_mask,
    "gap": _gap,
    "decades": _decades,
    "sorted": lambda rng, g, n, k: _normal(1.0)(rng, g, n, k).sort(-1, descending=rng.random() < 0.5).values,
}


def _hide(rng, z, dtype):
    generator = torch.Generator().manual_seed(rng.getrandbits(32))  # by the global one, no case could be repeated
    z[torch.rand(z.shape, generator=generator) < rng.choice((0.1, 0.9))] = -INF


def _one_row(value: float):
    def put(rng, z, dtype):
        z[rng.randrange(z.shape[0])] = value

    return put


def _one_entry(value: float):
    def put(rng, z, dtype):
        z[rng.randrange(z.shape[0]), rng.randrange(z.shape[1])] = value

    return put


def _extremes(rng, z, dtype):
    z[:, rng.randrange(z.shape[1])] = _largest(dtype)
    z[:, rng.randrange(z.shape[1])] = -_largest(dtype)


EDGES: dict[str, Callable[..., None]] = {
    "with -inf": _hide,
    "with a row of -inf": _one_row(-INF),
    "with a NaN": _one_entry(math.nan),
    "with a +inf": _one_entry(INF),
    "with the largest and the least": _extremes,
}


def _laid_out(rng: random.Random, z: Tensor) -> tuple[Tensor, int, str]:
    """Return rows ``[N, K]`` in some memory layout, the axis they lie along, and the layout's name."""
    layout = rng.choice(("contiguous", "contiguous", "transposed", "strided", "three axes"))
    if layout == "transposed":
        return z.t().contiguous(), 0, layout
    if layout == "strided":
        return torch.stack([z, torch.full_like(z, 7.0)], -1)[..., 0], -1, layout
    if layout == "three axes":
        return z.reshape(z.shape[0], 1, z.shape[1]), 2, layout
    return z, 1, layout


def _parameters(rng, g, name: str, z: Tensor, dim: int, mask: Tensor | None) -> tuple[Callable, dict[str, Any]]:
    """Draw the parameters of a map, as numbers or as tensors."""
    function = getattr(omegamax, name)
    length = z.shape[dim]
    row = [1 if d == dim % z.dim() else n for d, n in enumerate(z.shape)]

    def by_row(values: tuple[float, ...]) -> float | Tensor:
        if rng.random() < 0.6:
            return rng.choice(values)
        if rng.random() < 0.5:
            return torch.tensor(rng.choice(values), dtype=torch.float64)
        at = torch.randint(len(values), row, generator=g)
        return torch.tensor(values, dtype=torch.float64)[at]

    if name == "entmax":
        return function, {"alpha": by_row((*ALPHAS, rng.uniform(0.05, 6.0), INF))}
    if name == "normmax":
        return function, {"alpha": by_row((1.05, 1.2, 1.5, 2.0, 3.0, 5.0, 20.0, rng.uniform(1.01, 8.0), INF))}
    if name == "k_subsets":
        ks = (0, 1, 1, 2, 3, 7, 32, 100, length // 2, length - 1, length, rng.uniform(0, length))
        return function, {"k": by_row(tuple(min(k, length) for k in ks))}
    if name.startswith("constrained"):
        return function, _bounds(rng, g, name, z, dim, mask)
    if name == "sequential_k_subsets":
        return function, {"k": rng.randint(1, length), "transition": rng.choice((0.0, 0.5, -0.5, 2.0))}
    if name == "graph_fusedmax":
        edges = torch.randint(length, (2, rng.randint(1, 2 * length)), generator=g)
        edges = edges[:, edges[0] != edges[1]]
        return function, {"edges": edges, "strength": rng.choice((0.0, 0.01, 0.3, 2.0))}
    if name == "tvmax":
        strength = rng.choice((0.0, 0.01, 0.1, 1.0))
        height = next(h for h in range(math.isqrt(length), 0, -1) if length % h == 0)
        return TotalVariation2d("sparsemax", strength, shape=(height, -1)).argmax, {}
    if name in ("fusedmax", "oscarmax"):
        base = rng.choice(("sparsemax", "softmax", "entmax15"))
        return function, {"strength": rng.choice((0.0, 0.01, 0.1, 1.0)), "base": base}
    return function, {}


def _bounds(rng, g, name: str, z: Tensor, dim: int, mask: Tensor | None) -> dict[str, Any]:
    """Draw ceilings, and sometimes floors, that the entries left can satisfy."""
    left = z.isfinite() if mask is None else z.isfinite() & mask
    fewest = max(1, int(torch.where(left.any(dim), left.sum(dim), z.shape[dim]).min()))
    upper: Any = rng.choice((1.0, min(1.0, 1.5 / fewest), min(1.0, 10 / fewest)))
    lower: Any = rng.choice((None, None, 0.3 / z.shape[dim]))
    if rng.random() < 0.4:
        upper = (upper * (1 + torch.rand(z.shape, generator=g, dtype=torch.float64))).clamp(max=1.0)
    given = {"upper": upper}
    if name == "constrained_sparsemax" and lower is not None:
        given["lower"] = lower
    return given


def _moved(value: Any, z: Tensor, dtype: torch.dtype | None) -> Any:
    if not isinstance(value, Tensor):
        return value
    value = value.to(z.device)
    if not value.is_floating_point():
        return value
    return value.to(dtype or torch.promote_types(z.dtype, torch.float32))


def _brief(value: Any) -> str:
    if isinstance(value, Tensor):
        return f"{value.item()!r} as tensor" if value.dim() == 0 else f"tensor{list(value.shape)}"
    return repr(value)
