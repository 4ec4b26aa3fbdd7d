"""The first call of a new shape: what a user waits for while kernels are compiled. Nothing is tuned at run time."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import torch

import omegamax
from on_gpu import DEVICE
from on_gpu.sheet import Sheet

LIMIT = 5.0  # seconds
HERE = Path(__file__).parents[1]


def _map(size: int) -> None:
    z = torch.randn(64, size, device=DEVICE, requires_grad=True)
    omegamax.entmax15(z).square().sum().backward()


def _attention(length: int, is_causal: bool = True) -> None:
    q, k, v = (torch.randn(1, 4, length, 64, device=DEVICE).bfloat16().requires_grad_() for _ in range(3))
    omegamax.attention(q, k, v, "entmax15", is_causal=is_causal).square().sum().backward()


def _loss(size: int) -> None:
    z = torch.randn(64, size, device=DEVICE, requires_grad=True)
    omegamax.entmax15_loss(z, torch.arange(64, device=DEVICE)).backward()


# Work -> (function of a size, sizes one after another). The first includes what every first kernel of a process costs.
WORKS = {
    "entmax15, forward+backward": (_map, (1000, 3000, 3001)),
    "attention(entmax15), causal, forward+backward": (_attention, (1000, 3000, 3001)),
    "attention(entmax15), full, forward+backward": (partial(_attention, is_causal=False), (4000, 4001)),
    "entmax15_loss, forward+backward": (_loss, (1000, 50257, 50258)),
}


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    """Each work in a process of its own, with an empty cache of compiled kernels."""
    works = list(WORKS)[: 1 if scale == "tiny" else None]
    with tempfile.TemporaryDirectory() as folder:
        running = [_begun(work, f"{folder}/{index}") for index, work in enumerate(works)]
        ended = [process.communicate() for process in running]
    for work, process, (printed, complaint) in zip(works, running, ended, strict=True):
        sizes = WORKS[work][1]
        if process.returncode:
            sheet.add(work=work, name="omegamax", ok=False, note=complaint.strip().splitlines()[-1][:160])
            continue
        seconds = [float(line) for line in printed.split()]
        for size, taken in zip(sizes, seconds, strict=True):
            way = "first call of the process" if size == sizes[0] else "first call of the shape"
            sheet.contract(taken, LIMIT, work=work, shape=str(size), way=way, name="omegamax", note="seconds")
        yield f"{work}: " + ", ".join(f"{size} {taken:.1f} s" for size, taken in zip(sizes, seconds, strict=True))


def _begun(work: str, cache: str) -> subprocess.Popen:
    command = [sys.executable, "-c", f"from on_gpu import first; first.call({work!r})"]
    environment = {**os.environ, "TRITON_CACHE_DIR": cache, "PYTHONPATH": os.pathsep.join([str(HERE), *sys.path])}
    return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def call(work: str) -> None:
    """Print the seconds of each first call."""
    function, sizes = WORKS[work]
    torch.zeros(1, device=DEVICE).requires_grad_().sum().backward()  # the GPU itself is ready
    for size in sizes:
        start = time.perf_counter()
        function(size)
        if DEVICE == "cuda":
            torch.cuda.synchronize()
        print(time.perf_counter() - start)
