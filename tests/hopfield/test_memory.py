"""Energies and steps against the same written out, and the energy that never rises."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.hopfield import naive
from tests.hopfield.cases import OMEGAS, PSIS, every_omega, every_psi, on_sphere

import omegamax
from omegamax import Fused, GraphFused, NormEntropy, Oscar, Shannon, TotalVariation2d, Tsallis
from omegamax.hopfield import Exponential, L2Norm, LayerNorm, Memory, Power, Sign

F64 = torch.float64


def in_domain(q, psi):
    """Queries for which the energy is finite."""
    if psi == "layer_norm":
        q = q - q.mean(-1, keepdim=True)
    return q if psi == "identity" else 0.7 * q / q.abs().sum(-1, keepdim=True)


@every_psi
@every_omega
@pytest.mark.parametrize("beta", [0.3, 2.0])
def test_energy_and_step_are_those_written_out(name, psi, beta):
    omega, twin = OMEGAS[name]
    patterns, q = torch.randn(5, 4, dtype=F64), in_domain(torch.randn(3, 4, dtype=F64), psi)
    memory = Memory(patterns, omega, beta, psi)
    energies, states = memory.energy(q), memory.step(q)
    for i in range(3):
        arguments = patterns.tolist(), q[i].tolist(), beta, psi, *twin
        assert energies[i].item() == pytest.approx(naive.energy(*arguments), rel=1e-9, abs=1e-9)
        np.testing.assert_allclose(states[i].numpy(), naive.step(*arguments), rtol=1e-9, atol=1e-9)


def test_named_memories_are_those_of_the_literature():
    x, q = torch.randn(6, 10, dtype=F64).sign(), torch.randn(4, 10, dtype=F64).sign()
    z = q @ x.T
    torch.testing.assert_close(Memory.classic(x).energy(q), -0.5 * z.square().sum(-1))
    torch.testing.assert_close(Memory.classic(x).step(q), (z @ x).sign())
    torch.testing.assert_close(Memory.dense(x, 3).energy(q), -z.clamp(min=0).pow(3).sum(-1) / 3)
    torch.testing.assert_close(Memory.dense(x, 3).step(q), (z.clamp(min=0).square() @ x).sign())
    torch.testing.assert_close(Memory.exponential(x).energy(q), -z.exp().sum(-1))
    torch.testing.assert_close(Memory.exponential(x).step(q), (z.exp() @ x).sign())
    y, r = torch.randn(6, 10, dtype=F64), torch.randn(4, 10, dtype=F64)
    modern = Memory.modern(y, 0.7)
    wanted = -(0.7 * r @ y.T).logsumexp(-1) / 0.7 + 0.5 * r.square().sum(-1)
    torch.testing.assert_close(modern.energy(r), wanted)
    torch.testing.assert_close(modern.step(r), (0.7 * r @ y.T).softmax(-1) @ y)


@pytest.mark.parametrize("name", ["softmax", "entmax1.2", "entmax15", "sparsemax", "normmax2", "k_subsets"])
def test_energy_is_a_difference_of_losses(name):
    """Loss of equal weights, subtracted from that of their mixture of patterns, up to a constant."""
    x, q = torch.randn(6, 4, dtype=F64), torch.randn(30, 4, dtype=F64)
    omega, beta = OMEGAS[name][0], 1.7
    equal = torch.full((30, 6), float(omega.total) / 6, dtype=F64)
    loss = omegamax.fenchel_young_loss(beta * q @ x.T, equal, omega, "none") / beta
    difference = 0.5 * (q - equal @ x).square().sum(-1) - loss
    rest = Memory(x, omega, beta).energy(q) - difference
    torch.testing.assert_close(rest, rest[:1].expand(30))


def test_signed_powers_do_not_descend_the_energy_of_rectified_ones():
    """The talk pairs a rectified energy with a step of signed powers; they belong to different energies."""
    rises = 0
    for _ in range(200):
        x, q = torch.randn(6, 5, dtype=F64).sign(), torch.randn(1, 5, dtype=F64).sign()
        wrong = ((q @ x.T).pow(2) * (q @ x.T).sign() @ x).sign()
        memory = Memory(x, Power(3), psi="sign")
        rises += bool(memory.energy(torch.where(wrong == 0, 1.0, wrong)) > memory.energy(q))
        assert memory.energy(memory.step(q)) <= memory.energy(q)
    assert rises > 0


def test_exponential_takes_the_steps_of_softmax_with_signs():
    x, q = torch.randn(8, 12, dtype=F64).sign(), torch.randn(5, 12, dtype=F64).sign()
    dense, soft = Memory.exponential(x), Memory(x, "softmax", psi="sign")
    torch.testing.assert_close(dense.step(q), soft.step(q))
    torch.testing.assert_close((-dense.energy(q)).log(), -soft.energy(q))


def test_steps_survive_weights_that_overflow():
    x = torch.randn(20, 2000).sign()
    for memory in (Memory.exponential(x), Memory.dense(x, 30)):
        q = x[:3].clone()
        q[:, :500] *= -1
        assert memory.weights(q).isinf().any()
        assert torch.equal(memory.retrieve(q).state, x[:3])


@settings(max_examples=200)
@given(
    name=st.sampled_from(sorted(OMEGAS)),
    psi=st.sampled_from([*PSIS, L2Norm(2.0, eps=0.3), LayerNorm(eps=0.1), LayerNorm(0.5)]),
    beta=st.sampled_from([0.05, 0.5, 1.0, 3.0, 20.0]),
    shape=st.tuples(st.integers(2, 7), st.integers(1, 6)),
    scale=st.sampled_from([0.1, 1.0, 3.0]),
    seed=st.integers(0, 10**6),
)
def test_energy_never_rises(name, psi, beta, shape, scale, seed):
    if name == "exponential":
        beta = min(beta, 1.0)  # exp of thousands has no value
    generator = torch.Generator().manual_seed(seed)
    patterns = scale * torch.randn(shape, dtype=F64, generator=generator)
    q = 2 * torch.randn(3, shape[1], dtype=F64, generator=generator)
    memory = Memory(patterns, OMEGAS[name][0], beta, psi)
    found = memory.retrieve(q, steps=6, tol=None)
    energies = found.energies
    assert energies[1:].isfinite().all() or name.startswith(("power", "signed", "exp", "classic"))
    energies = energies[:, energies[1:].isfinite().all(0)]  # powers of themselves grow beyond every number
    room = 1e-12 * (1 + energies[:-1].abs())  # inf where the query was off the domain
    assert (energies[1:] <= energies[:-1] + room).all()


OTHERS = [
    Fused("sparsemax", 0.2),
    Oscar("sparsemax", 0.1),
    GraphFused("entmax15", torch.tensor([[0, 1, 2], [1, 2, 5]]), 0.3),
    TotalVariation2d("sparsemax", 0.2, shape=(2, 3)),
    omegamax.get("constrained_sparsemax", upper=0.4),
    omegamax.get("constrained_softmax", upper=0.4),
    omegamax.get("k_subsets", k=2, at_most=True),
    Tsallis(0.7),
    Tsallis(math.inf),
    NormEntropy(math.inf),
]


@every_psi
@pytest.mark.parametrize("omega", OTHERS, ids=repr)
def test_energy_never_rises_with_the_other_regularisers(omega, psi):
    patterns, q = torch.randn(4, 6, 3, dtype=F64), in_domain(torch.randn(4, 5, 3, dtype=F64), psi)
    energies = Memory(patterns, omega, 3.0, psi).retrieve(q, steps=8, tol=None).energies
    assert (energies[1:] <= energies[:-1] + 1e-12 * (1 + energies[:-1].abs())).all()
    assert energies.isfinite().all()


@every_psi
@pytest.mark.parametrize("dtype, room", [(torch.float32, 1e-5), (torch.bfloat16, 0.05), (torch.float16, 0.01)])
def test_energy_is_finite_at_states_that_were_rounded(psi, dtype, room):
    memory = Memory(torch.randn(6, 33).to(dtype), "entmax15", 1.0, psi)
    found = memory.retrieve(torch.randn(7, 33).to(dtype))
    assert found.state.dtype == found.energies.dtype == found.weights.dtype == dtype
    again = memory.energy(found.state)
    assert again.isfinite().all()
    assert ((again - found.energies[-1]).abs() <= room * (1 + again.abs())).all()


@every_omega
@every_psi
def test_single_precision_follows_double(name, psi):
    x, q = torch.randn(6, 5, dtype=F64), in_domain(torch.randn(4, 5, dtype=F64), psi)
    omega = OMEGAS[name][0]
    wanted, found = Memory(x, omega, 0.7, psi).energy(q), Memory(x.float(), omega, 0.7, psi).energy(q.float())
    torch.testing.assert_close(found, wanted.float(), rtol=1e-5, atol=1e-5)


def test_energy_is_infinite_off_the_domain():
    x = torch.randn(4, 3, dtype=F64)
    far, tilted = torch.tensor([[3.0, -3.0, 0.0]], dtype=F64), torch.tensor([[0.1, 0.1, 0.1]], dtype=F64)
    for psi, q in ("l2_norm", far), ("layer_norm", far), ("layer_norm", tilted), ("sign", far):
        assert Memory(x, psi=psi).energy(q).item() == math.inf
    assert Memory(x, psi="l2_norm").energy(tilted).isfinite()


@pytest.mark.parametrize("psi", [L2Norm(0.5), L2Norm(2.0, eps=0.3), LayerNorm(), LayerNorm(eps=0.1), LayerNorm(2.0)])
def test_psi_is_the_conjugate_of_what_its_map_is_the_gradient_of(psi):
    x = torch.randn(5, 4, dtype=F64, requires_grad=True)
    q = psi.argmax(x)
    dual = (q * x).sum(-1) - psi(q.detach())  # the conjugate of Psi at x
    radius, c = psi.sizes(4)
    torch.testing.assert_close(dual, radius * torch.hypot(psi.project(x).norm(dim=-1), torch.tensor(c, dtype=F64)))
    centred = not isinstance(psi, L2Norm)
    for other in torch.randn(200, 5, 4, dtype=F64):
        other = other - other.mean(-1, keepdim=True) if centred else other
        other = radius * torch.rand(5, 1, dtype=F64) * other / other.norm(dim=-1, keepdim=True)
        assert ((other * x).sum(-1) - psi(other) <= dual + 1e-12).all()  # no state is better


def test_layer_norm_is_that_of_torch():
    x = torch.randn(6, 5, dtype=F64)
    torch.testing.assert_close(LayerNorm(eps=1e-5).argmax(x), F.layer_norm(x, (5,)))
    torch.testing.assert_close(L2Norm().argmax(x), F.normalize(x, dim=-1))


def test_psi_of_extreme_states():
    for psi in (L2Norm(), LayerNorm(), LayerNorm(eps=1e-5), L2Norm(eps=1e-3)):
        large = psi.argmax(torch.tensor([1e30, -1e30, 3e29]))
        assert large.isfinite().all() and large.norm() == pytest.approx(psi.sizes(3)[0], rel=1e-5)
        assert torch.equal(psi.argmax(torch.zeros(3)), torch.zeros(3))
        assert psi.argmax(torch.tensor([torch.nan, 1.0, 0.0])).isnan().all()
        x = torch.zeros(3, requires_grad=True)
        psi.argmax(x).sum().backward()
        assert x.grad.isfinite().all()
    small = L2Norm().argmax(torch.tensor([3e-30, -4e-30]))
    torch.testing.assert_close(small, torch.tensor([0.6, -0.8]))
    flat = LayerNorm().argmax(torch.full((7,), 0.1))
    assert torch.equal(flat, torch.zeros(7))
    close = torch.tensor([1e6, 1e6 + 1, 1e6 - 1])
    assert LayerNorm()(LayerNorm().argmax(close)) == 0
    assert torch.equal(Sign().argmax(torch.tensor([0.0, -0.0, -1e-30])), torch.tensor([1.0, 1.0, -1.0]))
    assert Sign().argmax(torch.tensor([torch.nan])).isnan().all()


def test_separable_values_are_conjugates():
    z = torch.randn(3, 5, dtype=F64)
    for omega in (Power(3), Power(2.5, rectified=False), Exponential()):
        p = omega.argmax(z)
        torch.testing.assert_close((p * z).sum(-1) - omega(p), omega.conjugate(z))
        assert (omega.argmax(z, mask=z > 0)[z <= 0] == 0).all()
        hidden = z.masked_fill(z <= 0, -math.inf)
        kept = [omega.conjugate(row[row > 0]) if (row > 0).any() else row.new_zeros(()) for row in z]
        torch.testing.assert_close(omega.conjugate(hidden), torch.stack(kept))
        if not isinstance(omega, Power) or omega.rectified:
            assert omega(-p - 1).isinf().all()
    assert Power(1.5).argmax(torch.tensor([torch.nan])).isnan().all()
    with pytest.raises(ValueError, match="degree must be > 1"):
        Power(1.0)


def test_fenchel_young_loss_of_a_separable_is_never_negative():
    z, y = torch.randn(50, 5, dtype=F64), torch.rand(50, 5, dtype=F64)
    for omega in (Power(3), Exponential()):
        assert (omegamax.fenchel_young_loss(z, y, omega, "none") > 0).all()
        assert omegamax.fenchel_young_loss(z, omega.argmax(z), omega).item() == pytest.approx(0, abs=1e-12)


def test_patterns_on_the_sphere_are_found_again():
    x = on_sphere(20, 16)
    q = x + 0.1 * torch.randn(20, 16, dtype=F64)
    for psi in ("identity", "l2_norm"):
        found = Memory(x, Shannon(), 60.0, psi).retrieve(q)
        assert found.converged.all() and (found.state - x).abs().max() < 1e-3
        assert torch.equal(found.weights.argmax(-1), torch.arange(20))
