"""Losses over a vocabulary of 128k: time and peak memory, forward and backward, beside cross-entropy and the peer."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import omegamax
from on_gpu import DEVICE, peers
from on_gpu.clock import Clock, Run, peak_mebibytes
from on_gpu.sheet import Sheet

TOKENS, VOCABULARY, WIDTH = 8192, 131072, 2048
TIME, MEMORY = 1.1, 0.1  # the most that the fused projection should take, as multiples of the plain way
ALPHAS = {"entmax15": 1.5, "sparsemax": 2.0, "entmax(4/3)": 4 / 3}


@dataclass(frozen=True)
class Case:
    """The loss of given scores (``width`` 0), or of a projection onto the vocabulary."""

    tokens: int
    vocabulary: int
    width: int
    dtype: str
    device: str = DEVICE
    way: str = "forward+backward"

    @property
    def shape(self) -> str:
        return "x".join(str(size) for size in (self.tokens, self.width, self.vocabulary) if size)

    @property
    def baseline(self) -> tuple[str, str]:
        return ("cross_entropy", "torch")

    def names(self) -> list[tuple[str, str]]:
        return list(self.functions())

    def functions(self) -> dict[tuple[str, str], Callable]:
        """(loss, library) -> function of (scores, target), or of (hidden, weight, target)."""
        if not self.width:
            found: dict[tuple[str, str], Callable] = {self.baseline: F.cross_entropy}
            for work, alpha in ALPHAS.items():
                found[work, "omegamax"] = lambda z, y, a=alpha: omegamax.entmax_loss(z, y, a)
            return found | _theirs()
        found = {self.baseline: lambda h, w, y: F.cross_entropy(h @ w.T, y)}
        for work, alpha in ALPHAS.items():
            found[work, "omegamax"] = lambda h, w, y, a=alpha: omegamax.linear_entmax_loss(h, w, y, a)
        plain = {key: f for key, f in _theirs().items() if key[0] == "entmax15"}
        found |= {key: lambda h, w, y, f=f: f(h @ w.T, y) for key, f in plain.items()}
        for work, alpha in ALPHAS.items():
            # The same loss with the whole matrix of scores: what the fused projection is measured by.
            found[work, "omegamax, all scores"] = lambda h, w, y, a=alpha: omegamax.entmax_loss(h @ w.T, y, a)
        return found

    def inputs(self) -> tuple[list[Tensor], Tensor]:
        torch.manual_seed(0)
        target = torch.randint(self.vocabulary, (self.tokens,), device=self.device)
        scores = [(self.tokens, self.vocabulary)]
        sizes = [(self.tokens, self.width), (self.vocabulary, self.width)] if self.width else scores
        leaves = [torch.randn(size, device=self.device) for size in sizes]
        if self.width:
            leaves[1] *= 2 / self.width**0.5  # scores with a standard deviation of 2
        return [leaf.to(getattr(torch, self.dtype)).requires_grad_() for leaf in leaves], target

    def rivals(self) -> dict[tuple[str, str], Run]:
        leaves, target = self.inputs()
        return {key: lambda f=f: torch.autograd.grad(f(*leaves, target), leaves) for key, f in self.functions().items()}


def cases(scale: str = "full") -> list[Case]:
    if scale == "tiny":
        return [Case(8, 20, width, "float32") for width in (0, 4)]
    found = [Case(TOKENS // 2, VOCABULARY, 0, dtype) for dtype in ("float32", "bfloat16")]
    return [*found[1 if scale == "quick" else 0 :], Case(2 * TOKENS, VOCABULARY, WIDTH, "bfloat16")]


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    clock = Clock(DEVICE, {"full": 1.0, "quick": 0.4, "tiny": 0.01}[scale], rounds=(3, 30))
    for case in cases(scale):
        rivals = case.rivals()
        readings = clock.compare(rivals, case.baseline)
        peaks = {key: peak_mebibytes(run) for key, run in rivals.items() if readings[key].ms == readings[key].ms}
        for (work, name), reading in readings.items():
            bars = _bars(case, work, name, readings, peaks)
            sheet.add(
                work=work,
                shape=case.shape,
                dtype=case.dtype,
                way=case.way,
                name=name,
                **{**vars(reading), "note": reading.note or bars.get("note", "")},
                peak_mib=peaks.get((work, name), ""),
                bar=bars.get("bar", ""),
                ok=bars.get("ok", ""),
            )
        del rivals
        yield f"{case.shape} {case.dtype}: " + ", ".join(
            f"{name} {work} {r.over:.2f} ({peaks.get((work, name), 0):.0f} MiB)" for (work, name), r in readings.items()
        )


def _bars(case: Case, work: str, name: str, readings: dict, peaks: dict) -> dict:
    """The fused projection against the same loss of the whole matrix of scores."""
    plain = (work, "omegamax, all scores")
    if name != "omegamax" or plain not in peaks or (work, name) not in peaks:
        return {}
    time = readings[work, name].ms / readings[plain].ms
    memory = peaks[work, name] / peaks[plain]
    note = f"{time:.2f} of the time and {memory:.3f} of the memory of all scores at once"
    return {"bar": TIME, "ok": time <= TIME and memory <= MEMORY, "note": note}


def _theirs() -> dict[tuple[str, str], Callable]:
    entmax = peers.peer("entmax")
    if entmax is None:
        return {}
    return {
        ("entmax15", "entmax"): lambda z, y: entmax.entmax15_loss(z, y).mean(),
        ("sparsemax", "entmax"): lambda z, y: entmax.sparsemax_loss(z, y).mean(),
        ("entmax(4/3)", "entmax"): lambda z, y: entmax.entmax_bisect_loss(z, y, 4 / 3).mean(),
    }
