"""One token at a time over a long past: the share of a paged cache that is read, and time over FlashAttention's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

import omegamax
from omegamax.nn import Certificate, PagedCache
from on_gpu import DEVICE
from on_gpu.attention import dense_kernels
from on_gpu.clock import Clock, Run
from on_gpu.sheet import Sheet

BASELINE = ("softmax", "torch")
PAGE = 64
# What neighbours in the text have in common: everything but a small step, a subject, nothing.
KEYS = ("drifting", "clustered", "independent")


@dataclass(frozen=True)
class Case:
    """One query of ``heads`` to ``keys`` keys of ``groups`` heads, made in one of the ways ``KEYS``."""

    heads: int
    groups: int
    keys: int
    dim: int
    made: str
    alphas: tuple[float, ...] = (1.25, 1.5, 2.0)
    dtype: str = "bfloat16"
    device: str = DEVICE
    way: str = "forward"

    @property
    def shape(self) -> str:
        return f"1x{self.heads}/{self.groups}x1:{self.keys}x{self.dim}"

    def inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        torch.manual_seed(0)
        draw = lambda *shape: torch.randn(1, *shape, self.dim, device=self.device)  # noqa: E731
        k = draw(self.groups, self.keys)
        if self.made == "drifting":
            # A walk that forgets: neighbours share most, and far ones have the variance of independent keys.
            blocks = k.unflatten(-2, (-1, PAGE))
            k = (0.3 * blocks + draw(self.groups, self.keys // PAGE).unsqueeze(-2)).flatten(-3, -2)
        elif self.made == "clustered":
            subject = draw(self.groups, max(self.keys // (32 * PAGE), 1))
            k = 0.5 * k + subject.repeat_interleave(-(-self.keys // subject.shape[-2]), -2)[..., : self.keys, :]
        v, q = draw(self.groups, self.keys), 2 * draw(self.heads, 1)
        return tuple(x.to(getattr(torch, self.dtype)) for x in (q, k, v))

    def functions(self, cache: PagedCache) -> dict[tuple[str, str], Callable]:
        found: dict[tuple[str, str], Callable] = {BASELINE: self._dense}
        for alpha in self.alphas:
            transform = omegamax.Tsallis(alpha)
            found[f"entmax({alpha:g})", "omegamax"] = lambda q, k, v, t=transform: omegamax.attention(
                q, transform=t, cache=cache
            )
            found[f"entmax({alpha:g}), all keys", "omegamax"] = lambda q, k, v, t=transform: omegamax.attention(
                q, k, v, t
            )
        return found

    def names(self) -> list[tuple[str, str]]:
        """(map, library), as the keys of ``rivals``."""
        return list(self.functions(PagedCache(PAGE)))

    def rivals(self) -> dict[tuple[str, str], Run]:
        q, k, v = self.inputs()
        cache = PagedCache(PAGE)
        cache.append(k, v)
        return {key: lambda f=f: _without_grad(f, q, k, v) for key, f in self.functions(cache).items()}

    def _dense(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        with dense_kernels(self.device):
            return F.scaled_dot_product_attention(q, k, v, enable_gqa=True)


def cases(scale: str = "full") -> list[Case]:
    """Lengths from 8k to 1M keys, of the three kinds."""
    if scale == "tiny":
        return [Case(2, 1, 256, 8, made, (1.5,), dtype="float32") for made in KEYS]
    lengths = [1 << n for n in ((13, 15, 17, 19, 20) if scale == "full" else (13, 17))]
    return [Case(32, 8, length, 128, made) for made in KEYS for length in lengths]


def measure(sheet: Sheet, scale: str = "full") -> Iterator[str]:
    clock = Clock(DEVICE, {"full": 0.3, "quick": 0.2, "tiny": 0.01}[scale], rounds=(4, 40))
    for case in cases(scale):
        rivals = case.rivals()
        readings = clock.compare(rivals, BASELINE)
        for key, reading in readings.items():
            reading.note = reading.note or _share(rivals[key]())
        for (work, name), reading in readings.items():
            sheet.add(
                work=work,
                shape=case.shape,
                dtype=case.dtype,
                way=f"{case.made} keys",
                name=name,
                **vars(reading),
            )
        del rivals
        yield f"{case.made} {case.shape}: " + ", ".join(
            f"{work} {reading.over:.2f} {reading.note}" for (work, name), reading in readings.items() if name != "torch"
        )


def _share(result: Tensor | tuple[Tensor, Certificate]) -> str:
    """The share of pages that was read, where there is a certificate that says so."""
    if not isinstance(result, tuple):
        return ""
    certificate = result[1]
    proven = "" if bool(certificate.holds.all()) else ", NOT PROVEN"
    return f"{certificate.share.mean().item():.3f}{proven}"


def _without_grad(function: Callable, *inputs: Tensor) -> Tensor:
    with torch.no_grad():
        return function(*inputs)
