"""What the maps of rows promise: float64's probabilities and gradients, on ordinary and odd input, in every precision.

Float32 may err by a few roundings; float16 and bfloat16 by twice what plain torch errs in that precision.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor

import omegamax
from on_gpu import DEVICE
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

Map = Callable[..., Tensor]
INF = math.inf
DTYPES = ("float32", "float16", "bfloat16")
SMOOTH = ("normal", "long", "-inf", "noncontiguous")  # where gradients are compared
VALUE = 4e-7  # float32's few roundings of a probability
SLOPE = 4e-6  # and of a gradient, as a part of the largest
TOTAL = 2e-5  # and of the sum of a row
# Towards alpha = 1 the power 1 / (alpha - 1) multiplies a rounding.
NEAR_ONE = {"entmax(1.05)": 4.0, "entmax(alpha of each row)": 4.0}


def _spread(z: Tensor, low: float, high: float) -> Tensor:
    """A number for each row, ``[*, 1]``."""
    count = z[..., :1].numel()
    return torch.linspace(low, high, max(count, 1), device=z.device)[:count].reshape(z[..., :1].shape)


MAPS: dict[str, Map] = {
    "softmax": lambda z: omegamax.softmax(z),
    "sparsemax": lambda z: omegamax.sparsemax(z),
    "entmax15": lambda z: omegamax.entmax15(z),
    **{f"entmax({a:g})": (lambda z, a=a: omegamax.entmax(z, a)) for a in (0.5, 1.05, 1.25, 1.75, 3.0, INF)},
    "entmax(alpha of each row)": lambda z: omegamax.entmax(z, _spread(z, 1.05, 2.5)),
    **{f"normmax({a:g})": (lambda z, a=a: omegamax.normmax(z, a)) for a in (1.5, 2.0, INF)},
    "normmax(alpha of each row)": lambda z: omegamax.normmax(z, _spread(z, 1.2, 3.0)),
    "k_subsets(3)": lambda z: omegamax.k_subsets(z, min(3, z.shape[-1])),
    "k_subsets(k of each row)": lambda z: omegamax.k_subsets(z, _spread(z, 0.5, 1.0) * min(5, z.shape[-1])),
    "k_subsets(at most 3)": lambda z: omegamax.k_subsets(z, min(3, z.shape[-1]), at_most=True),
    "constrained_sparsemax": lambda z: omegamax.constrained_sparsemax(z, _ceiling(z)),
    "constrained_sparsemax(with floors)": lambda z: omegamax.constrained_sparsemax(
        z, _ceiling(z), lower=0.25 / z.shape[-1]
    ),
    "constrained_softmax": lambda z: omegamax.constrained_softmax(z, _ceiling(z)),
    "fusedmax(0.2)": lambda z: omegamax.fusedmax(z, 0.2),
    "oscarmax(0.01)": lambda z: omegamax.oscarmax(z, 0.01),
}


# Kernel -> the maps it computes, first the one that stands for them.
KINDS = {
    "by row": ("entmax(alpha of each row)",),  # these two compile longest
    "steep": ("entmax(3)", "entmax(inf)"),
    "softmax": ("softmax",),
    "sparsemax": ("sparsemax",),
    "entmax15": ("entmax15",),
    "entmax": ("entmax(1.25)", "entmax(1.05)", "entmax(1.75)", "entmax(0.5)"),
    "normmax": ("normmax(2)", "normmax(1.5)", "normmax(inf)", "normmax(alpha of each row)"),
    "k_subsets": ("k_subsets(3)", "k_subsets(k of each row)", "k_subsets(at most 3)"),
    "box": ("constrained_sparsemax", "constrained_sparsemax(with floors)"),
    "capped": ("constrained_softmax",),
    "chain": ("fusedmax(0.2)",),
    "clusters": ("oscarmax(0.01)",),
}


def _ceiling(z: Tensor) -> Tensor:
    """Upper bounds that some entries reach; 1 where a row may be left with few entries."""
    few = z.shape[-1] < 64
    return (0.3 + 0.7 * torch.linspace(0, 1, z.shape[-1], device=z.device).cos()).clamp(1.0 if few else 0.15, 1.0)


INPUTS: dict[str, Callable[[str], Tensor]] = {
    "normal": lambda d: torch.randn(64, 1000, device=d),
    "many": lambda d: torch.randn(20000, 200, device=d),
    "long": lambda d: torch.randn(3, 70001, device=d),
    "short": lambda d: torch.randn(513, 7, device=d),
    "ties": lambda d: torch.randint(-4, 5, (64, 200), device=d) / 4,
    "flat": lambda d: torch.tensor([[0.0], [1e-6], [1e-4], [1e-2]], device=d) * torch.randn(4, 32768, device=d) + 3,
    "huge": lambda d: torch.tensor([[1e2], [1e4], [6e4], [3e4]], device=d) * torch.randn(4, 200, device=d).clamp(-1, 1),
    "-inf": lambda d: torch.randn(64, 200, device=d).masked_fill(torch.rand(64, 200, device=d) < 0.3, -INF),
    "masked rows": lambda d: torch.randn(6, 200, device=d).index_fill(0, torch.tensor([1, 4], device=d), -INF),
    "NaN and +inf": lambda d: _spoilt(torch.randn(6, 200, device=d)),
    "one entry": lambda d: torch.randn(64, 1, device=d),
    "no rows": lambda d: torch.randn(0, 7, device=d),
    "noncontiguous": lambda d: torch.randn(200, 12, device=d).T,
}


def _spoilt(z: Tensor) -> Tensor:
    z[1, 3], z[4, 180] = math.nan, INF
    return z


def jobs(scale: str = "full") -> list[Job]:
    if scale == "tiny":
        return [Job("contract_rows", __name__, "check", ("entmax15", "float32", DEVICE, ("short", "NaN and +inf")))]
    found = [Job("contract_rows", __name__, "check_kind", (kind, dtype)) for dtype in DTYPES for kind in KINDS]
    return found + [Job("contract_rows", __name__, "check_parameter", (name,)) for name in PARAMETERS]


def check_kind(sheet: Sheet, kind: str, dtype: str) -> None:
    """Maps that share a kernel, so that one process compiles it: all in float32, the first in the other precisions."""
    for name in KINDS[kind][: None if dtype == "float32" else 1]:
        check(sheet, name, dtype, DEVICE, ("normal", "-inf") if dtype == "float16" else tuple(INPUTS))


def check(sheet: Sheet, name: str, dtype: str, device: str = DEVICE, inputs: tuple[str, ...] = tuple(INPUTS)) -> None:
    """All contracts of one map in one precision."""
    function = MAPS[name]
    for kind in inputs:
        torch.manual_seed(1)
        z = INPUTS[kind](device).to(getattr(torch, dtype))
        row = {"work": name, "dtype": dtype, "shape": "x".join(map(str, z.shape)), "name": "omegamax"}
        with sheet.kept(way=kind, **row):
            exact, plain, ours = values(function, z)
            limit = max(VALUE * NEAR_ONE.get(name, 1.0), 2 * worst(plain, exact))
            sheet.contract(worst(ours, exact), limit, way=f"{kind}: probabilities", **row)
            if dtype == "float32":
                totals = [p.double().sum(-1) for p in (ours, plain, exact)]
                limit = max(TOTAL, 2 * worst(*totals[1:]))
                sheet.contract(worst(totals[0], totals[2]), limit, way=f"{kind}: sums", **row)
            if (ours[z == -INF] != 0).any() or ours.dtype != z.dtype:
                sheet.add(way=f"{kind}: zeros and dtype", ok=False, **row)
        if kind in SMOOTH:
            with sheet.kept(way=f"{kind}: gradient", **row):
                exact, plain, ours = gradients(function, z)
                part = SLOPE if dtype == "float32" else torch.finfo(z.dtype).eps
                limit = max(part * largest(exact), 2 * worst(plain, exact))
                sheet.contract(worst(ours, exact), limit, way=f"{kind}: gradient", **row)
    with sheet.kept(work=name, dtype=dtype, name="omegamax", way="any layout"):
        _any_layout(sheet, name, function, getattr(torch, dtype), device)


def values(function: Map, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities: exact, by plain torch in the precision of ``z``, and ours."""
    with omegamax.backend("reference"):
        exact, plain = function(z.double()), function(z)
    return exact, plain, function(z)


