"""What the losses promise: float64's values and gradients, for scores of any kind and for a fused projection."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

import omegamax
from on_gpu import DEVICE
from on_gpu.contract_rows import DTYPES, largest, worst
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

VALUE, SLOPE = 1e-6, 4e-6  # float32's roundings of a loss, and of a gradient as a part of the largest
LOSSES: dict[str, Callable[..., Tensor]] = {
    "softmax_loss": omegamax.softmax_loss,
    "sparsemax_loss": omegamax.sparsemax_loss,
    "entmax15_loss": omegamax.entmax15_loss,
    "entmax_loss(1.25)": partial(omegamax.entmax_loss, alpha=1.25),
    "entmax_loss(alpha of each row)": lambda z, y, **options: omegamax.entmax_loss(
        z, y, torch.linspace(1.1, 2, len(z), device=z.device)[:, None], **options
    ),
    "normmax_loss": omegamax.normmax_loss,
}
OPTIONS: dict[str, dict] = {
    "mean": {},
    "of each sample": {"reduction": "none"},
    "some ignored": {"ignore_index": 3},
    "smoothed": {"label_smoothing": 0.1},
    "weighted": {"weight": "some"},
}
SIZES = {"normal": (64, 1000), "vocabulary": (8, 50257), "long": (3, 131072), "-inf": (64, 200), "two": (33, 2)}


def jobs(scale: str = "full") -> list[Job]:
    if scale == "tiny":
        return [Job("contract_losses", __name__, "check", ("entmax15_loss", "float32", DEVICE, ("two",)))]
    few = ("normal", "vocabulary")
    found = [Job("contract_losses", __name__, "check", (name, "float32")) for name in LOSSES]
    found += [Job("contract_losses", __name__, "check", (name, "bfloat16", DEVICE, few)) for name in LOSSES]
    found += [Job("contract_losses", __name__, "check", (name, "float16", DEVICE, few[:1])) for name in LOSSES]
    return found + [Job("contract_losses", __name__, "check_linear", (dtype,)) for dtype in DTYPES]


def check(sheet: Sheet, name: str, dtype: str, device: str = DEVICE, sizes: tuple[str, ...] = tuple(SIZES)) -> None:
    for kind in sizes:
        for option, given in OPTIONS.items() if kind == "normal" else [("mean", {})]:
            torch.manual_seed(3)
            z, target = _scores(kind, device, dtype)
            options = dict(given)
            if "weight" in options:
                options["weight"] = torch.rand(z.shape[1], device=device)
            compare(sheet, name, f"{kind}, {option}", dtype, partial(LOSSES[name], **options), [z], target)


def check_linear(sheet: Sheet, dtype: str, device: str = DEVICE, tokens: int = 600, classes: int = 5003) -> None:
    """Against the loss of the whole matrix of scores, the plain way in each precision."""
    torch.manual_seed(4)
    kind = getattr(torch, dtype)
    hidden, weight = torch.randn(tokens, 64, device=device).to(kind), torch.randn(classes, 64, device=device)
    weight, bias = (weight / 4).to(kind), torch.randn(classes, device=device).to(kind)
    target = torch.randint(classes, (tokens,), device=device)
    for alpha in (1.25, 1.5, 2.0):
        for option, given in OPTIONS.items():
            if "weight" in given:  # not among its options
                continue

            def fused(h, w, b, y, alpha=alpha, given=given):
                return omegamax.linear_entmax_loss(h, w, y, alpha, bias=b, **given)

            def plain(h, w, b, y, alpha=alpha, given=given):
                return omegamax.entmax_loss(F.linear(h, w, b), y, alpha, **given)

            name = f"linear_entmax_loss({alpha:g})"
            compare(sheet, name, option, dtype, fused, [hidden, weight, bias], target, plain)


def compare(
    sheet: Sheet,
    name: str,
    way: str,
    dtype: str,
    loss: Callable[..., Tensor],
    inputs: list[Tensor],
    target: Tensor,
    plain: Callable[..., Tensor] | None = None,
) -> None:
    """Value and gradients of ``loss``; ``plain`` is the same loss by other means, computed by plain torch."""
    shape = "x".join(map(str, inputs[0].shape))
    row = {"work": name, "dtype": dtype, "shape": shape, "name": "omegamax"}
    with sheet.kept(way=way, **row):
        with omegamax.backend("reference"):
            exact = _with_gradients(plain or loss, [x.double() for x in inputs], target)
            rough = _with_gradients(plain or loss, inputs, target)
        ours = _with_gradients(loss, inputs, target)
        for part, mine, theirs, truth in zip(("value", *_names(inputs)), ours, rough, exact, strict=True):
            small = torch.finfo(inputs[0].dtype).eps if dtype != "float32" else (VALUE if part == "value" else SLOPE)
            scale = largest(truth) if part != "value" else max(1.0, largest(truth))
            limit = max(small * scale, 2 * worst(theirs, truth))
            sheet.contract(worst(mine, truth), limit, way=f"{way}: {part}", **row)


def _names(inputs: list[Tensor]) -> tuple[str, ...]:
    names = ("hidden", "weight", "bias") if len(inputs) == 3 else ("scores",)
    return tuple(f"gradient to {name}" for name in names)


def _with_gradients(loss: Callable[..., Tensor], inputs: list[Tensor], target: Tensor) -> list[Tensor]:
    leaves = [x.detach().requires_grad_() for x in inputs]
    value = loss(*leaves, target)
    slopes = torch.linspace(0.5, 1.5, value.numel(), device=value.device).reshape(value.shape).to(value.dtype)
    return [value.detach(), *torch.autograd.grad(value, leaves, slopes)]


def _scores(kind: str, device: str, dtype: str) -> tuple[Tensor, Tensor]:
    count, size = SIZES[kind]
    z = 2 * torch.randn(count, size, device=device)
    target = torch.randint(size, (count,), device=device)
    if kind == "-inf":
        z = z.masked_fill(torch.rand_like(z) < 0.3, -math.inf)
        z[torch.arange(count), target] = 1.0
    return z.to(getattr(torch, dtype)), target
