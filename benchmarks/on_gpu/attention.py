"""Attention: time over ``scaled_dot_product_attention`` by FlashAttention, and memory.

Beside it adasplash, and torch's other softmax attention: by cuDNN, and by FlexAttention, compiled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

import omegamax
from on_gpu import DEVICE, peers
from on_gpu.clock import Clock, Run, peak_mebibytes
from on_gpu.sheet import Sheet

BASELINE = ("softmax", "torch")
# How queries are drawn, and so how much the scores of a row differ: by 1 as keys do, less, more, or by a factor that
# differs from query to query and has no variance.
SCORES = ("normal", "flat", "peaked", "heavy-tailed")
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
    dropout: float = 0.0
    scores: str = "normal"
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
        more = [f"window {self.window}"] if self.window else []
        more += [f"dropout {self.dropout:g}"] if self.dropout else []
        more += [f"{self.scores} scores"] if self.scores != "normal" else []
        return ", ".join(["causal" if self.is_causal else "full", *more])

    def inputs(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        torch.manual_seed(0)
        dtype = getattr(torch, self.dtype)
        query, key = (self.heads, self.queries), (self.groups, self.keys)
        sizes = ((self.batch, *size, self.dim) for size in (query, key, key, query))
        q, k, v, g = (torch.randn(size, device=self.device) for size in sizes)
        spread = {"flat": 0.1, "peaked": 5.0}.get(self.scores, 1.0)
        if self.scores == "heavy-tailed":  # Student's t with two degrees of freedom
            q /= torch.empty(*q.shape[:-1], 1, device=self.device).exponential_().sqrt()
        return (spread * q).to(dtype), k.to(dtype), v.to(dtype), g.to(dtype)

    def names(self) -> list[tuple[str, str]]:
        """(map, library), as the keys of ``rivals``."""
        return list(self.functions())

    def functions(self) -> dict[tuple[str, str], Callable]:
        found: dict[tuple[str, str], Callable | None] = {BASELINE: self._dense}
        if self._is_standard:
            found["softmax (cuDNN)", "torch"] = self._cudnn
            found["softmax (FlexAttention)", "torch"] = self._flex
            found["softmax", "omegamax"] = self._sparse("softmax")
        for alpha in self.alphas:
            work = f"entmax({alpha:g})"
            found[work, "omegamax"] = self._sparse(alpha)
            if (self.keys, self.dim) == PEER and self._is_standard:
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
        return BARS.get((self.is_causal, alpha, self.way), "") if self._is_standard else ""

    @property
    def _is_standard(self) -> bool:
        """Whether it is of the size and kind at which rivals are measured and aims are set."""
        plain = (self.window, self.dropout, self.scores) == (None, 0.0, "normal")
        return plain and (self.keys, self.queries, self.dim, self.heads) == (8192, 8192, 64, self.groups)

    def _dense(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        causal = self.is_causal and self.queries > 1
        options = {"is_causal": causal, "enable_gqa": self.heads != self.groups, "dropout_p": self.dropout}
        with dense_kernels(self.device):
            return F.scaled_dot_product_attention(q, k, v, **options)

    def _cudnn(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            return F.scaled_dot_product_attention(q, k, v, is_causal=self.is_causal)

    def _flex(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        blocks = causal_blocks(self.queries, self.device) if self.is_causal else None
        return flex()(q, k, v, block_mask=blocks)

    def _sparse(self, alpha: float | str | torch.nn.Module) -> Callable:
        named = {1.5: "entmax15", 2.0: "sparsemax"}
        transform = omegamax.Tsallis(alpha) if isinstance(alpha, float) and alpha not in named else alpha
        transform = named.get(transform, transform) if isinstance(transform, float) else transform
        options: dict = {"dropout": self.dropout} | ({} if self.window is None else {"window": self.window})
        causal = self.is_causal and self.queries > 1
        return lambda q, k, v: omegamax.attention(q, k, v, transform, is_causal=causal, **options)


def dense_kernels(device: str) -> AbstractContextManager:
    """Torch's attention by FlashAttention; by its definition where there is no GPU."""
    return sdpa_kernel([SDPBackend.FLASH_ATTENTION if device == "cuda" else SDPBackend.MATH])


@cache
def flex() -> Callable:
    """FlexAttention, compiled once."""
    from torch.nn.attention.flex_attention import flex_attention

    return torch.compile(flex_attention, dynamic=False)


@cache
def causal_blocks(length: int, device: str) -> object:
    """Its causal mask, made once."""
    from torch.nn.attention.flex_attention import create_block_mask

    return create_block_mask(lambda b, h, query, key: query >= key, None, None, length, length, device)


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
            Case(2, 16, 16, 8192, 8192, 64, True, way, dropout=0.1),
            *(Case(2, 16, 16, 8192, 8192, 64, True, way, every, scores=scores) for scores in SCORES[1:]),
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