def gradients(function: Map, z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The same three of the gradient of one weighted sum, over the rows that have one."""
    g = torch.randn(z.shape, device=z.device).to(z.dtype) * settled(function, z)

    def gradient(x: Tensor) -> Tensor:
        x = x.detach().requires_grad_()
        return torch.autograd.grad(function(x), x, g.to(x.dtype))[0]

    with omegamax.backend("reference"):
        exact, plain = gradient(z.double()), gradient(z)
    return exact, plain, gradient(z)


def settled(function: Map, z: Tensor) -> Tensor:
    """Rows in which no entry is about to enter or leave the support, ``[*, 1]``: elsewhere there is no derivative.

    Half precision has few numbers, so that scores at the very edge of the support are common there.
    """
    with omegamax.backend("reference"):
        wide, narrow = (function(z.double() * scale) > 0 for scale in (1 - 1e-6, 1 + 1e-6))
    rows = (wide == narrow).all(-1, keepdim=True)
    if not rows.any():
        raise ValueError("settled: no row without an entry at the edge of the support")
    return rows


def _any_layout(sheet: Sheet, name: str, function: Map, dtype: torch.dtype, device: str) -> None:
    """Strides do not matter, nor does what stands in other rows."""
    z = torch.randn(4, 200, 5, device=device).to(dtype)
    rows = function(z.movedim(1, -1).contiguous())
    row = {"work": name, "dtype": str(dtype)[6:], "shape": "4x200x5", "name": "omegamax"}
    sheet.contract(worst(function(z.movedim(1, -1)), rows), VALUE, way="any layout: the same", **row)


# Map with a tensor parameter -> (function of scores and parameter, its least and greatest value).
PARAMETERS: dict[str, tuple[Callable[[Tensor, Tensor], Tensor], float, float]] = {
    "entmax: alpha": (omegamax.entmax, 1.1, 2.5),
    "normmax: alpha": (omegamax.normmax, 1.2, 3.0),
    "k_subsets: k": (omegamax.k_subsets, 1.5, 6.0),
    "constrained_sparsemax: upper": (omegamax.constrained_sparsemax, 0.2, 0.5),
    "constrained_softmax: upper": (omegamax.constrained_softmax, 0.02, 0.1),
    "fusedmax: strength": (omegamax.fusedmax, 0.05, 1.0),
    "oscarmax: strength": (omegamax.oscarmax, 0.002, 0.1),
}


def check_parameter(sheet: Sheet, name: str, device: str = DEVICE) -> None:
    """The gradient to a parameter with one number for each row."""
    function, low, high = PARAMETERS[name]
    torch.manual_seed(2)
    z, g = torch.randn(64, 500, device=device), torch.randn(64, 500, device=device)

    def gradient(dtype: torch.dtype) -> Tensor:
        parameter = torch.linspace(low, high, 64, device=device, dtype=dtype)[:, None].requires_grad_()
        return torch.autograd.grad(function(z.to(dtype), parameter), parameter, g.to(dtype))[0]

    row = {"work": name, "dtype": "float32", "shape": "64x500", "way": "gradient to the parameter", "name": "omegamax"}
    with sheet.kept(**row):
        with omegamax.backend("reference"):
            exact, plain = gradient(torch.float64), gradient(torch.float32)
        limit = max(2e-5 * largest(exact), 2 * worst(plain, exact))
        sheet.contract(worst(gradient(torch.float32), exact), limit, **row)


def worst(found: Tensor, exact: Tensor) -> float:
    """Largest difference; infinite where only one of the two is NaN."""
    if not exact.numel():
        return 0.0 if found.shape == exact.shape else INF
    both = found.isnan() & exact.isnan()
    return float((found.double() - exact.double()).abs().nan_to_num(nan=INF).masked_fill(both, 0.0).max())


def largest(x: Tensor) -> float:
    return float(x.nan_to_num().abs().max()) if x.numel() else 0.0
