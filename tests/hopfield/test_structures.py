"""Memories of structures: energies that fall, structures that are found, and when."""

from __future__ import annotations

import itertools

import pytest
import torch
from tests.hopfield.cases import every_psi

from omegamax import KSubsets, nn
from omegamax.hopfield import Memory, retrieved_exactly, threshold
from omegamax.structured import DependencyTree, Matching, Sequence, SequentialSubsets, SpanningTree, StructuredOmega
from omegamax.structured import Subsets as SubsetsFactor

F64 = torch.float64
TRIANGLES = torch.tensor([[0, 1, 2, 1, 3], [1, 2, 0, 3, 2]])
TRANSITION = torch.tensor([[0.5, -0.3], [0.2, 0.1]], dtype=F64)
STRUCTURES = {
    "subsets": SubsetsFactor(2),
    "at most": SubsetsFactor(2, at_most=True),
    "sequential": SequentialSubsets(2, 0.6),
    "sequence": StructuredOmega(Sequence(transition=TRANSITION), (3, 2)),
    "trees": StructuredOmega(DependencyTree(), (3, 3)),
    "projective": StructuredOmega(DependencyTree(projective=True, single_root=True), (3, 3)),
    "spanning": SpanningTree(TRIANGLES),
    "matchings": StructuredOmega(Matching(), (2, 3)),
}
every_structure = pytest.mark.parametrize("name", STRUCTURES)


def omega_of(name: str) -> StructuredOmega:
    omega = STRUCTURES[name]
    return omega if isinstance(omega, StructuredOmega) else StructuredOmega(omega)


def parts_of(name: str) -> int:
    return {"sequence": 6, "trees": 9, "projective": 9, "spanning": 5, "matchings": 6}.get(name, 5)


def list_structures(name: str) -> torch.Tensor:
    """Every structure, ``[M, N]``: the 0/1 vectors that SparseMAP returns when they are asked for loudly."""
    every = torch.tensor(list(itertools.product((0.0, 1.0), repeat=parts_of(name))), dtype=F64)
    found = omega_of(name).argmax(1e6 * (2 * every - 1))
    return every[(found == every).all(-1)]


def additional(name: str, y: torch.Tensor) -> torch.Tensor:
    """The additional score of structures, ``[M]``."""
    if name == "sequential":
        return 0.6 * (y[:, 1:] * y[:, :-1]).sum(-1)
    if name == "sequence":
        labels = y.reshape(-1, 3, 2).argmax(-1)
        return TRANSITION[labels[:, 0], labels[:, 1]] + TRANSITION[labels[:, 1], labels[:, 2]]
    return torch.zeros(len(y), dtype=F64)


@every_structure
def test_energy_is_that_of_a_program_over_the_list(name):
    import cvxpy as cp

    x, q = torch.randn(parts_of(name), 4, dtype=F64), torch.randn(3, 4, dtype=F64)
    y, beta = list_structures(name), 1.7
    energies = Memory(x, STRUCTURES[name], beta).energy(q)
    for i in range(3):
        z = (beta * x @ q[i]).numpy()
        weights = cp.Variable(len(y), nonneg=True)
        u = y.numpy().T @ weights
        value = z @ u + additional(name, y).numpy() @ weights - cp.sum_squares(u) / 2
        best = cp.Problem(cp.Maximize(value), [cp.sum(weights) == 1]).solve(solver=cp.CLARABEL)
        assert energies[i].item() == pytest.approx(-best / beta + 0.5 * q[i].square().sum().item(), abs=1e-7)


@every_psi
@every_structure
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_energy_never_rises(name, psi, dtype):
    x = torch.randn(parts_of(name), 6, dtype=dtype)
    q = torch.randn(20, 6, dtype=dtype)
    q = q - q.mean(-1, keepdim=True)
    if psi != "identity":
        q = 0.7 * q / q.abs().sum(-1, keepdim=True)
    for beta in (0.3, 2.0, 20.0):
        memory = Memory(x, STRUCTURES[name], beta, psi)
        found = memory.retrieve(q, steps=20)
        size = found.energies[found.energies.isfinite()].abs().max()
        rise = (found.energies[1:] - found.energies[:-1]).max()
        assert rise <= 64 * torch.finfo(dtype).eps * size
        torch.testing.assert_close(found.weights, memory.weights(found.state))


@every_structure
def test_structures_are_retrieved_exactly_just_where_it_is_said(name):
    y, size = list_structures(name), parts_of(name)
    seen = set()
    for beta in (0.5, 1.0, 1.5, 3.0):
        x = torch.linalg.qr(torch.randn(12, size, dtype=F64))[0].T  # orthonormal parts: patterns are structures' sums
        x = x + 0.15 * torch.randn_like(x)
        q = y @ x + 0.3 * torch.randn(len(y), 12, dtype=F64)
        memory = Memory(x, STRUCTURES[name], beta)
        weights = memory.weights(q)
        told = retrieved_exactly(q, x, STRUCTURES[name], beta, chosen=y.bool())
        assert torch.equal(told, (weights[:, None] == y).all(-1))
        seen |= set(told.diagonal().tolist())
        hit = told.diagonal()
        torch.testing.assert_close(memory.step(q)[hit], (y @ x)[hit], rtol=0, atol=1e-12)
    assert seen == {True, False}


