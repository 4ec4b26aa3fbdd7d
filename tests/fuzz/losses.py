"""Draw calls of losses that store no probabilities, of learnt alphas, and of rows that a program does not hold."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module

import pytest
import torch
from torch import Tensor

import omegamax
from omegamax.kernels.choice import choose

from .operations import Operation, Place

F16, BF16, F32, F64 = torch.float16, torch.bfloat16, torch.float32, torch.float64
ALPHAS = (0.5, 1.0, 1.1, 1.25, 4 / 3, 1.5, 1.6, 2.0, 3.0)
SCALES = {"normal": 1.0, "flat": 0.01, "wide": 10.0}
SHORT = 8  # entries of a row that count as long where it is interpreted


@contextmanager
def as_if_long(*packages: str) -> Iterator[None]:
    """Let rows of a few entries go to the kernels of long ones, in blocks of a few entries."""

    def choose_long(operation: str, case, itemsize: int, size: int) -> tuple[str, ...]:
        return choose(operation, case, itemsize, size if size <= SHORT else 10**6)

    with pytest.MonkeyPatch.context() as patch:
        for package in packages:
            patch.setattr(import_module(f"omegamax.kernels.{package}.triton.launcher"), "choose", choose_long)
        losses = import_module("omegamax.kernels.losses.triton.launcher")
        patch.setattr(losses, "LONG_BLOCK", 4)
        patch.setattr(losses, "VJP_BLOCK", 16)
        yield


def draw_loss(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw a loss of scores, or of hidden vectors, for classes or for probabilities."""
    rows, size = rng.choice((1, 2, 5, 20)), rng.choice((1, 2, 7, 13, 45, 200))
    distribution, kind = rng.choice(tuple(SCALES)), rng.choice(("classes", "classes", "probabilities", "linear"))
    z = SCALES[distribution] * torch.randn(rows, size, generator=g, dtype=F64) + rng.choice((0.0, 0.0, 100.0))
    if rng.random() < 0.2 and size > 1:
        z[:, rng.randrange(size)] = -torch.inf
    index = torch.randint(size, (rows,), generator=g)
    index = torch.where(z.gather(1, index[:, None])[:, 0].isfinite(), index, z.argmax(1))
    y = torch.randn(rows, size, generator=g, dtype=F64).softmax(-1)
    if kind == "probabilities":
        z = z.clamp(min=-50.0)
    if rng.random() < 0.3 and kind == "classes":
        index[rng.randrange(rows)] = -100
    # Of infinite scores the mean is, too.
    smoothing = rng.choice((0.0, 0.1)) if bool(z.isfinite().all()) and kind != "probabilities" else 0.0
    alpha, by_row = rng.choice(ALPHAS), rng.random() < 0.3 and kind != "linear"
    alphas = torch.tensor([[rng.choice((1.1, 1.3, 1.5, 1.9))] for _ in range(rows)], dtype=F64)
    dtype = F32 if kind == "linear" or by_row else rng.choice((F32, F32, F16, BF16))
    hidden, weight = (torch.randn(n, 6, generator=g, dtype=F64) for n in (rows, size))
    slope = torch.randn(rows, generator=g, dtype=F64)
    long = rng.random() < 0.3

    def run(place: Place, plain: bool) -> list[Tensor]:
        kept = {"reduction": "none", "label_smoothing": smoothing}
        if kind == "linear":
            h, w = place(hidden).requires_grad_(), place(weight).requires_grad_()
            loss = omegamax.linear_entmax_loss(h, w, place(index), alpha, 3, **kept)
            return [loss, *torch.autograd.grad(loss, (h, w), place(slope))]
        scores, own = place(z).requires_grad_(), place(alphas).requires_grad_(by_row)
        target = place(y) if kind == "probabilities" else place(index)
        loss = omegamax.entmax_loss(scores, target, own if by_row else alpha, **kept)
        wanted = [scores, own] if by_row else [scores]
        return [loss, *torch.autograd.grad(loss, wanted, place(slope).to(loss.dtype))]

    def run_long(place: Place, plain: bool) -> list[Tensor]:
        with nullcontext() if plain or place(slope).is_cuda else as_if_long("losses"):
            return run(place, plain)

    scores = f"{distribution} {tuple(z.shape)}"
    text = f"{kind}, alpha {'by row' if by_row else f'{alpha:.3g}'}, smoothing {smoothing}, {scores}"
    return Operation(seed, "losses", f"{text}{', as if long' * long}", dtype, 0.0, run_long if long else run)


def draw_long_rows(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw maps of rows that no program holds; gradients where no row is an edge case, and slopes are finite."""
    rows, size = rng.choice((1, 2, 5)), rng.choice((9, 17, 64, 100, 257))
    distribution, edge = rng.choice(tuple(SCALES)), rng.choice((None, None, torch.nan, -torch.inf, torch.inf, 1.0))
    z = SCALES[distribution] * torch.randn(rows, size, generator=g, dtype=F64)
    if edge is not None:
        z[rng.randrange(rows)] = edge
    if rng.random() < 0.2:
        z[:, : size // 2] = -torch.inf
    name, dtype = rng.choice(("entmax", "entmax", "normmax", "k_subsets")), rng.choice((F32, F32, F16, BF16))
    alpha = rng.choice(ALPHAS) if name == "entmax" else rng.choice((1.2, 1.5, 2.0, 3.0, 5.0))
    by_row, k = name == "entmax" and rng.random() < 0.4, rng.choice((1.0, 2.0, size / 2, 0.5))
    alphas = torch.tensor([[rng.choice(ALPHAS)] for _ in range(rows)], dtype=F64)
    smooth = dtype is F32 and distribution == "normal" and edge is None and not by_row and alpha <= 2
    slope = torch.randn(rows, size, generator=g, dtype=F64)

    def run(place: Place, plain: bool) -> list[Tensor]:
        scores = place(z).requires_grad_(smooth)
        with nullcontext() if plain or scores.is_cuda else as_if_long("rows", "bounds"):
            if name == "k_subsets":
                p = omegamax.k_subsets(scores, k)
            else:
                p = getattr(omegamax, name)(scores, _widen(place(alphas)) if by_row else alpha)
            return [p, torch.autograd.grad(p, scores, place(slope))[0]] if smooth else [p]

    parameter = f"k {k}" if name == "k_subsets" else "alpha by row" if by_row else f"alpha {alpha:.3g}"
    text = f"{name}, {parameter}, {distribution} {tuple(z.shape)}{'' if edge is None else f', a row of {edge}'}"
    return Operation(seed, "long_rows", text, dtype, 0.0, run)


def _widen(t: Tensor) -> Tensor:
    return t.to(torch.promote_types(t.dtype, F32))


def draw_learnt_alpha(seed: int, rng: random.Random, g: torch.Generator) -> Operation:
    """Draw entmax with an alpha for each row that is learnt, where the support decides little of its gradient."""
    rows, size = rng.choice((1, 3, 17)), rng.choice((1, 2, 9, 33, 130))
    z = torch.randn(rows, size, generator=g, dtype=F64)
    alphas = 1.1 + 0.4 * torch.rand(rows, 1, generator=g, dtype=F64)
    slope = torch.randn(rows, size, generator=g, dtype=F64)

    def run(place: Place, plain: bool) -> list[Tensor]:
        scores, own = place(z).requires_grad_(), place(alphas).requires_grad_()
        p = omegamax.entmax(scores, own)
        return [p, *torch.autograd.grad(p, (scores, own), place(slope))]

    return Operation(seed, "learnt_alpha", f"normal {tuple(z.shape)}", F32, 0.0, run)
