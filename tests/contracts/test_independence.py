"""A row's result does not depend on the rows beside it, bit for bit, whatever they hold."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

import omegamax
from contracts.records import RECORDS, SOLVED_BY_ROWS
from contracts.test_precision import at_size, both_dtypes, every_backend, every_case

ROWS = 37  # more than two tiles of any width, and a ragged one


def batches(size: int, dtype: torch.dtype) -> tuple[Tensor, list[Tensor]]:
    """Ordinary rows, and copies of that batch in which most of the others hold something extreme."""
    generator = torch.Generator().manual_seed(size)
    plain = torch.randn(ROWS, size, dtype=torch.float64, generator=generator).to(dtype)
    most, at = torch.finfo(dtype).max, torch.arange(size, dtype=torch.float64)
    extremes = [
        torch.full((size,), math.nan),
        torch.full((size,), math.inf),
        torch.full((size,), -math.inf),
        most * torch.where(at % 3 == 0, -1.0, 1.0),
        torch.where(at % 2 == 0, -1e9, 0.5),
        1e30 * at,
        torch.where(at == 1, math.nan, 0.0),
        torch.zeros(size),
    ]
    others = []
    for step in (2, 3):
        batch = plain.clone()
        for i in range(ROWS):
            if i % step:
                batch[i] = extremes[(i + step) % len(extremes)].to(dtype)
        others.append(batch)
    return plain, others


def both(backend: str, function, z: Tensor, g: Tensor, dim: int) -> tuple[Tensor, Tensor]:
    with omegamax.backend(backend):
        leaf = z.clone().requires_grad_()
        p = function(leaf, dim)
        return p.detach(), torch.autograd.grad(p, leaf, g)[0]


def check(backend: str, function, size: int, dtype: torch.dtype) -> None:
    plain, others = batches(size, dtype)
    g = plain.cos()
    for dim in (1, 0):
        turned = plain if dim else plain.T.contiguous()
        along = g if dim else g.T.contiguous()
        expected = [a if dim else a.T for a in both(backend, function, turned, along, dim)]
        for batch in others:
            kept = (batch == plain).all(1)
            found = both(backend, function, batch if dim else batch.T.contiguous(), along, dim)
            for ours, truth in zip(found, expected, strict=True):
                assert torch.equal((ours if dim else ours.T)[kept], truth[kept])
    expected = both(backend, function, plain, g, 1)
    # Plain torch takes powers in vectors, and in another way at the end of a tensor: there a row's place may be worth a
    # rounding. Compiled kernels have no such excuse.
    close = 0.0 if backend == "cpu" else 32 * torch.finfo(dtype).eps
    for i in (0, 7, 16, ROWS - 1):
        alone = both(backend, function, plain[i], g[i], 0)
        moved = both(backend, function, plain.roll(-i, 0), g.roll(-i, 0), 1)
        for ours, rolled, truth in zip(alone, moved, expected, strict=True):
            assert (ours - truth[i]).abs().max() <= close
            assert (rolled[0] - truth[i]).abs().max() <= close


@every_case
@every_backend
@both_dtypes
@pytest.mark.parametrize("size", [3, 17, 64, 130])
def test_row_does_not_see_its_neighbours(name: str, parameters: dict, backend: str, dtype: torch.dtype, size: int):
    fit = at_size(parameters, size)
    check(backend, lambda z, dim: getattr(omegamax, name)(z, dim=dim, **fit), size, dtype)


@pytest.mark.parametrize("record", [r for r in RECORDS if r not in SOLVED_BY_ROWS], ids=lambda r: r.name)
@both_dtypes
def test_row_of_a_structured_map_does_not_see_its_neighbours(record, dtype: torch.dtype):
    check("auto", lambda z, dim: record(z, dim=dim), 17, dtype)


@pytest.mark.parametrize(
    "name, key, values",
    [
        ("entmax", "alpha", [0.5, 1.0, 1.3, 1.5, 2.0, 3.0, math.inf]),
        ("normmax", "alpha", [1.1, 1.5, 2.0, 4.0, math.inf]),
        ("k_subsets", "k", [0.0, 1.0, 2.5, 3.0]),
    ],
)
@every_backend
@both_dtypes
@pytest.mark.parametrize("size", [5, 130])
def test_row_does_not_see_the_parameters_of_its_neighbours(
    name: str, key: str, values: list[float], backend: str, dtype: torch.dtype, size: int
):
    plain, _ = batches(size, dtype)
    function = getattr(omegamax, name)
    with omegamax.backend(backend):
        for value in values:
            one = torch.full((ROWS, 1), value, dtype=dtype)
            mixed = torch.tensor(values, dtype=dtype).repeat(ROWS)[:ROWS, None]
            kept = (mixed == value).squeeze(1)
            assert torch.equal(function(plain, **{key: one})[kept], function(plain, **{key: mixed})[kept])