@pytest.mark.parametrize("name", ["subsets", "trees", "spanning", "matchings"])
def test_planted_structures_are_fixed_points_from_the_margin_on(name):
    y, size = list_structures(name), parts_of(name)
    x = torch.linalg.qr(torch.randn(12, size, dtype=F64))[0].T
    # Scores of a planted structure are beta inside and 0 outside: the margin of 1 is met from beta = 1 on.
    found = Memory(x, STRUCTURES[name], 1.0 + 1e-9).retrieve(y @ x)
    assert torch.equal(found.weights, y) and found.converged.all()
    less = Memory(x, STRUCTURES[name], 0.8).retrieve(y @ x)
    assert not torch.equal(less.weights, y)
    assert threshold(STRUCTURES[name], 2.0) == 0.5


def test_noisy_structures_settle_where_they_were_planted():
    torch.manual_seed(0)
    y = list_structures("trees")
    x = torch.randn(9, 200, dtype=F64) / 200**0.5
    found = Memory(x, STRUCTURES["trees"], 3.0).retrieve(y @ x + 0.02 * torch.randn(len(y), 200, dtype=F64))
    assert torch.equal(found.weights, y)
    torch.testing.assert_close(found.state, y @ x, rtol=0, atol=1e-12)


def test_subsets_are_those_of_the_map():
    x, q = torch.randn(5, 4, dtype=F64), torch.randn(7, 4, dtype=F64)
    one, other = Memory(x, SubsetsFactor(2), 1.3), Memory(x, KSubsets(2), 1.3)
    torch.testing.assert_close(one.energy(q), other.energy(q), rtol=0, atol=1e-12)
    torch.testing.assert_close(one.step(q), other.step(q), rtol=0, atol=1e-12)


def test_gradients_reach_queries_patterns_and_transitions():
    x, q, t = (torch.randn(shape, dtype=F64, requires_grad=True) for shape in ((6, 4), (2, 4), (2, 2)))

    def run(what):
        def call(x, q, t):
            return getattr(Memory(x, StructuredOmega(Sequence(transition=t), (3, 2)), 1.3), what)(q)

        return call

    for what in ("energy", "step"):
        assert torch.autograd.gradcheck(run(what), (x, q, t))


def test_masked_parts_are_never_retrieved():
    x, q = torch.randn(9, 4, dtype=F64), torch.randn(5, 4, dtype=F64)
    mask = torch.ones(9, dtype=torch.bool)
    mask[3] = False
    memory = Memory(x, STRUCTURES["trees"], 2.0, mask=mask)
    assert (memory.weights(q)[:, 3] == 0).all() and memory.energy(q).isfinite().all()
    y = list_structures("trees")
    told = retrieved_exactly(q, x, STRUCTURES["trees"], 2.0, mask, y.bool())
    assert torch.equal(told, (memory.weights(q)[:, None] == y).all(-1))


def test_layers_take_structures():
    x, q = torch.randn(5, 4), torch.randn(3, 4)
    layer = nn.Hopfield(SubsetsFactor(2), beta=1.3, steps=3)
    torch.testing.assert_close(layer(q, x), Memory(x, SubsetsFactor(2), 1.3).retrieve(q, 3, None).state)
    torch.testing.assert_close(layer.memory(x).energy(q)[0], Memory(x, SubsetsFactor(2), 1.3).energy(q))
    pool = nn.HopfieldPooling(StructuredOmega(Matching(), (2, 3)), embed_dim=8)
    out = pool(torch.randn(4, 6, 8))
    out.sum().backward()
    assert out.shape == (4, 8) and pool.query.grad.isfinite().all()


def test_misuse_is_refused_by_name():
    x = torch.randn(9, 4)
    with pytest.raises(ValueError, match=r"StructuredOmega: shape of the 2 axes of DependencyTree\(\) is needed"):
        Memory(x, DependencyTree())
    with pytest.raises(ValueError, match="retrieves structures: give them as chosen"):
        retrieved_exactly(x[:1], x, STRUCTURES["trees"], 1.0)
    with pytest.raises(ValueError, match=r"retrieved_exactly: chosen must be bool \[M, N\] with N = 9"):
        retrieved_exactly(x[:1], x, STRUCTURES["trees"], 1.0, chosen=torch.ones(1, 9))
    with pytest.raises(ValueError, match="threshold: no lead alone makes"):
        threshold(SubsetsFactor(2, at_most=True), 1.0)
    with pytest.raises(ValueError, match="beta = inf needs omega to be softmax"):
        Memory(x, STRUCTURES["trees"], float("inf"))
