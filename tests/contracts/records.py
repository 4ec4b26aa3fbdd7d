"""What the shared suites need of a registered map: its domain, feasible points, parameters that fit a row.

A new map is tested by being registered, also by an entry point of its package: ``pytest tests/contracts -k <name>``
runs every contract on it. What a contract leaves out is said by its record.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from torch import Tensor

from omegamax import GraphFused, Omega, TotalVariation2d, graph_fusedmax
from omegamax.maps import MapRecord, find, records


def ladder(size: int) -> Tensor:
    """Edges from each entry to the next two: a graph with cycles, of which the first entries are one too."""
    at = torch.arange(size)
    return torch.cat([torch.stack([at[step:], at[:-step]]) for step in (1, 2)], 1)


class Ladder(GraphFused):
    """The graph's regulariser on a ladder of whatever size the row has."""

    def __init__(self, strength: float):
        super().__init__("sparsemax", ladder(3), strength)

    def penalty(self, p: Tensor) -> Tensor:
        self.edges = ladder(p.shape[-1])
        return super().penalty(p)

    def smooth(self, z: Tensor) -> Tensor:
        self.edges = ladder(z.shape[-1])
        return super().smooth(z)

    def argmax(self, z: Tensor, dim: int = -1, *, mask: Tensor | None = None) -> Tensor:
        return fuse_ladder(z, dim, strength=self.strength, mask=mask)


def fuse_ladder(z: Tensor, dim: int = -1, *, strength: float, mask: Tensor | None = None) -> Tensor:
    rank = z.dim() if isinstance(z, Tensor) else 0
    size = z.shape[dim] if rank and -rank <= dim < rank else 1
    return graph_fusedmax(z, ladder(max(size, 1)), strength, dim, mask=mask)


def ladder_program(cp, p, omega: Ladder):
    omega.edges = ladder(p.size)
    return find("graph_fusedmax").program(cp, p, omega)


def strip(z: Tensor, dim: int = -1, *, strength: float, mask: Tensor | None = None) -> Tensor:
    """tvmax of rows, each an image of one line."""
    return TotalVariation2d("sparsemax", strength, shape=(1, -1)).argmax(z, dim, mask=mask)


# Maps of something else than rows, made to fit the suites, which speak of rows of any size.
FITTED = {
    "tvmax": {
        "function": strip,
        "omega": lambda strength: TotalVariation2d("sparsemax", strength, shape=(1, -1)),
        "domain": "simplex",
    },
    "graph_fusedmax": {
        "function": fuse_ladder,
        "omega": Ladder,
        "example": {"strength": 0.25},
        "program": ladder_program,
    },
}
RECORDS = [dataclasses.replace(record, **FITTED.get(name, {})) for name, record in records().items()]
every_map = pytest.mark.parametrize("record", RECORDS, ids=lambda record: record.name)


@dataclass(frozen=True)
class Domain:
    """``{lower <= p <= upper, sum p = total}``."""

    total: float
    lower: float
    upper: float

    @property
    def smallest(self) -> int:
        """Fewest entries that can hold the total."""
        return max(1, math.ceil(self.total / self.upper - 1e-9))

    def vertices(self, size: int, count: int, seed: int = 0) -> Tensor:
        """Corners, ``[count, size]``: entries in random order filled to their ceiling while mass is left."""
        rng = np.random.default_rng(seed)
        corners = np.full((count, size), self.lower)
        for corner in corners:
            for i in rng.permutation(size):
                corner[i] += min(self.upper - self.lower, self.total - corner.sum())
        return torch.from_numpy(corners)

    def points(self, size: int, count: int, seed: int = 0) -> Tensor:
        """Feasible points, some near a corner and some in the middle, ``[count, size]``."""
        rng = np.random.default_rng(seed)
        corners = self.vertices(size, 3 * size, seed)
        sharpness = rng.choice([0.05, 0.3, 1.0, 10.0], size=count)
        weights = np.stack([rng.dirichlet(np.full(len(corners), a)) for a in sharpness])
        return torch.from_numpy(weights) @ corners


def options(record: MapRecord, size: int) -> dict[str, Any]:
    """The example's parameters, or smaller ones where ``size`` entries cannot hold them."""
    return record.example if size >= domain(record).smallest else {**record.example, **record.example_of_one}


def omega_of(record: MapRecord, size: int | None = None) -> Omega:
    """The Omega of the example's parameters."""
    return record.omega(**(record.example if size is None else options(record, size)))


def domain(record: MapRecord, parameters: dict[str, Any] | None = None) -> Domain:
    """The domain of a map, read off its Omega."""
    omega = record.omega(**(record.example if parameters is None else parameters))
    lower, upper = getattr(omega, "lower", None), getattr(omega, "upper", None)
    return Domain(float(omega.total), 0.0 if lower is None else float(lower), 1.0 if upper is None else float(upper))


def run(record: MapRecord, z: Tensor, dim: int = -1, **more: Any) -> Tensor:
    """The map with parameters that fit the row."""
    size = z.shape[dim] if z.dim() else 1
    return record.function(z, dim=dim, **options(record, size), **more)


# Maps that a compiled kernel solves, row by row; those of other packages have none of their own.
SOLVED_BY_ROWS = [r for r in RECORDS if r.function.__module__.startswith("omegamax.") and omega_of(r).keeps_order]


def scores(min_size: int = 1, max_size: int = 12, bound: float = 1e4) -> st.SearchStrategy[Tensor]:
    """Rows of float64 scores that float32 holds too; ties and close calls are frequent."""
    anything = st.floats(-bound, bound, width=32)
    close = st.integers(-24, 24).map(lambda n: n / 8)
    lists = st.one_of(*(st.lists(e, min_size=min_size, max_size=max_size) for e in (anything, close, anything | close)))
    return lists.map(lambda xs: torch.tensor(xs, dtype=torch.float64))


def wide(record: MapRecord, rows: int, size: int, dtype: torch.dtype = torch.float64, scale: float = 2.0) -> Tensor:
    """Reproducible scores with a few zeros, a few capped and several free entries in most rows."""
    generator = torch.Generator().manual_seed(1000 * rows + size)
    return (scale * torch.randn(rows, size, dtype=torch.float64, generator=generator)).to(dtype)
