"""What comes with every registered map: documentation, a Module, a loss, a margin."""

from __future__ import annotations

import doctest
import inspect
import math
import pickle
import re

import pytest
import torch
from hypothesis import given
from torch import Tensor

import omegamax
from contracts.records import RECORDS, domain, every_map, omega_of, options, run, scores, wide
from omegamax.cli._bibliography import work_of
from omegamax.maps import MapRecord, find
from omegamax.maps.record import capitalize

F64 = torch.float64


def loss_of(record: MapRecord, z: Tensor, y: Tensor) -> Tensor:
    return omegamax.fenchel_young_loss(z, y, omega_of(record, z.shape[-1]), reduction="none")


@every_map
def test_function_is_public_under_its_name(record: MapRecord):
    function = find(record.name).function
    assert getattr(omegamax, record.name) is function
    assert getattr(omegamax.functional, record.name) is function
    assert function.__name__ == record.name


@every_map
def test_function_is_documented_with_an_example_and_its_source(record: MapRecord):
    text = inspect.getdoc(find(record.name).function)
    assert text and ".. math::" in text and "Args:" in text and "Returns:" in text
    assert doctest.DocTestParser().get_examples(text)
    assert re.search(r"^Reference: .*\d{4}", text, re.MULTILINE)
    assert record.summary and record.complexity


@every_map
def test_reference_is_in_the_bibliography(record: MapRecord):
    work = work_of(record.cite)
    assert work is not None and work.short and work.bibtex.startswith("@")


@every_map
def test_name_resolves_to_its_omega(record: MapRecord):
    omega = omegamax.get(record.name, **find(record.name).example)
    assert isinstance(omega, omegamax.Omega) and omega.name == record.name
    assert omegamax.get(omega) is omega
    assert repr(omega)


@every_map
def test_module_applies_the_map(record: MapRecord):
    from omegamax import nn

    transform = find(record.name)
    title = transform.module
    module = getattr(nn, title)
    z = wide(record, 4, 6).requires_grad_()
    layer = module(**transform.example)
    assert isinstance(layer, torch.nn.Module) and inspect.getdoc(module)
    assert torch.equal(layer(z), transform(z))
    if not transform.image:
        assert torch.equal(module(**transform.example, dim=0)(z), transform(z, dim=0))
    assert title in repr(layer)
    for name, number in transform.example.items():
        assert f"{name}={list(number.shape) if isinstance(number, Tensor) else number}" in repr(layer)
    twin = pickle.loads(pickle.dumps(layer))
    assert type(twin) is module and torch.equal(twin(z), layer(z))


@every_map
def test_learnable_parameter_of_the_module_gets_a_gradient(record: MapRecord):
    transform = find(record.name)
    if transform.learnable is None:
        return
    layer = getattr(omegamax.nn, transform.module)(**transform.example, learnable=True)
    (learnt,) = layer.parameters()
    (layer(wide(record, 4, 6)) * torch.randn(4, 6, dtype=F64)).sum().backward()
    assert learnt.grad.isfinite().all() and learnt.grad != 0


@every_map
def test_named_loss_is_that_of_the_omega(record: MapRecord):
    if record.loss is None:
        return
    loss, module = getattr(omegamax.losses, record.loss), getattr(omegamax.nn, capitalize(record.loss))
    assert getattr(omegamax, record.loss) is loss and loss.__doc__ and module.__doc__
    z, y = wide(record, 10, 6), domain(record).points(6, 10)
    expected = loss_of(record, z, y)
    assert (loss(z, y, reduction="none", **record.example) - expected).abs().max() <= 1e-14
    layer = module(reduction="none", **record.example)
    assert (layer(z, y) - expected).abs().max() <= 1e-14
    assert type(pickle.loads(pickle.dumps(layer))) is module


@every_map
def test_name_chooses_the_map_in_attention_and_in_a_memory(record: MapRecord):
    omega = omega_of(record)
    q, k, v = (torch.randn(2, 5, 4, dtype=F64) for _ in range(3))
    p = omega.argmax(q @ k.mT / 2)
    assert (omegamax.nn.attention(q, k, v, omega) - p @ v).abs().max() <= 1e-13
    memory = omegamax.hopfield.Memory(k[0], omega, beta=2.0)
    step = memory.retrieve(q[0], steps=1)
    assert (step.trajectory[1] - omega.argmax(2 * q[0] @ k[0].T) @ k[0]).abs().max() <= 1e-13
    required = [a for a in find(record.name).signature.parameters.values() if a.default is a.empty]
    if not required and not find(record.name).image:
        by_name = omegamax.nn.attention(q, k, v, record.name)
        assert torch.equal(by_name, omegamax.nn.attention(q, k, v, omegamax.get(record.name)))


