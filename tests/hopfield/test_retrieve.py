"""Retrieval: rest for each query by itself, batches, masks, gradients, and what is refused."""

from __future__ import annotations

import math

import pytest
import torch
from tests.hopfield.cases import OMEGAS, every_omega, every_psi, on_sphere

import omegamax
from omegamax import KSubsets, Tsallis
from omegamax.hopfield import L2Norm, LayerNorm, Memory

F64 = torch.float64


def memory_of(name, psi="identity", beta=1.3, shape=(6, 4), mask=None):
    return Memory(torch.randn(*shape, dtype=F64), OMEGAS[name][0], beta, psi, mask)


@pytest.mark.parametrize("name", ["softmax", "entmax15", "sparsemax", "normmax2", "k_subsets", "sequential"])
@every_psi
def test_trajectory_is_made_of_steps(name, psi):
    memory, q = memory_of(name, psi), torch.randn(5, 4, dtype=F64)
    found = memory.retrieve(q, steps=7, tol=None)
    assert found.trajectory.shape == (8, 5, 4) and found.energies.shape == (8, 5)
    state = q
    for i in range(8):
        torch.testing.assert_close(found.trajectory[i], state, rtol=1e-10, atol=1e-10)
        torch.testing.assert_close(found.energies[i], memory.energy(state), rtol=1e-10, atol=1e-10)
        state = memory.step(state)
    torch.testing.assert_close(found.weights, memory.weights(found.state))
    assert (found.steps == 7).all() and not found.converged.any()


@pytest.mark.parametrize("name", ["softmax", "entmax15", "sparsemax", "normmax5", "k_subsets"])
def test_each_query_rests_by_itself(name):
    memory, q = memory_of(name, beta=2.0), torch.randn(24, 4, dtype=F64)
    together = memory.retrieve(q, steps=500)
    assert together.converged.all() and together.steps.unique().numel() > 1
    for i in range(24):
        alone = memory.retrieve(q[i], steps=500)
        assert torch.equal(alone.steps, together.steps[i])
        torch.testing.assert_close(alone.state, together.state[i], rtol=1e-12, atol=1e-12)
    move = (memory.step(together.state) - together.state).abs().amax(-1)
    assert (move <= 2e-6).all()
    # What is at rest stays as it is while others go on.
    for i, at in enumerate(together.steps.tolist()):
        assert (together.trajectory[at:, i] == together.trajectory[at, i]).all()


def test_sparse_memory_rests_exactly():
    x = on_sphere(10, 12)
    found = Memory(x, "sparsemax", 40.0).retrieve(x + 0.05, tol=0.0)
    assert torch.equal(found.state, x) and found.converged.all() and (found.steps == 2).all()
    assert torch.equal(found.weights, torch.eye(10, dtype=F64))


def test_no_steps_leave_the_query():
    memory, q = memory_of("entmax15"), torch.randn(3, 4, dtype=F64)
    found = memory.retrieve(q, steps=0)
    assert torch.equal(found.state, q) and found.energies.shape == (1, 3) and not found.converged.any()


def test_record_can_be_left_out():
    memory, q = memory_of("entmax15"), torch.randn(3, 4, dtype=F64)
    kept, lean = memory.retrieve(q), memory.retrieve(q, record=False)
    assert lean.energies is None and lean.trajectory is None
    for a, b in ((kept.state, lean.state), (kept.weights, lean.weights), (kept.steps, lean.steps)):
        assert torch.equal(a, b)


@pytest.mark.parametrize("name", ["softmax", "sparsemax", "normmax2", "k_subsets", "classic", "exponential"])
def test_batches_of_memories_and_queries_broadcast(name):
    x, q = torch.randn(3, 1, 6, 4, dtype=F64), torch.randn(2, 5, 4, dtype=F64)
    omega = OMEGAS[name][0]
    found = Memory(x, omega, 0.7, "l2_norm").retrieve(q, steps=3, tol=None)
    assert found.state.shape == (3, 2, 5, 4) and found.weights.shape == (3, 2, 5, 6)
    assert found.energies.shape == (4, 3, 2, 5) and found.steps.shape == (3, 2, 5)
    for i in range(3):
        for j in range(2):
            one = Memory(x[i, 0], omega, 0.7, "l2_norm").retrieve(q[j], steps=3, tol=None)
            torch.testing.assert_close(found.state[i, j], one.state)
            torch.testing.assert_close(found.energies[:, i, j], one.energies)


