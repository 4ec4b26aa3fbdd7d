"""Tensors of every kind: those that are refused, with words, and what may be done with a result."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import omegamax
from contracts.records import RECORDS, every_map, wide
from omegamax.maps import MapRecord

Y = torch.eye(4)
# Every entry that takes scores, logits or parameters: what is called with a tensor of 4 x 4, and the argument's name.
ENTRIES = {record.name: (record, "z") for record in RECORDS}
ENTRIES |= {
    "graph_fusedmax": (lambda x: omegamax.graph_fusedmax(x, torch.tensor([[0, 1], [1, 2]])), "z"),
    "fusedmax by strength": (lambda x: omegamax.fusedmax(Y, x), "strength"),
    "entmax by alpha": (lambda x: omegamax.entmax(Y, x), "alpha"),
    "k_subsets by k": (lambda x: omegamax.k_subsets(Y, x), "k"),
    "constrained_softmax by upper": (lambda x: omegamax.constrained_softmax(Y, x), "upper"),
    "constrained_sparsemax by lower": (lambda x: omegamax.constrained_sparsemax(Y, 1.0, lower=x), "lower"),
    "sequential_k_subsets by transition": (lambda x: omegamax.sequential_k_subsets(Y, 2, x), "transition"),
    "tv_prox_1d": (lambda x: omegamax.tv_prox_1d(x, 0.1), "x"),
    "tv_prox_2d": (lambda x: omegamax.tv_prox_2d(x, 0.1), "x"),
    "oscar_prox": (lambda x: omegamax.oscar_prox(x, 0.1), "x"),
    "sparsemax_loss": (lambda x: omegamax.sparsemax_loss(x, torch.arange(4)), "z"),
    "entmax_loss by weight": (lambda x: omegamax.entmax_loss(Y, torch.arange(4), weight=x), "weight"),
    "normmax_loss by target": (lambda x: omegamax.normmax_loss(Y, x), "target"),
    "fenchel_young_loss": (lambda x: omegamax.fenchel_young_loss(x, Y, "entmax15"), "z"),
    "fenchel_young_loss by y": (lambda x: omegamax.fenchel_young_loss(Y, x, "entmax15"), "y"),
    "linear_entmax_loss": (lambda x: omegamax.linear_entmax_loss(x, Y, torch.arange(4)), "hidden"),
    "linear_entmax_loss by weight": (lambda x: omegamax.linear_entmax_loss(Y, x, torch.arange(4)), "weight"),
    "linear_entmax_loss by bias": (lambda x: omegamax.linear_entmax_loss(Y, Y, torch.arange(4), bias=x), "bias"),
    "attention by q": (lambda x: omegamax.nn.attention(x, Y, Y), "q"),
    "attention by k": (lambda x: omegamax.nn.attention(Y, x, Y), "k"),
    "attention by v": (lambda x: omegamax.nn.attention(Y, Y, x), "v"),
    "BetaGaussian": (lambda x: omegamax.densities.BetaGaussian(x, torch.eye(4)), "loc"),
    "BetaGaussian by scale": (lambda x: omegamax.densities.BetaGaussian(torch.zeros(4), x), "scale"),
    "BetaLaplace": (lambda x: omegamax.densities.BetaLaplace(x, torch.ones(4)), "loc"),
    "GridDensity": (lambda x: omegamax.densities.GridDensity(x, Y, torch.ones(4)), "scores"),
}
KINDS = {
    "float8": (lambda: torch.eye(4).to(torch.float8_e4m3fn), "float8_e4m3fn"),
    "coo": (lambda: torch.eye(4).to_sparse(), "layout torch.sparse_coo"),
    "csr": (lambda: torch.eye(4).to_sparse_csr(), "layout torch.sparse_csr"),
    "nested": (lambda: torch.nested.nested_tensor([torch.ones(4), torch.ones(3)]), "a nested one"),
    "jagged": (
        lambda: torch.nested.nested_tensor([torch.ones(4), torch.ones(3)], layout=torch.jagged),
        "a nested one",
    ),
}


@pytest.mark.filterwarnings("ignore:Sparse CSR:UserWarning", "ignore:The PyTorch API of nested:UserWarning")
@pytest.mark.filterwarnings("ignore:Sparse invariant checks:UserWarning")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("entry", ENTRIES)
def test_tensors_that_are_not_dense_are_refused_with_words(entry: str, kind: str):
    call, argument = ENTRIES[entry]
    make, given = KINDS[kind]
    with pytest.raises(TypeError, match=rf"^{entry.split()[0]}: {argument} must .* got .*{given}"):
        call(make())


def in_place_steps(p: Tensor) -> None:
    p += 1
    p.mul_(2)
    p[..., 0] = 3.0
    p.clamp_(max=4.0)


@every_map
@pytest.mark.parametrize("dim", [-1, 0])
@pytest.mark.parametrize("rows", [1, 6])
@pytest.mark.parametrize("backend", ["auto", "reference"])
def test_results_take_steps_in_place(record: MapRecord, dim: int, rows: int, backend: str):
    z = wide(record, rows, 6) if dim else wide(record, rows, 6).mT.contiguous()
    with omegamax.backend(backend):
        want = record(z, dim=dim)
        in_place_steps(want)
        leaf = z.clone().requires_grad_()
        p = record(leaf, dim=dim)
        in_place_steps(p)
        assert torch.equal(p.detach(), want) and p.requires_grad
        with torch.no_grad():
            p = record(leaf, dim=dim)
            in_place_steps(p)
    assert torch.equal(p, want)


@every_map
def test_a_step_in_place_that_keeps_the_values_is_differentiated_through(record: MapRecord):
    z = wide(record, 3, 6).requires_grad_()
    g = torch.randn(3, 6, dtype=torch.float64)
    (plain,) = torch.autograd.grad(record(z), z, g)
    (stepped,) = torch.autograd.grad(record(z).clone().mul_(2), z, g)
    assert (stepped - 2 * plain).abs().max() <= 1e-14
    # What the gradient needs was overwritten: an error, as for torch.softmax, and never a wrong gradient.
    try:
        (stepped,) = torch.autograd.grad(record(z).mul_(2), z, g)
    except RuntimeError as error:
        assert "modified by an inplace operation" in str(error)
    else:
        assert (stepped - 2 * plain).abs().max() <= 1e-14
