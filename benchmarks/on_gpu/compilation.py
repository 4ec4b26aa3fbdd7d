"""``torch.compile(fullgraph=True)`` of maps, losses and attention: one graph, and the numbers of the call by itself."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

import omegamax
from on_gpu import DEVICE
from on_gpu.contract_rows import largest, worst
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

BACKEND = "inductor" if DEVICE == "cuda" else "aot_eager"


def _scores(device: str) -> list[Tensor]:
    return [torch.randn(64, 500, device=device)]


def _heads(device: str) -> list[Tensor]:
    return [torch.randn(2, 4, 200, 64, device=device) for _ in range(3)]


def _tokens(device: str) -> list[Tensor]:
    return [torch.randn(300, 64, device=device), torch.randn(1000, 64, device=device) / 4]


def _targets(z: Tensor) -> Tensor:
    return torch.arange(len(z), device=z.device)


# Work -> (function, its inputs). A layer around the call, so that there is something to fuse it with.
WORKS: dict[str, tuple[Callable[..., Tensor], Callable[[str], list[Tensor]]]] = {
    "sparsemax": (lambda z: omegamax.sparsemax(2 * z) * z, _scores),
    "entmax15": (lambda z: omegamax.entmax15(2 * z) * z, _scores),
    "entmax(1.3)": (lambda z: omegamax.entmax(2 * z, 1.3) * z, _scores),
    "entmax15_loss": (lambda z: omegamax.entmax15_loss(2 * z, _targets(z)), _scores),
    "linear_entmax_loss": (lambda h, w: omegamax.linear_entmax_loss(2 * h, w, _targets(h)), _tokens),
    "attention(entmax15)": (lambda q, k, v: omegamax.attention(2 * q, k, v, "entmax15", is_causal=True), _heads),
    "attention(sparsemax)": (lambda q, k, v: omegamax.attention(2 * q, k, v, "sparsemax"), _heads),
}


def jobs(scale: str = "full") -> list[Job]:
    works = list(WORKS)[:1] if scale == "tiny" else WORKS
    return [Job("compilation", __name__, "check", (work,)) for work in works]


def check(sheet: Sheet, work: str, device: str = DEVICE, backend: str = BACKEND) -> None:
    """Value and gradients, compiled and not."""
    function, inputs = WORKS[work]
    row = {"work": f"torch.compile: {work}", "dtype": "float32", "name": "omegamax", "way": "fullgraph=True"}
    with sheet.kept(**row):
        torch.manual_seed(7)
        leaves = [x.requires_grad_() for x in inputs(device)]
        expected = _with_gradients(function, leaves)
        start = time.perf_counter()
        found = _with_gradients(torch.compile(function, fullgraph=True, backend=backend), leaves)
        seconds = time.perf_counter() - start
        scale = max(largest(x) for x in expected)
        error = max(worst(a, b) for a, b in zip(found, expected, strict=True))
        sheet.contract(error, 2e-6 * scale, note=f"compiled in {seconds:.1f} s", **row)


def _with_gradients(function: Callable[..., Tensor], leaves: list[Tensor]) -> list[Tensor]:
    out = function(*leaves)
    return [out.detach(), *torch.autograd.grad(out.square().sum(), leaves)]