def test_one_query_needs_no_axis():
    memory = memory_of("entmax15")
    q = torch.randn(4, dtype=F64)
    found = memory.retrieve(q)
    assert found.state.shape == (4,) and found.weights.shape == (6,) and found.steps.shape == ()
    assert found.energies.dim() == 1 and found.trajectory.shape == (len(found.energies), 4)
    assert memory.energy(q).shape == () and memory.step(q).shape == (4,) and memory.weights(q).shape == (6,)
    many = memory_of("entmax15", shape=(2, 6, 4)).retrieve(q)
    assert many.state.shape == (2, 4) and many.energies.shape[1:] == (2,)


@every_omega
@every_psi
def test_masked_patterns_are_absent(name, psi):
    x, q = torch.randn(7, 4, dtype=F64), torch.randn(3, 4, dtype=F64)
    omega = OMEGAS[name][0]
    mask = torch.tensor([True, True, True, True, False, False, False])
    a = Memory(x, omega, 1.1, psi, mask).retrieve(q, steps=2, tol=None)
    b = Memory(x[:4], omega, 1.1, psi).retrieve(q, steps=2, tol=None)
    torch.testing.assert_close(a.state, b.state)
    torch.testing.assert_close(a.energies, b.energies)
    assert (a.weights[:, 4:] == 0).all()


def test_masks_differ_in_a_batch_and_may_leave_nothing():
    x, q = torch.randn(3, 5, 4, dtype=F64), torch.randn(3, 2, 4, dtype=F64)
    mask = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 0, 0, 0], [0, 0, 0, 0, 0]]).bool()
    found = Memory(x, "entmax15", 1.0, mask=mask).retrieve(q, steps=3, tol=None)
    for i, kept in enumerate([5, 2]):
        one = Memory(x[i, :kept], "entmax15").retrieve(q[i], steps=3, tol=None)
        torch.testing.assert_close(found.state[i], one.state)
    assert (found.state[2] == 0).all() and (found.energies[1:, 2] == 0).all()


@pytest.mark.parametrize("psi", ["identity", L2Norm(2.0), LayerNorm(eps=0.01)], ids=repr)
@pytest.mark.parametrize("name", ["softmax", "entmax1.2", "entmax15", "normmax2", "k_subsets", "power3", "exponential"])
def test_gradients_pass_through_retrieval(name, psi):
    # Small enough for an exponential of an exponential.
    x, q = 0.5 * torch.randn(5, 4, dtype=F64), torch.randn(2, 4, dtype=F64)
    beta = torch.tensor(0.6, dtype=F64, requires_grad=True)

    def last(x, q, beta):
        found = Memory(x, OMEGAS[name][0], beta, psi).retrieve(q, steps=2, tol=None)
        return found.state, found.energies[-1], found.weights

    assert torch.autograd.gradcheck(last, (x.requires_grad_(), q.requires_grad_(), beta))


@pytest.mark.parametrize("name", ["softmax", "entmax1.2", "normmax2"])
def test_second_derivatives_pass_through_retrieval(name):
    x, q = 0.5 * torch.randn(4, 3, dtype=F64), torch.randn(2, 3, dtype=F64)

    def last(x, q):
        found = Memory(x, OMEGAS[name][0], 0.6, LayerNorm(eps=0.1)).retrieve(q, steps=2, tol=None)
        return found.state, found.energies[-1]

    assert torch.autograd.gradgradcheck(last, (x.requires_grad_(), q.requires_grad_()))


def test_gradient_of_the_energy_is_the_way_to_the_next_state():
    x, q = torch.randn(6, 4, dtype=F64), torch.randn(3, 4, dtype=F64, requires_grad=True)
    for name in ("softmax", "entmax15", "sparsemax", "normmax2", "k_subsets", "sequential"):
        memory = Memory(x, OMEGAS[name][0], 1.7)
        (slope,) = torch.autograd.grad(memory.energy(q).sum(), q)
        torch.testing.assert_close(slope, q - memory.step(q))


