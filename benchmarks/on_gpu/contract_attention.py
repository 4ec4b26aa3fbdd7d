"""What attention promises: output and gradients within twice the error of plain attention in the same precision.

Plain attention is written out here, with the whole matrix of scores, and is exact in float64.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

import omegamax
from on_gpu import DEVICE
from on_gpu.clock import peak_mebibytes
from on_gpu.contract_rows import largest, worst
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

ALPHAS = (1.1, 1.25, 1.5, 2.0)
STEADY = 1e-5  # queries with a score so close to the threshold get no gradient: rounding would decide about it
FLOOR = 2e-6  # float32's roundings, as a part of the largest number


@dataclass(frozen=True)
class Setting:
    """Sizes, what the queries are multiplied by, and the options of the call."""

    heads: int = 4
    groups: int = 4
    queries: int = 300
    keys: int = 300
    dim: int = 64
    width: int | None = None  # of the values
    spread: float = 1.0
    alphas: tuple[float | str, ...] = (1.5,)
    options: dict[str, Any] = field(default_factory=dict)


SETTINGS = {
    "full": Setting(alphas=(*ALPHAS, "heads")),
    "causal": Setting(alphas=(*ALPHAS, "heads"), options={"is_causal": True}),
    "window": Setting(options={"is_causal": True, "window": 50}),
    "window to both sides": Setting(options={"window": (40, 10)}),
    "lengths": Setting(options={"lengths": "some"}),
    "key padding": Setting(options={"mask": "lengths"}),
    "mask": Setting(options={"mask": "bool"}),
    "bias": Setting(options={"mask": "float"}),
    "causal with bias": Setting(options={"mask": "float", "is_causal": True}),
    "alibi": Setting(options={"alibi": "slopes", "is_causal": True}),
    "grouped heads": Setting(heads=8, groups=2, alphas=(1.5, "heads"), options={"is_causal": True}),
    "other lengths": Setting(queries=100, keys=333),
    "one key": Setting(queries=5, keys=1),
    "decoding": Setting(heads=8, groups=2, queries=1, keys=1500, dim=128),
    "several new tokens": Setting(queries=3, keys=500, options={"is_causal": True, "offset": 497}),
    "heads of 32": Setting(dim=32),
    "heads of 80": Setting(dim=80, options={"is_causal": True}),
    "heads of 128": Setting(dim=128, options={"is_causal": True}),
    "heads of 256": Setting(dim=256, queries=150, keys=150, options={"is_causal": True}),
    "values of 48": Setting(width=48),
    "nearly flat": Setting(spread=0.02, alphas=(1.25, 1.5, 2.0)),
    "sharp": Setting(spread=8.0, alphas=(1.25, 1.5, 2.0)),
    "long": Setting(heads=2, groups=2, queries=3300, keys=3300, alphas=(1.25, 1.5, 2.0), options={"is_causal": True}),
}


# Not every setting: these kernels take long to compile.
FLOAT32 = ("causal", "mask", "alibi", "grouped heads", "decoding", "nearly flat")


def jobs(scale: str = "full") -> list[Job]:
    if scale == "tiny":
        return [Job("contract_attention", __name__, "check", ("one key", "float32"))]
    pairs = [(setting, "bfloat16") for setting in SETTINGS] + [(setting, "float32") for setting in FLOAT32]
    found = [Job("contract_attention", __name__, "check", pair) for pair in [*pairs, ("causal", "float16")]]
    others = ("check_repeatable", "check_support", "check_memory", "check_sinks")
    return found + [Job("contract_attention", __name__, function) for function in others]


def check(sheet: Sheet, name: str, dtype: str, device: str = DEVICE) -> None:
    setting = SETTINGS[name]
    for alpha in setting.alphas:
        row = {"work": f"attention, {name}", "dtype": dtype, "name": "omegamax", "shape": _shape(setting)}
        row["way"] = "alpha of each head" if alpha == "heads" else f"alpha {alpha:g}"
        with sheet.kept(**row):
            _compare(sheet, setting, alpha, getattr(torch, dtype), device, row)


def _compare(sheet: Sheet, s: Setting, alpha: float | str, dtype: torch.dtype, device: str, row: dict) -> None:
    torch.manual_seed(5)
    leaves = [torch.randn(2, n, length, d, device=device) for n, length, d in _sizes(s)]
    leaves[0] *= s.spread
    leaves = [x.to(dtype) for x in leaves]
    if alpha == "heads":
        leaves.append(torch.linspace(1.15, 1.95, s.heads, device=device).reshape(-1, 1, 1))
    options = _options(s, device)
    number = alpha if isinstance(alpha, float) else None
    g = torch.randn(2, s.heads, s.queries, leaves[2].shape[-1], device=device)
    with omegamax.backend("reference"):
        wide = [x.double() for x in leaves]
        g = (g * _steady(*wide[:2], wide[3] if number is None else number, **options)).to(dtype)
        exact = _with_gradients(plain(number, options), wide, g)
        rough = _with_gradients(plain(number, options), leaves, g)
    found = _with_gradients(ours(number, options), leaves, g)
    for part, mine, theirs, truth in zip(("output", "dq", "dk", "dv", "dalpha"), found, rough, exact, strict=False):
        small = FLOOR if dtype is torch.float32 else torch.finfo(dtype).eps / 2
        limit = max(small * largest(truth), 2 * worst(theirs, truth))
        sheet.contract(worst(mine, truth), limit, **{**row, "way": f"{row['way']}: {part}"})


def ours(alpha: float | None, options: dict) -> Callable[..., Tensor]:
    def call(q, k, v, alphas=None):
        return omegamax.attention(q, k, v, omegamax.Tsallis(alphas if alpha is None else alpha), **options)

    return call


def plain(alpha: float | None, options: dict) -> Callable[..., Tensor]:
    """Plain attention in the precision of its input."""

    def call(q, k, v, alphas=None):
        a = alphas if alpha is None else alpha
        values = v.repeat_interleave(q.shape[1] // v.shape[1], 1)
        return omegamax.entmax(scores(q, k, **options), a) @ values

    return call


def scores(q: Tensor, k: Tensor, is_causal=False, window=None, mask=None, alibi=None, lengths=None, offset=0) -> Tensor:
    """``[B, H, L, S]``, -inf where a query may not look."""
    k = k.repeat_interleave(q.shape[1] // k.shape[1], 1)
    z = (q / math.sqrt(q.shape[-1])) @ k.mT
    ahead = torch.arange(k.shape[2], device=q.device) - torch.arange(q.shape[2], device=q.device)[:, None] - offset
    if alibi is not None:
        z = z - (alibi[:, None, None] * ahead.abs()).to(z.dtype)
    if mask is not None:
        z = z.masked_fill(~mask, -math.inf) if mask.dtype == torch.bool else z + mask.to(z.dtype)
    seen = torch.ones_like(ahead, dtype=torch.bool)
    if is_causal:
        seen &= ahead <= 0
    if window is not None:
        before, after = window if isinstance(window, tuple) else (window, window)
        seen &= (ahead >= -before) & (ahead <= after)
    if lengths is not None:
        seen = seen & (torch.arange(k.shape[2], device=q.device) < lengths[:, None, None, None])
    return z.masked_fill(~seen, -math.inf)


def _steady(q: Tensor, k: Tensor, alpha: float | Tensor, **options) -> Tensor:
    """1 for queries none of whose scores is about to enter or leave the support, ``[B, H, L, 1]``."""
    z = scores(q, k, **options) * (alpha - 1)
    p = omegamax.entmax(z / (alpha - 1), alpha)
    top = z.amax(-1, keepdim=True)
    threshold = top - p.amax(-1, keepdim=True) ** (alpha - 1)
    return ((z - threshold).abs().amin(-1, keepdim=True) > STEADY).to(q.dtype)


def check_sinks(sheet: Sheet, device: str = DEVICE, queries: int = 300) -> None:
    """A sink for each head: outputs by the largest error, gradients by all, for some scores are at an edge."""
    for dtype in (torch.bfloat16, torch.float32):
        row = {"work": "attention, sinks", "dtype": str(dtype)[6:], "name": "omegamax", "shape": f"2x4x{queries}x64"}
        with sheet.kept(way="alpha 1.5", **row):
            torch.manual_seed(6)
            leaves = [torch.randn(2, 4, queries, 64, device=device).to(dtype) for _ in range(3)]
            leaves.append(torch.linspace(-1, 2, 4, device=device))
            g = torch.randn(2, 4, queries, 64, device=device).to(dtype)

            def call(q, k, v, sinks):
                return omegamax.attention(q, k, v, "entmax15", is_causal=True, sinks=sinks)

            with omegamax.backend("reference"):
                exact = _with_gradients(call, [x.double() for x in leaves], g)
                rough = _with_gradients(call, leaves, g)
            found = _with_gradients(call, leaves, g)
            small = FLOOR if dtype is torch.float32 else torch.finfo(dtype).eps / 2
            limit = max(small * largest(exact[0]), 2 * worst(rough[0], exact[0]))
            sheet.contract(worst(found[0], exact[0]), limit, way="alpha 1.5: output", **row)
            for part, mine, theirs, truth in zip(
                ("dq", "dk", "dv", "dsinks"), found[1:], rough[1:], exact[1:], strict=True
            ):
                errors = [float((x.double() - truth).norm() / truth.norm()) for x in (mine, theirs)]
                sheet.contract(errors[0], max(1e-4, 2 * errors[1]), way=f"alpha 1.5: {part}", **row)


def check_repeatable(sheet: Sheet, device: str = DEVICE) -> None:
    """Asked to be deterministic, attention gives the same bits twice."""
    row = {"work": "attention, deterministic", "dtype": "bfloat16", "name": "omegamax", "way": "output and gradients"}
    with sheet.kept(**row):
        torch.manual_seed(6)
        leaves = [torch.randn(2, n, 1000, 64, device=device).bfloat16() for n in (8, 2, 2)]
        call = ours(1.5, {"is_causal": True, "deterministic": True})
        first, second = (_with_gradients(call, leaves, torch.ones_like(leaves[0])) for _ in range(2))
        sheet.contract(max(worst(a, b) for a, b in zip(first, second, strict=True)), 0.0, shape="2x8/2x1000x64", **row)


def check_support(sheet: Sheet, device: str = DEVICE) -> None:
    """Shares of pairs and of blocks without weight, counted on the whole matrix in float64."""
    row = {"work": "attention, support", "dtype": "float32", "name": "omegamax", "shape": "2x4x300:300x64"}
    with sheet.kept(way="shares", **row):
        torch.manual_seed(6)
        q, k, v = (torch.randn(2, 4, 300, 64, device=device) for _ in range(3))
        z = scores(q.double(), k.double(), is_causal=True)
        with omegamax.backend("reference"):
            bare = (omegamax.entmax(z, 1.5) == 0) & (z > -math.inf)
        zeros = bare.sum((-2, -1)) / (z > -math.inf).sum((-2, -1))
        _, support = omegamax.attention(q, k, v, "entmax15", is_causal=True, return_support=True)
        # Rounding may decide about a pair or two of 45150.
        sheet.contract(worst(support.entries, zeros), 1e-4, way="share of pairs", **row)


def check_memory(sheet: Sheet, lengths: tuple[int, int] = (8192, 16384)) -> None:
    """Twice as long a text takes twice the memory, not four times."""
    row = {"work": "attention, memory", "dtype": "bfloat16", "name": "omegamax", "shape": "1x8x16384x64"}
    with sheet.kept(way="forward+backward, over that of half the length", **row):
        peaks = []
        for length in lengths:
            leaves = [torch.randn(1, 8, length, 64, device="cuda").bfloat16().requires_grad_() for _ in range(3)]
            call = ours(1.5, {"is_causal": True})
            run = lambda leaves=leaves, call=call: torch.autograd.grad(call(*leaves).sum(), leaves)  # noqa: E731
            peaks.append(peak_mebibytes(run))
        sheet.contract(peaks[1] / peaks[0], 2.5, way="forward+backward, over that of half the length",
                       peak_mib=peaks[1], **row)  # fmt: skip


def _with_gradients(call: Callable[..., Tensor], inputs: list[Tensor], g: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    out = call(*leaves)
    return [out.detach(), *torch.autograd.grad(out, leaves, g.to(out.dtype))]


def _sizes(s: Setting) -> list[tuple[int, int, int]]:
    return [(s.heads, s.queries, s.dim), (s.groups, s.keys, s.dim), (s.groups, s.keys, s.width or s.dim)]


def _shape(s: Setting) -> str:
    return f"2x{s.heads}/{s.groups}x{s.queries}:{s.keys}x{s.dim}"


def _options(s: Setting, device: str) -> dict[str, Any]:
    """The options with their tensors."""
    made = dict(s.options)
    lengths = torch.tensor([s.keys, s.keys // 3], device=device)
    if "lengths" in made:
        made["lengths"] = lengths
    if made.get("mask") == "lengths":
        made["mask"] = torch.arange(s.keys, device=device) < lengths.reshape(2, 1, 1, 1)
    elif made.get("mask") == "bool":
        made["mask"] = torch.rand(2, 1, s.queries, s.keys, device=device) < 0.4
        made["mask"][:, :, 7] = False  # sees nothing
    elif made.get("mask") == "float":
        made["mask"] = torch.randn(s.heads, s.queries, s.keys, device=device)
    if "alibi" in made:
        made["alibi"] = 2.0 ** -torch.arange(1, s.heads + 1, device=device).float()
    return made
