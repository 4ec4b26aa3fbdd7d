"""Attention: time over ``scaled_dot_product_attention`` by FlashAttention, and memory, beside adasplash."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import omegamax
from on_gpu import DEVICE, peers
from on_gpu.clock import Clock, Run, peak_mebibytes
from on_gpu.sheet import Sheet

BASELINE = ("softmax", "torch")
PEER = (8192, 64)  # keys and head size at which adasplash is measured; it compiles sixty kernels for each
# (is_causal, alpha, way) -> the most it should take, as a multiple of the baseline, at 8192 keys and heads of 64.
BARS = {
    (True, 1.5, "forward"): 1.5,
    (True, 1.5, "forward+backward"): 0.7,
    (False, 1.5, "forward"): 1.7,
    (False, 1.5, "forward+backward"): 0.8,
    (False, 2.0, "forward"): 1.7,
    (False, 2.0, "forward+backward"): 0.8,
}


@dataclass(frozen=True)
class Case:
    """Queries ``[batch, heads, queries, dim]`` and keys ``[batch, groups, keys, dim]``, one way, several alphas."""

    batch: int
    heads: int
    groups: int
    queries: int
    keys: int
    dim: int
    is_causal: bool
    way: str
    alphas: tuple[float, ...] = (1.5,)
    window: int | None = None
    per_head: bool = False
    dtype: str = "bfloat16"
    device: str = DEVICE

    @property
    def shape(self) -> str:
        heads = str(self.heads) if self.heads == self.groups else f"{self.heads}/{self.groups}"
        length = str(self.keys) if self.queries == self.keys else f"{self.queries}:{self.keys}"
        return f"{self.batch}x{heads}x{length}x{self.dim}"

    @property
    def setting(self) -> str:
        """What the mask is, in words."""
        if self.queries == 1:
            return "decoding"
        return ("causal" if self.is_causal else "full") + (f", window {self.window}" if self.window else "")

    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        torch.manual_seed(0)
        dtype = getattr(torch, self.dtype)
        query, key = (self.heads, self.queries), (self.groups, self.keys)
        sizes = ((self.batch, *size, self.dim) for size in (query, key, key, query))
        q, k, v, g = (torch.randn(size, device=self.device).to(dtype) for size in sizes)
        return q, k, v, g

    def names(self) -> list[tuple[str, str]]:
        """(map, library), as the keys of ``rivals``."""
        return list(self.functions())

    def functions(self) -> dict[tuple[str, str], Callable]:
        found: dict[tuple[str, str], Callable | None] = {BASELINE: self._dense}
        for alpha in self.alphas:
            work = f"entmax({alpha:g})"
            found[work, "omegamax"] = self._sparse(alpha)
            if (self.keys, self.dim) == PEER and len(self.alphas) > 1:
                found[work, "adasplash"] = peers.attention(alpha, self.is_causal)
        if self.per_head:
            alphas = torch.linspace(1.2, 1.9, self.heads)
            learnt = omegamax.nn.Entmax(alphas, learnable=True, per=self.heads).to(self.device)
            found["entmax(alpha of each head)", "omegamax"] = self._sparse(learnt)
        return {key: function for key, function in found.items() if function is not None}

    def tuned(self, part: int) -> list[str]:
        """What adasplash chooses settings for; the rest has one, and is left to one process."""
        works = [work for work, name in self.names() if name == "adasplash" and self.way == "forward+backward"]
        return [work for work in works if part == 0 or (self.is_causal and work == "entmax(1.5)")]

    def rivals(self) -> dict[tuple[str, str], Run]:
        q, k, v, g = self.inputs()
        if self.way == "forward":
            return {key: lambda f=f: _without_grad(f, q, k, v) for key, f in self.functions().items()}
        leaves = [x.requires_grad_() for x in (q, k, v)]
        return {key: lambda f=f: torch.autograd.grad(f(*leaves), leaves, g) for key, f in self.functions().items()}

    def bar(self, work: str) -> float | str:
        alpha = next((a for a in self.alphas if work == f"entmax({a:g})"), None)
        standard = (self.keys, self.queries, self.dim, self.heads, self.window) == (8192, 8192, 64, self.groups, None)
        return BARS.get((self.is_causal, alpha, self.way), "") if standard else ""

    def _dense(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        backends = [SDPBackend.FLASH_ATTENTION] if self.device == "cuda" else [SDPBackend.MATH]
        causal = self.is_causal and self.queries > 1
        with sdpa_kernel(backends):
            return F.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=self.heads != self.groups)

    def _sparse(self, alpha: float | torch.nn.Module) -> Callable:
        named = {1.5: "entmax15", 2.0: "sparsemax"}
        transform = alpha if isinstance(alpha, torch.nn.Module) else named.get(alpha) or omegamax.Tsallis(alpha)
        options = {} if self.window is None else {"window": self.window}
        causal = self.is_causal and self.queries > 1
        return lambda q, k, v: omegamax.attention(q, k, v, transform, is_causal=causal, **options)


def cases(scale: str = "full") -> list[Case]:
    """The settings of the tables: alphas, masks, lengths, head sizes, grouped heads, one token at a time."""
    every = (1.25, 1.5, 2.0)
    if scale == "tiny":
        tiny = (1, 2, 2, 8, 8, 4, True)
        return [Case(*tiny, way, every, per_head=True, dtype="float32") for way in ("forward", "forward+backward")]
    found = []
    for way in ("forward", "forward+backward"):
        for causal in (True, False):
            found.append(Case(2, 16, 16, 8192, 8192, 64, causal, way, every, per_head=causal))
        if scale == "quick":
            continue
        found += [
            Case(2, 16, 16, 8192, 8192, 128, True, way),
            Case(8, 16, 16, 2048, 2048, 64, True, way),
            Case(1, 16, 16, 32768, 32768, 64, True, way),
            Case(2, 16, 4, 8192, 8192, 128, True, way),
            Case(2, 16, 16, 8192, 8192, 64, True, way, window=1024),
        ]
    found.append(Case(8, 32, 8, 1, 8192, 128, True, "forward", every))
    return found


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    clock = Clock(DEVICE, {"full": 0.5, "quick": 0.3, "tiny": 0.01}[scale], rounds=(4, 40))
    peers.tune_quickly()
    for case in cases(scale):
        rivals = case.rivals()
        readings = clock.compare(rivals, BASELINE)
        for (work, name), reading in readings.items():
            aim = case.bar(work) if name == "omegamax" else ""
            sheet.add(
                work=work,
                shape=case.shape,
                dtype=case.dtype,
                way=f"{case.setting}, {case.way}",
                name=name,
                **vars(reading),
                bar=aim,
                ok=reading.over <= aim if isinstance(aim, float) else "",
                peak_mib=_peak(rivals[work, name]) if reading.ms == reading.ms else "",
            )
        del rivals
        yield f"{case.setting} {case.shape} {case.way}: " + ", ".join(
            f"{name} {work} {reading.over:.2f}" for (work, name), reading in readings.items() if name != "torch"
        )


def _without_grad(function: Callable, *inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return function(*inputs)


def _peak(run: Run) -> float | str:
    try:
        return peak_mebibytes(run)
    except Exception:
        return ""