def test_gradient_reaches_alpha_and_a_beta_for_each_query():
    x, q = torch.randn(6, 4, dtype=F64), torch.randn(3, 4, dtype=F64)
    alpha = torch.tensor(1.4, dtype=F64, requires_grad=True)
    beta = torch.tensor([[0.5], [1.0], [2.0]], dtype=F64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, b: Memory(x, Tsallis(a), b).step(q), (alpha, beta))
    assert torch.autograd.gradcheck(lambda a, b: Memory(x, Tsallis(a), b).energy(q), (alpha, beta))
    for i, b in enumerate([0.5, 1.0, 2.0]):
        torch.testing.assert_close(Memory(x, Tsallis(1.4), beta).energy(q)[i], Memory(x, Tsallis(1.4), b).energy(q[i]))


def test_frozen_queries_keep_their_gradient():
    x = on_sphere(6, 8).requires_grad_()
    found = Memory(x, "sparsemax", 60.0).retrieve(x.detach() + 0.02, steps=30)
    found.state.sum().backward()
    torch.testing.assert_close(x.grad, torch.ones_like(x))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_lower_precision_is_computed_in_single(dtype):
    x, q = torch.randn(6, 8).to(dtype), torch.randn(3, 8).to(dtype)
    found = Memory(x, "entmax15", 0.8).retrieve(q, steps=3, tol=None)
    wanted = Memory(x.float(), "entmax15", 0.8).retrieve(q.float(), steps=3, tol=None)
    assert found.state.dtype == dtype
    assert torch.equal(found.state, wanted.state.to(dtype)) and torch.equal(found.energies, wanted.energies.to(dtype))


def test_autocast_leaves_a_memory_alone():
    memory, q = Memory(torch.randn(6, 8), "entmax15"), torch.randn(3, 8)
    wanted = memory.retrieve(q)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = memory.retrieve(q)
    assert torch.equal(found.state, wanted.state) and torch.equal(found.energies, wanted.energies)


def test_hostile_queries_spoil_themselves_only():
    memory = Memory(torch.randn(6, 4, dtype=F64), "entmax15", 2.0)
    q = torch.randn(4, 4, dtype=F64)
    clean = memory.retrieve(q)
    q[1, 2], q[2, 0] = math.nan, math.inf
    found = memory.retrieve(q)
    for i in (0, 3):
        torch.testing.assert_close(found.state[i], clean.state[i])
    assert found.state[1:3].isnan().all() and found.converged.tolist() == [True, False, False, True]
    huge = memory.retrieve(1e30 * torch.randn(3, 4, dtype=F64))
    assert huge.state.isfinite().all() and huge.converged.all()
    empty = memory.retrieve(torch.zeros(0, 4, dtype=F64))
    assert empty.state.shape == (0, 4) and empty.energies.shape[1:] == (0,)
    one = Memory(torch.randn(1, 1), "sparsemax").retrieve(torch.randn(2, 1))
    assert one.converged.all()


def test_ties_are_kept():
    x = torch.tensor([[1.0, 0.0], [0.0, 1.0]], dtype=F64)
    found = Memory(x, "sparsemax", 10.0).retrieve(torch.tensor([0.4, 0.4], dtype=F64))
    assert found.weights.tolist() == [0.5, 0.5]


def test_k_subsets_retrieve_sums():
    x = on_sphere(12, 64)
    q = x[3] + x[7] + 0.02 * torch.randn(64, dtype=F64)
    found = Memory(x, KSubsets(2), 10.0).retrieve(q)
    torch.testing.assert_close(found.state, x[3] + x[7], rtol=0, atol=1e-15)


def test_memory_moves_and_prints():
    mask = torch.tensor([True, True, False])
    memory = Memory(torch.randn(3, 2), Tsallis(torch.tensor(1.5)), torch.tensor(2.0), "l2_norm", mask)
    moved = memory.to(F64)
    assert moved.patterns.dtype == F64 and torch.equal(moved.mask, mask)
    torch.testing.assert_close(moved.step(torch.ones(2, dtype=F64)), memory.step(torch.ones(2)).double())
    assert memory.to("meta").patterns.is_meta
    assert repr(Memory.dense(torch.ones(3, 2))) == (
        "Memory(patterns=[3, 2], omega=Power(degree=3), beta=1.0, psi=Sign())"
    )


