"""Goals of maps of rows and of losses, by the distribution of their scores: how many are in the support decides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import omegamax
from on_gpu import DEVICE, peers
from on_gpu.clock import Run
from on_gpu.goal import WAYS, Goal, Key

SOFTMAX = ("softmax", "torch")
DISTRIBUTIONS = ("normal", "flat", "peaked", "heavy-tailed")
MAPS: dict[str, Callable[[Tensor], Tensor]] = {
    "sparsemax": omegamax.sparsemax,
    "entmax15": omegamax.entmax15,
    "entmax(1.25)": lambda z: omegamax.entmax(z, 1.25),
    "entmax(3)": lambda z: omegamax.entmax(z, 3.0),
    "entmax(3 for each row)": lambda z: omegamax.entmax(z, torch.full_like(z[:, :1], 3.0, dtype=torch.float32)),
    "k_subsets(8)": lambda z: omegamax.k_subsets(z, 8),
    "normmax": omegamax.normmax,
}
PEERS = {"sparsemax": 2.0, "entmax15": 1.5, "entmax(1.25)": 1.25}
# Map, rows, size, dtypes, drawn, way, aim, before; of each only the most that it should take.
LINES: list[tuple[str, int, int, tuple[str, ...], str, str, float | None, str]] = [
    *(("k_subsets(8)", 512, size, ("float32",), "normal", "forward", 1.5, "450-970") for size in (50257, 131072)),
    ("k_subsets(8)", 512, 131072, ("float32",), "normal", "forward+backward", 1.5, ""),
    *(("normmax", 512, size, ("float32",), "normal", "forward", 1.5, "3.5-11") for size in (50257, 131072)),
    *(
        (name, 4096, 50257, ("float32", "bfloat16"), "flat", "forward", 1.2, "1.8-2.5")
        for name in ("sparsemax", "entmax15", "entmax(1.25)")
    ),
    ("entmax(1.25)", 4096, 50257, ("float32", "bfloat16"), "normal", "forward", 1.2, "1.5-2.3"),
    ("sparsemax", 16384, 197, ("bfloat16",), "normal", "forward", 1.0, "1.4"),
    ("entmax15", 16384, 197, ("bfloat16",), "normal", "forward", 1.0, "1.8"),
    ("k_subsets(8)", 16384, 197, ("bfloat16",), "normal", "forward", 2.0, "6.6"),
    *(
        (name, *shape, ("float32",), "normal", "forward+backward", 1.2, "1.6-3.6")
        for shape in ((4096, 1000), (131072, 64))
        for name in ("sparsemax", "entmax15")
    ),
    ("entmax(3)", 8192, 4096, ("float32",), "normal", "forward", 3.0, "25"),
    ("entmax(3 for each row)", 65536, 128, ("float32",), "normal", "forward", 3.0, "200"),
    *((name, 8192, 4096, ("bfloat16",), drawn, "forward", None, "") for name in PEERS for drawn in DISTRIBUTIONS),
]


def goals(scale: str) -> list[Goal]:
    found = []
    for work, rows, size, dtypes, drawn, way, aim, before in LINES:
        rows, size = (4, 16) if scale == "tiny" else (rows, size)
        for dtype in dtypes:
            make = partial(_rivals, work, rows, size, dtype, drawn, way)
            title = way if drawn == "normal" else f"{drawn} scores, {way}"
            found.append(Goal(work, f"{rows}x{size}", dtype, title, make, SOFTMAX, aim, before))
    return found + _losses(scale)


def scores(rows: int, size: int, drawn: str) -> Tensor:
    """Standard normal scores; a hundredth of them, five times them, or Student's t with two degrees of freedom."""
    generator = torch.Generator(DEVICE).manual_seed(0)
    z = torch.randn(rows, size, device=DEVICE, generator=generator)
    if drawn == "heavy-tailed":
        return z / torch.empty_like(z).exponential_(generator=generator).sqrt()
    return z * {"flat": 0.01, "peaked": 5.0}.get(drawn, 1.0)


def _rivals(work: str, rows: int, size: int, dtype: str, drawn: str, way: str) -> dict[Key, Run]:
    z = scores(rows, size, drawn).to(getattr(torch, dtype))
    run = WAYS[way]
    found = {SOFTMAX: run(lambda x: torch.softmax(x, -1), z), (work, "omegamax"): run(MAPS[work], z)}
    for name in peers.NAMES if work in PEERS and way == "forward" else ():
        theirs = peers.row_map(name, PEERS[work])
        if theirs is not None:
            found[work, name] = run(theirs, z)
    return found


def _losses(scale: str) -> list[Goal]:
    tokens, width, vocabulary = (4, 3, 9) if scale == "tiny" else (8192, 2048, 131072)
    shape, dense = f"{tokens}x{width}x{vocabulary}", ("cross_entropy", "torch")
    found = []
    for alpha, aim, before, unit in ((1.25, 0.8, "1.13-1.16", "over"), (1.0, 100.0, "1 GB", "MiB")):
        work = f"linear_entmax_loss(alpha {alpha:g})"
        make = partial(_projections, work, alpha, tokens, width, vocabulary)
        found.append(Goal(work, shape, "bfloat16", "forward+backward", make, dense, aim, before, unit))
    return found


def _projections(work: str, alpha: float, tokens: int, width: int, vocabulary: int) -> dict[Key, Run]:
    generator = torch.Generator(DEVICE).manual_seed(0)
    hidden, weight = (
        torch.randn(size, width, device=DEVICE, generator=generator).bfloat16() for size in (tokens, vocabulary)
    )
    leaves = [hidden.requires_grad_(), (weight * 2 / width**0.5).requires_grad_()]
    target = torch.randint(vocabulary, (tokens,), device=DEVICE, generator=generator)
    losses = {
        ("cross_entropy", "torch"): lambda h, w: F.cross_entropy(h @ w.T, target),
        (work, "omegamax"): lambda h, w: omegamax.linear_entmax_loss(h, w, target, alpha),
    }
    return {key: lambda f=f: torch.autograd.grad(f(*leaves), leaves) for key, f in losses.items()}