@every_map
def test_map_that_keeps_order_is_a_base_of_fusedmax(record: MapRecord):
    omega, z = omega_of(record), wide(record, 5, 6)
    if not omega.keeps_order:
        with pytest.raises(ValueError, match="fusedmax: base must be a map whose probabilities"):
            omegamax.fusedmax(z, 0.1, base=omega)
        return
    smooth = omegamax.tv_prox_1d(z, 0.1)
    assert (omegamax.fusedmax(z, 0.1, base=omega) - omega.argmax(smooth)).abs().max() <= 1e-14


@every_map
@given(z=scores(bound=100.0))
def test_loss_is_never_negative_and_vanishes_at_the_output(record: MapRecord, z: Tensor):
    targets = domain(record, options(record, len(z))).points(len(z), 20)
    assert (loss_of(record, z.expand_as(targets), targets) >= 0).all()
    assert loss_of(record, z, run(record, z)).item() <= 1e-13 * (1 + z.abs().max())


@every_map
def test_loss_is_the_fenchel_young_gap(record: MapRecord):
    z, y = wide(record, 10, 6), domain(record).points(6, 10)
    omega = omega_of(record)
    gap = omega.conjugate(z) + omega.within(z)(y) - (z * y).sum(-1)
    assert (loss_of(record, z, y) - gap).abs().max() <= 1e-13


@every_map
def test_loss_gradient_is_the_output_minus_the_target(record: MapRecord):
    z, y = wide(record, 10, 6).requires_grad_(), domain(record).points(6, 10)
    loss_of(record, z, y).sum().backward()
    assert (z.grad - (record(z) - y)).abs().max() <= 1e-15
    assert torch.autograd.gradcheck(lambda z: loss_of(record, z, y), z.detach().requires_grad_(), atol=1e-7)


@every_map
def test_loss_is_convex_in_the_scores(record: MapRecord):
    a, b = wide(record, 30, 5), wide(record, 30, 5, scale=5.0).flip(0)
    y = domain(record).points(5, 30)
    middle = loss_of(record, (a + b) / 2, y)
    assert (middle <= (loss_of(record, a, y) + loss_of(record, b, y)) / 2 + 1e-13).all()


def staircase(record: MapRecord, size: int, gap: float) -> tuple[Tensor, Tensor]:
    """A corner of the domain, and scores that fall by ``gap`` from each level of it to the next."""
    y = torch.zeros(size, dtype=F64)
    left = domain(record).total
    for i in range(size):
        y[i] = min(domain(record).upper, left)
        left = max(0.0, left - y[i].item())
    return torch.searchsorted(y.unique(), y).to(F64) * gap, y


FINITE = [r for r in RECORDS if math.isfinite(omega_of(r).margin) and r.equivariant]
TIGHT = [r for r in FINITE if not hasattr(omega_of(r), "upper")]


@pytest.mark.parametrize("record", FINITE, ids=lambda r: r.name)
@pytest.mark.parametrize("size", [3, 7])
def test_loss_is_exactly_zero_from_the_margin_on(record: MapRecord, size: int):
    for factor in (1, 1 + 1e-9, 2, 1e3):
        z, y = staircase(record, size, factor * omega_of(record).margin)
        assert (record(z) - y).abs().max() <= 4e-16 * (1 if record in TIGHT else z.max())
        assert loss_of(record, z, y).item() <= (0 if record in TIGHT else 1e-15 * z.max() ** 2)


# With ceilings the margin of the base map is enough, but not always needed.
@pytest.mark.parametrize("record", TIGHT, ids=lambda r: r.name)
@pytest.mark.parametrize("size", [3, 7])
def test_loss_is_positive_below_the_margin(record: MapRecord, size: int):
    for factor in (0.99, 0.9, 0.5, 0):
        z, y = staircase(record, size, factor * omega_of(record).margin)
        assert loss_of(record, z, y).item() > 0


# That of oscarmax grows with the row: no gap is enough for all, though one is for each.
ENDLESS = [r for r in RECORDS if math.isinf(omega_of(r).margin) and not hasattr(omega_of(r), "lead")]


@pytest.mark.parametrize("record", ENDLESS, ids=lambda r: r.name)
def test_loss_without_a_margin_stays_positive(record: MapRecord):
    z, y = staircase(record, 4, 20.0)
    assert loss_of(record, z, y).item() > 0