def test_mixed_dtypes_promote():
    found = Memory(torch.randn(3, 2, dtype=F64)).retrieve(torch.randn(4, 2))
    assert found.state.dtype == F64


X = torch.ones(3, 2)


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda: Memory([[1.0]]), TypeError, "Memory: patterns must be a torch.Tensor, got list"),
        (lambda: Memory(X.long()), TypeError, "patterns must be a floating-point tensor, got dtype torch.int64"),
        (lambda: Memory(X[0]), ValueError, r"patterns must be \[\*, N, D\] with N, D > 0, got shape \(2,\)"),
        (lambda: Memory(X[:0]), ValueError, "N, D > 0"),
        (lambda: Memory(X, "softmix"), ValueError, "no map is called 'softmix'"),
        (lambda: Memory(X, beta=0.0), ValueError, "Memory: beta must be > 0, got 0"),
        (lambda: Memory(X, beta="high"), TypeError, "Memory: beta must be a float or a tensor"),
        (lambda: Memory(X, beta=torch.ones(3)).step(X), ValueError, "beta must broadcast to scores"),
        (lambda: Memory(X, psi="norm"), ValueError, "Memory: no psi is called 'norm'; known: identity, l2_norm"),
        (lambda: Memory(X, psi=3), TypeError, "Memory: psi must be a name or a Psi, got int"),
        (lambda: Memory(X, mask=torch.ones(3)), TypeError, "mask must be a bool tensor"),
        (lambda: Memory(X, mask=torch.ones(2).bool()), ValueError, "mask of shape"),
        (lambda: Memory(X, omegamax.TotalVariation2d()), ValueError, r"needs its shape=\(H, W\)"),
        (lambda: Memory(X).step(torch.ones(2, 3)), ValueError, r"Memory.step: q must be \[\*, L, 2\] or \[2\]"),
        (lambda: Memory(X).energy(torch.ones(2).long()), TypeError, "Memory.energy: q must be a floating-point"),
        (lambda: Memory(X.expand(4, 3, 2)).step(torch.ones(5, 1, 2)), ValueError, "must broadcast"),
        (lambda: Memory(X).retrieve(X, steps=-1), ValueError, "retrieve: steps must be an integer >= 0, got -1"),
        (lambda: Memory(X).retrieve(X, tol=-1.0), ValueError, "retrieve: tol must be a number >= 0"),
        (lambda: L2Norm(0.0), ValueError, "L2Norm: radius must be > 0, got 0"),
        (lambda: LayerNorm(eps=-1.0), ValueError, "LayerNorm: eps must be a number >= 0, got -1.0"),
    ],
)
def test_misuse_is_named(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_fixed_steps_can_be_mapped_and_traced():
    x, q = torch.randn(6, 4, dtype=F64), torch.randn(5, 4, dtype=F64)
    memory = Memory(x, "entmax15", 1.5, "l2_norm")

    def end(q):
        return memory.retrieve(q, 3, tol=None, record=False).state

    torch.testing.assert_close(torch.func.vmap(end)(q), end(q))
    jacobian = torch.func.vmap(torch.func.jacrev(end))(q)
    each = torch.stack([torch.autograd.functional.jacobian(end, row) for row in q])
    torch.testing.assert_close(jacobian, each)
    torch.testing.assert_close(torch.compile(end, backend="eager", fullgraph=True)(q), end(q))


def test_shapes_can_be_had_without_memory():
    memory = Memory(torch.empty(7, 6, 4, device="meta"), "sparsemax", 2.0)
    assert memory.step(torch.empty(3, 4, device="meta")).shape == (7, 3, 4)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
@every_omega
@every_psi
def test_gpu_gives_what_the_cpu_gives(name, psi):
    # Exponential weights do not sum to one: a state without a bound runs off to infinity in three steps of beta = 0.5.
    beta = 0.01 if (name, psi) == ("exponential", "identity") else 0.5
    memory, q = memory_of(name, psi, beta=beta), torch.randn(5, 4, dtype=F64)
    here, there = memory.retrieve(q, 3, tol=None), memory.to("cuda").retrieve(q.cuda(), 3, tol=None)
    assert bool(here.state.isfinite().all())
    for field in ("state", "weights", "energies", "trajectory", "steps"):
        torch.testing.assert_close(getattr(there, field).cpu(), getattr(here, field))
