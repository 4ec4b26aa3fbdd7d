"""Total variation against a solver in rational numbers: values, groups and derivatives, above all where groups touch.

Halves, thirds and tenths of small integers put ties everywhere, and rounding decides none of them here.
"""

from __future__ import annotations

import math
import random
from collections import deque
from fractions import Fraction

import pytest
import torch
from torch import Tensor

from omegamax import backend, kernels, tv_prox_1d, tv_prox_2d, tv_prox_graph

F64 = torch.float64
both_backends = pytest.mark.parametrize("kind", ["auto", "reference"])
Edges = list[tuple[int, int]]


def cut(supply: dict[int, Fraction], arcs: dict[tuple[int, int], Fraction]) -> set[int]:
    """The nodes whose supply, pushed along arcs as far as these can carry it, reaches no node in want of any."""
    room = dict(arcs)
    near: dict[int, list[int]] = {i: [] for i in supply}
    for i, j in arcs:
        near[i].append(j)
    left = dict(supply)
    while True:
        come: dict[int, int | None] = {i: None for i, s in left.items() if s > 0}
        queue, end = deque(come), None
        while queue and end is None:
            i = queue.popleft()
            for j in near[i]:
                if j not in come and room[i, j] > 0:
                    come[j] = i
                    queue.append(j)
                    if left[j] < 0:
                        end = j
                        break
        if end is None:
            return set(come)
        path = [end]
        while (i := come[path[-1]]) is not None:
            path.append(i)
        steps = list(zip(path[1:], path, strict=False))
        amount = min([left[path[-1]], -left[end], *(room[step] for step in steps)])
        left[path[-1]] -= amount
        left[end] += amount
        for i, j in steps:
            room[i, j] -= amount
            room[j, i] += amount


def solve(x: list[Fraction], edges: Edges, limits: list[Fraction]) -> list[Fraction]:
    """argmin 1/2 |w - x|^2 + sum_e limit_e |w_i - w_j|: a region is level unless its supply finds no way to flatten."""
    x, w = list(x), [Fraction(0)] * len(x)
    regions = [set(range(len(x)))]
    while regions:
        region = regions.pop()
        mean = sum(x[i] for i in region) / len(region)
        arcs: dict[tuple[int, int], Fraction] = {}
        for (i, j), limit in zip(edges, limits, strict=True):
            if i in region and j in region:
                for arc in ((i, j), (j, i)):
                    arcs[arc] = arcs.get(arc, Fraction(0)) + limit
        above = cut({i: x[i] - mean for i in region}, arcs)
        if not above:
            for i in region:
                w[i] = mean
            continue
        for (i, j), limit in zip(edges, limits, strict=True):
            if i in region and j in region and (i in above) != (j in above):
                x[i] += -limit if i in above else limit
                x[j] += -limit if j in above else limit
        regions += [above, region - above]
    return w


def groups(w: list, edges: Edges, weights: list) -> list[int]:
    """The least member of the group of each node."""
    label = list(range(len(w)))
    for _ in w:
        for (i, j), a in zip(edges, weights, strict=True):
            if a > 0 and w[i] == w[j]:
                label[i] = label[j] = min(label[i], label[j])
    return label


def case(seed: int) -> tuple[str, tuple[int, ...], Edges, list[Fraction]]:
    draw = random.Random(seed)
    kind = ("chain", "grid", "graph")[seed % 3]
    if kind == "chain":
        size = draw.randint(1, 12)
        return kind, (size,), [(i, i + 1) for i in range(size - 1)], [Fraction(1)] * (size - 1)
    if kind == "grid":
        h, w = draw.randint(1, 4), draw.randint(1, 4)
        cells = [(i, j) for i in range(h) for j in range(w)]
        down = [(i * w + j, i * w + j + w) for i, j in cells if i + 1 < h]
        right = [(i * w + j, i * w + j + 1) for i, j in cells if j + 1 < w]
        return kind, (h, w), down + right, [Fraction(1)] * (len(down) + len(right))
    size = draw.randint(2, 8)
    edges = [tuple(draw.sample(range(size), 2)) for _ in range(draw.randint(0, 2 * size))]
    return kind, (size,), edges, [Fraction(draw.randint(0, 4), 2) for _ in edges]


def apply(kind: str, x: Tensor, edges: Edges, weights: Tensor, strength: float | Tensor) -> Tensor:
    if kind == "graph":
        return tv_prox_graph(x, torch.tensor(edges, dtype=torch.long).reshape(-1, 2).T, strength, weights=weights)
    return tv_prox_1d(x, strength) if kind == "chain" else tv_prox_2d(x, strength)


