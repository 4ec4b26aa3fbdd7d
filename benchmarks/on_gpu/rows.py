"""Maps of rows: their time over ``torch.softmax``, forward, backward and both, beside the peers."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

import omegamax
from on_gpu import DEVICE, peers
from on_gpu.clock import Clock, Run
from on_gpu.sheet import Sheet

SHAPES = ((8192, 4096), (32768, 512), (65536, 128), (2048, 32768), (512, 131072))
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16}
WAYS = ("forward", "backward", "forward+backward")
BASELINE = ("softmax", "torch")
FAMILY = {"sparsemax": 2.0, "entmax15": 1.5, "entmax(4/3)": 4 / 3}
OTHERS = (8192, 4096)  # the shape at which the rest of the maps is measured
# Where the backward pass of the peers is measured; adasplash compiles fifteen kernels for each size and dtype.
PEERS_BACKWARD = ((8192, 4096), (2048, 32768))
SMALL = 128  # a size at which adasplash is left out

# The most that a map should take, as a multiple of softmax: (work, size, dtype) or parts of it -> multiple.
FORWARD = {
    ("sparsemax", 4096, "float32"): 0.65,
    ("sparsemax", 4096, "bfloat16"): 0.5,
    ("entmax15", 4096, "float32"): 0.65,
    ("entmax15", 4096, "bfloat16"): 0.45,
    ("entmax(4/3)", 4096): 1.0,
    ("sparsemax", 512): 0.95,
    ("entmax15", 512): 0.95,
    ("sparsemax", 128): 1.0,
    ("entmax15", 128): 1.0,
    ("sparsemax", 32768): 0.8,
    ("entmax15", 32768): 0.8,
    ("sparsemax", 131072, "float32"): 1.0,
    ("entmax15", 131072, "float32"): 1.0,
}


def bar(work: str, size: int, dtype: str, way: str) -> float | str:
    """What is aimed at, or nothing."""
    if way == "forward":
        return FORWARD.get((work, size, dtype), FORWARD.get((work, size), ""))
    if work not in ("sparsemax", "entmax15"):
        return ""
    if way == "backward":
        return 0.6 if 512 <= size <= 32768 else ""
    return 0.9


@dataclass(frozen=True)
class Case:
    """One group of rivals: rows of one shape and dtype, one way."""

    count: int
    size: int
    dtype: str
    way: str
    device: str = DEVICE

    @property
    def shape(self) -> str:
        return f"{self.count}x{self.size}"

    @property
    def shape_of(self) -> tuple[int, int]:
        return self.count, self.size

    def scores(self) -> Tensor:
        torch.manual_seed(0)
        return torch.randn(self.count, self.size, device=self.device).to(DTYPES[self.dtype])

    def names(self) -> list[tuple[str, str]]:
        """(map, library), as the keys of ``rivals``."""
        return list(self.maps())

    def maps(self) -> dict[tuple[str, str], Callable[[Tensor], Tensor]]:
        """(map, library) -> function."""
        maps: dict[tuple[str, str], Callable | None] = {BASELINE: lambda z: torch.softmax(z, -1)}
        for work, alpha in FAMILY.items():
            maps[work, "omegamax"] = _entmax(alpha)
            for name in peers.NAMES:
                if self._measures(name, work):
                    maps[work, name] = peers.row_map(name, alpha)
        if self.shape_of == OTHERS or self.size < 128:
            maps |= _others(self.count, self.device)
        return {key: function for key, function in maps.items() if function is not None}

    def _measures(self, name: str, work: str) -> bool:
        if self.way != "forward":
            return self.way == "forward+backward" and self.shape_of in PEERS_BACKWARD
        general = work == "entmax(4/3)" and self.shape_of != OTHERS
        return name == "entmax" or not (general or self.size <= SMALL)

    def tuned(self, part: int) -> list[str]:
        """What adasplash chooses settings for: the first size that it meets, and each size in the backward pass."""
        if self.way == "forward":
            return ["sparsemax", "entmax(4/3)"] if self.shape_of == SHAPES[0] else []
        return ["sparsemax"] if self.way == "forward+backward" and self.shape_of in PEERS_BACKWARD else []

    def rivals(self) -> dict[tuple[str, str], Run]:
        z = self.scores()
        g = torch.randn_like(z)
        return {key: _run(function, z, g, self.way) for key, function in self.maps().items()}


def cases(scale: str = "full") -> list[Case]:
    shapes = {"full": SHAPES, "quick": SHAPES[:2], "tiny": ((8, 32),)}[scale]
    return [Case(*shape, dtype, way) for shape in shapes for dtype in DTYPES for way in WAYS]


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    """Rows of the sheet for every case; yields a line about each."""
    clock = Clock(DEVICE, {"full": 0.3, "quick": 0.15, "tiny": 0.01}[scale])
    peers.tune_quickly()
    for case in cases(scale):
        readings = clock.compare(case.rivals(), BASELINE)
        errors = _errors(case) if case.way == "forward" else {}
        for (work, name), reading in readings.items():
            aim = bar(work, case.size, case.dtype, case.way) if name == "omegamax" else ""
            sheet.add(
                work=work,
                shape=case.shape,
                dtype=case.dtype,
                way=case.way,
                name=name,
                **vars(reading),
                bar=aim,
                ok=reading.over <= aim if isinstance(aim, float) else "",
                error=errors.get((work, name), ""),
            )
        best = ", ".join(f"{w} {r.over:.2f}" for (w, n), r in readings.items() if n == "omegamax")
        yield f"{case.way} {case.shape} {case.dtype}: {best}"


def _entmax(alpha: float) -> Callable[[Tensor], Tensor]:
    named = {2.0: omegamax.sparsemax, 1.5: omegamax.entmax15}
    return named.get(alpha, lambda z: omegamax.entmax(z, alpha))


def _others(count: int, device: str) -> dict[tuple[str, str], Callable | None]:
    """Maps beside the family, and the family with an alpha for each row."""
    alpha = 1.1 + 0.8 * torch.rand(count, 1, generator=torch.Generator().manual_seed(0)).to(device)
    entmax = peers.peer("entmax")
    theirs = {
        "entmax(alpha of each row)": lambda z: entmax.entmax_bisect(z, alpha[: len(z)]),
        "normmax": lambda z: entmax.normmax_bisect(z, 2),
        "k_subsets(8)": lambda z: entmax.budget_bisect(z, 8),
    }
    ours = {
        "entmax(alpha of each row)": lambda z: omegamax.entmax(z, alpha[: len(z)]),
        "normmax": omegamax.normmax,
        "k_subsets(8)": lambda z: omegamax.k_subsets(z, 8),
        "constrained_sparsemax(0.1)": lambda z: omegamax.constrained_sparsemax(z, 0.1),
        "constrained_softmax(0.1)": lambda z: omegamax.constrained_softmax(z, 0.1),
    }
    maps: dict[tuple[str, str], Callable | None] = {(work, "omegamax"): function for work, function in ours.items()}
    return maps | {(work, "entmax"): function for work, function in theirs.items() if entmax is not None}


def _run(function: Callable[[Tensor], Tensor], z: Tensor, g: Tensor, way: str) -> Run:
    if way == "forward":
        return lambda: function(z)
    leaf = z.clone().requires_grad_()
    if way == "forward+backward":
        return lambda: torch.autograd.grad(function(leaf), leaf, g)
    kept: list[Tensor] = []

    def backward():
        if not kept:  # made by the first call, which may fail, and on the stream of the clock
            kept.append(function(leaf))
        return torch.autograd.grad(kept[0], leaf, g, retain_graph=True)

    return backward


def _errors(case: Case, entries: int = 2**21) -> dict[tuple[str, str], float]:
    """Largest error of each library's map on the first rows, against float64."""
    z = case.scores()
    exact: dict[str, Tensor] = {}
    errors = {}
    maps = case.maps()
    rows = max(entries // case.size, 1)
    for (work, name), function in maps.items():
        if name == "torch":
            exact[work] = torch.softmax(z[:rows].double(), -1)
        elif work not in exact:
            with omegamax.backend("reference"):
                exact[work] = maps[work, "omegamax"](z[:rows].double())
        try:
            errors[work, name] = float((function(z[:rows]).double() - exact[work]).abs().max())
        except Exception:
            continue  # its note says why
    return errors
