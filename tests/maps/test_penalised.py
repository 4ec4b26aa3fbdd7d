"""Regularisers with a price on differences: value, conjugate, loss, margin and the gradients of all their numbers."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck

import omegamax
from omegamax import Bounded, Fused, GraphFused, KSubsets, NormEntropy, Oscar, TotalVariation2d, Tsallis
from omegamax.losses import fenchel_young_loss

F64 = torch.float64
EDGES = torch.tensor([[0, 1, 2, 3, 0, 1], [1, 2, 3, 0, 2, 4]])
WEIGHTS = torch.tensor([0.5, 1.0, 2.0, 0.25, 1.5, 0.75], dtype=F64)
IMAGE = (2, 3)
KINDS = {
    "chain": lambda base, strength: Fused(base, strength),
    "image": lambda base, strength: TotalVariation2d(base, strength),
    "image in a row": lambda base, strength: TotalVariation2d(base, strength, shape=(-1, 3)),
    "graph": lambda base, strength: GraphFused(base, EDGES, strength, WEIGHTS),
    "pairs": lambda base, strength: Oscar(base, strength),
}
every_kind = pytest.mark.parametrize("kind", KINDS)
BASES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "normmax": "normmax",
    "two": KSubsets(2),
    "at most one": KSubsets(1.0, at_most=True),
    "at most two": KSubsets(2, at_most=True),
    "capped": Bounded("sparsemax", 0.4),
}
every_base = pytest.mark.parametrize("base", BASES.values(), ids=list(BASES))


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=F64, generator=torch.Generator().manual_seed(seed))


def scores(kind: str, rows: int = 4, seed: int = 0) -> Tensor:
    z = draw(rows, 6, seed=seed)
    return z.unflatten(-1, IMAGE) if kind == "image" else z


def price(kind: str, p: Tensor) -> Tensor:
    """The differences, one by one."""
    p = p.reshape(len(p), 6)
    if kind == "pairs":
        return torch.maximum(p[:, :, None], p[:, None, :]).triu(1).sum((1, 2))
    pairs = {
        "chain": [(i, i + 1, 1.0) for i in range(5)],
        "graph": [(i, j, w) for (i, j), w in zip(EDGES.T.tolist(), WEIGHTS.tolist(), strict=True)],
    }.get(kind, [(i, j, 1.0) for i, j in ((0, 1), (1, 2), (3, 4), (4, 5), (0, 3), (1, 4), (2, 5))])
    return sum(w * (p[:, i] - p[:, j]).abs() for i, j, w in pairs)


@every_kind
@every_base
def test_value_conjugate_and_loss_belong_together(kind: str, base):
    omega, z = KINDS[kind](base, 0.15), scores(kind).requires_grad_()
    p, y = omega.argmax(z).detach(), omega.argmax(3 * scores(kind, seed=1))
    axes = tuple(range(1, z.dim()))
    assert (omega(p) - omegamax.get(base)(p.reshape(4, 6)) - 0.15 * price(kind, p)).abs().max() <= 1e-15
    conjugate = omega.conjugate(z)
    assert (conjugate - (p * z).sum(axes) + omega(p)).abs().max() <= 1e-14
    assert ((y * z).sum(axes) - omega(y) <= conjugate + 1e-14).all()  # of another point of the domain
    assert (torch.autograd.grad(conjugate.sum(), z)[0] - p).abs().max() <= 1e-15
    loss = fenchel_young_loss(z, y, omega, reduction="none")
    assert (loss - conjugate - omega(y) + (y * z).sum(axes)).abs().max() <= 1e-13
    assert (torch.autograd.grad(loss.sum(), z)[0] - (p - y)).abs().max() <= 1e-14
    assert fenchel_young_loss(z, p, omega).item() <= 1e-14


@every_kind
@pytest.mark.parametrize("make, start", [(Tsallis, 1.4), (NormEntropy, 2.5), (KSubsets, 1.7)])
@pytest.mark.parametrize("rows", [False, True], ids=["shared", "by row"])
def test_gradients_reach_every_parameter(kind: str, make, start: float, rows: bool):
    z = scores(kind, rows=2, seed=2).requires_grad_()
    number = torch.full((2, 1) if rows else (), start, dtype=F64, requires_grad=True)
    shape = () if not rows else (2, 1, 1) if kind == "image" else (2, 1)
    strength = torch.full(shape, 0.1, dtype=F64, requires_grad=True)

    def conjugate(z: Tensor, strength: Tensor, number: Tensor) -> Tensor:
        return KINDS[kind](make(number), strength).conjugate(z)

    assert gradcheck(conjugate, (z, strength, number), atol=1e-7, check_forward_ad=True)


def test_gradients_of_the_loss_reach_the_weights_of_edges():
    z, weights = draw(3, 6, seed=3).requires_grad_(), WEIGHTS.clone().requires_grad_()
    y = torch.eye(6, dtype=F64)[:3]

    def loss(z: Tensor, weights: Tensor) -> Tensor:
        return fenchel_young_loss(z, y, GraphFused("sparsemax", EDGES, 0.1, weights), reduction="none")

    assert gradcheck(loss, (z, weights), atol=1e-7)


@pytest.mark.parametrize("base", ["sparsemax", Tsallis(1.5), "normmax"])
def test_lead_of_the_margin_is_enough_whatever_is_masked(base):
    shapes = {"chain": (5,), "image": (3, 3), "graph": (6,)}
    generator = torch.Generator().manual_seed(0)
    for kind, shape in shapes.items():
        omega, size = KINDS[kind](base, 0.7), math.prod(shape)
        z = -torch.rand(300, size, dtype=F64, generator=generator).round(decimals=1)
        z[:150] = 0
        kept = torch.rand(300, size, generator=generator) < 0.75
        leader = torch.randint(size, (300, 1), generator=generator)
        hot = torch.zeros_like(z).scatter(-1, leader, 1.0)
        z = z.masked_fill(~kept, -math.inf).scatter(-1, leader, omega.margin)
        assert (omega.argmax(z.reshape(300, *shape)).reshape(300, size) - hot).abs().max() <= 1e-13


def test_masked_cells_take_their_price_with_them():
    z = draw(3, 4, seed=4)
    for omega, wide, part in (
        (Fused("sparsemax", 0.2), torch.cat([z, torch.full((3, 2), -math.inf, dtype=F64)], -1), z),
        (TotalVariation2d("softmax", 0.2, shape=(2, -1)), torch.nn.functional.pad(z, (0, 4), value=-math.inf), None),
    ):
        expected = omega.conjugate(part) if part is not None else Fused("softmax", 0.2).conjugate(z)
        assert (omega.conjugate(wide) - expected).abs().max() <= 1e-14


def test_bad_strength_is_refused_when_it_is_given():
    for make in (Fused, TotalVariation2d, Oscar):
        with pytest.raises(ValueError, match=f"{make.__name__}: strength must be >= 0, got -1"):
            make("sparsemax", -1.0)
    with pytest.raises(TypeError, match="GraphFused: strength"):
        GraphFused("sparsemax", EDGES, "much")


def test_bad_shapes_and_graphs_are_refused_by_name():
    for shape in ((2,), 6, (-1, -1), (0, 3)):
        with pytest.raises(ValueError, match=r"TotalVariation2d: shape must be \(H, W\)"):
            TotalVariation2d("sparsemax", 0.1, shape=shape)
    for shape in ((2, 3), (-1, 3)):
        with pytest.raises(ValueError, match=r"TotalVariation2d: shape=\(.*\) does not hold the 7 entries of a row"):
            TotalVariation2d("sparsemax", 0.1, shape=shape).argmax(torch.randn(2, 7))
    with pytest.raises(TypeError, match=r"GraphFused: edges must be .*list"):
        GraphFused("sparsemax", [[0], [1]])


def test_loops_of_a_graph_count_for_nothing():
    loops = torch.tensor([[1, 4], [1, 4]])
    edges, heavy = torch.cat([EDGES, loops], -1), torch.cat([WEIGHTS, WEIGHTS.new_tensor([3.0, 7.0])]).requires_grad_()
    plain, looped = GraphFused("sparsemax", EDGES, 0.2, WEIGHTS), GraphFused("sparsemax", edges, 0.2, heavy)
    z = draw(5, 6).requires_grad_()
    assert torch.equal(looped.argmax(z), plain.argmax(z)) and looped.margin == plain.margin
    assert (looped.conjugate(z) - plain.conjugate(z)).abs().max() <= 1e-14
    g = draw(5, 6, seed=1)
    dz, dw = torch.autograd.grad(looped.argmax(z), (z, heavy), g)
    assert torch.equal(dz, torch.autograd.grad(plain.argmax(z), z, g)[0]) and (dw[-2:] == 0).all()
    unweighted = omegamax.tv_prox_graph(z, edges, 0.2)
    assert torch.equal(unweighted, omegamax.tv_prox_graph(z, EDGES, 0.2))