@both_backends
@pytest.mark.parametrize("unit", [Fraction(1), Fraction(1, 10), Fraction(1, 3), Fraction(7, 1000)], ids=str)
def test_ties_are_decided_as_in_exact_arithmetic(kind: str, unit: Fraction):
    for seed in range(60):
        draw = random.Random(1000 + seed)
        which, shape, edges, weights = case(seed)
        strength = unit * draw.choice([Fraction(1, 4), Fraction(1, 2), Fraction(1), Fraction(3, 2), Fraction(3)])
        x = [unit * draw.choice((range(-4, 5), range(2))[seed % 2]) for _ in range(math.prod(shape))]
        exact = solve(x, edges, [strength * a for a in weights])
        leaf = torch.tensor([float(v) for v in x], dtype=F64).reshape(shape).requires_grad_()
        a = torch.tensor([float(v) for v in weights], dtype=F64)
        s = torch.tensor(float(strength), dtype=F64, requires_grad=True)
        g = [Fraction(draw.randint(-8, 8)) for _ in x]
        with backend(kind):
            w = apply(which, leaf, edges, a, s)
            dx, ds = torch.autograd.grad(w, (leaf, s), torch.tensor([float(v) for v in g], dtype=F64).reshape(shape))
        truth = torch.tensor([float(v) for v in exact], dtype=F64)
        assert (w.detach().flatten() - truth).abs().max() <= 1e-14 * float(unit), seed
        label = groups(exact, edges, weights)
        assert groups(w.flatten().tolist(), edges, weights) == label, seed
        mean = {i: sum(v for v, k in zip(g, label, strict=True) if k == i) / label.count(i) for i in label}
        credit = [mean[i] for i in label]
        assert (dx.flatten() - torch.tensor([float(v) for v in credit], dtype=F64)).abs().max() <= 1e-13, seed
        pull = sum(
            b * (credit[j] - credit[i]) * ((exact[i] > exact[j]) - (exact[i] < exact[j]))
            for (i, j), b in zip(edges, weights, strict=True)
        )
        assert abs(ds.item() - float(pull)) <= 1e-12, seed


@both_backends
@pytest.mark.parametrize("dtype, bound", [(F64, 2e-16), (torch.float32, 1e-7)])
def test_values_are_exact_to_the_last_digits_at_every_strength(kind: str, dtype: torch.dtype, bound: float):
    for seed in range(45):
        which, shape, edges, weights = case(seed)
        x = torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed)).to(dtype)
        strength = torch.tensor(10.0 ** random.Random(seed).uniform(-8, 4), dtype=dtype).item()
        exact = solve([Fraction(v) for v in x.flatten().tolist()], edges, [Fraction(strength) * a for a in weights])
        with backend(kind):
            w = apply(which, x, edges, torch.tensor([float(v) for v in weights], dtype=dtype), strength)
        truth = torch.tensor([float(v) for v in exact], dtype=F64)
        assert (w.double().flatten() - truth).abs().max() <= bound * (1 + x.abs().max().item()), seed


@both_backends
@pytest.mark.parametrize("far", [1e9, 1e20, 1e30, torch.finfo(torch.float32).min])
def test_scores_far_from_the_others_leave_them_exact(kind: str, far: float):
    for seed in range(30):
        which, shape, edges, weights = case(seed)
        x = torch.randn(shape, dtype=F64, generator=torch.Generator().manual_seed(seed))
        x.view(-1)[seed % x.numel()] = far
        exact = solve([Fraction(v) for v in x.flatten().tolist()], edges, [a / 4 for a in weights])
        with backend(kind):
            w = apply(which, x, edges, torch.tensor([float(v) for v in weights], dtype=F64), 0.25).flatten()
        near = torch.tensor([abs(v) < abs(far) / 100 for v in exact])
        truth = torch.tensor([float(v) for v in exact], dtype=F64)
        assert ((w - truth)[near].abs() <= 1e-14).all(), seed
        assert ((w - truth)[~near].abs() <= 1e-15 * abs(far)).all(), seed


@pytest.mark.parametrize("strength", [1e2, 1e4, 1e6, 1e7])
def test_long_path_is_a_chain_however_far_its_ends_fuse(strength: float):
    if not kernels.is_compiled("tv_graph", torch.empty(0)):
        pytest.skip("the ascent of plain torch does not reach that far, and says so")
    at = torch.arange(10_000)
    path = torch.stack([at[:-1], at[1:]])
    for x in (at.double(), (at.double() / 100).square(), 100 * (at.double() / 300).sin()):
        w = tv_prox_graph(x, path, strength)
        assert (w - tv_prox_1d(x, strength)).abs().max() <= 1e-12 * x.abs().max()
