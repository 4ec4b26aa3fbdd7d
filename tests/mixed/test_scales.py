"""Distributions on the faces over many decades of scale: all mass is somewhere, and where samples are."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from omegamax.mixed import (
    GaussianSparsemax,
    GumbelSoftmax,
    HardConcrete,
    LogisticNormal,
    MaxEntropyMixed,
    MixedDirichlet,
    entropy,
    faces,
    kl_divergence,
)

F64 = torch.float64
SCALES = [10.0**k for k in range(-6, 7)]
# The error of all faces together, by the number of vertices.
ERRORS = {2: 1e-13, 3: 1e-12, 4: 1e-11, 5: 1e-8, 6: 1e-6}


def gaussian(loc: Tensor, scale: float, form: str) -> GaussianSparsemax:
    size = loc.shape[-1]
    factor = torch.linspace(-1, 1, size, dtype=F64).unsqueeze(-1)
    cov = factor @ factor.mT + torch.eye(size, dtype=F64)
    if form == "scale":
        return GaussianSparsemax(loc, scale)
    if form == "cov":
        return GaussianSparsemax(loc, cov=scale**2 * cov)
    if form == "scale_tril":
        return GaussianSparsemax(loc, scale_tril=scale * torch.linalg.cholesky(cov))
    return GaussianSparsemax(loc, cov_factor=scale * factor, cov_diag=torch.full((size,), scale**2, dtype=F64))


@pytest.mark.parametrize("vertices", [2, 3, 4, 5])
@pytest.mark.parametrize("form", ["scale", "cov", "scale_tril", "low rank"])
def test_faces_have_all_the_mass(vertices, form):
    loc = torch.randn(vertices, dtype=F64) * 0.4
    for scale in SCALES if vertices < 5 else SCALES[::4]:
        probs = gaussian(loc, scale, form).face_probs()
        assert (probs >= 0).all()
        assert abs(probs.sum().item() - 1) < ERRORS[vertices], scale


@pytest.mark.parametrize("scale", [1e-4, 0.1, 3.0])
def test_six_vertices(scale):
    probs = GaussianSparsemax(torch.linspace(-0.3, 0.4, 6, dtype=F64), scale).face_probs()
    assert abs(probs.sum().item() - 1) < ERRORS[6]


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("scale", [1e-30, 1e-8, 1e8, 1e30])
def test_scales_that_no_one_should_use(dtype, scale):
    p = GaussianSparsemax(torch.tensor([0.3, 0.2, 0.0], dtype=dtype), scale)
    probs = p.face_probs()
    assert abs(probs.double().sum().item() - 1) < 1e-6
    assert probs.argmax() == 6 if scale < 1 else (probs[:3] > 0.3).all()


@pytest.mark.parametrize("scale", SCALES)
def test_ties_at_the_border_of_faces(scale):
    """A location on the border between an edge and a vertex, where half of the mass goes either way at small scales."""
    p = GaussianSparsemax(torch.tensor([1.0, 0.0, -9.0], dtype=F64), scale)
    vertex, edge = p.face_probs()[0], p.face_probs()[3]
    if scale <= 1e-2:
        torch.testing.assert_close(vertex, torch.tensor(0.5, dtype=F64), rtol=0, atol=1e-12)
        torch.testing.assert_close(edge, torch.tensor(0.5, dtype=F64), rtol=0, atol=1e-12)
    # Three equal entries: all faces of a size are alike.
    probs = GaussianSparsemax(torch.zeros(3, dtype=F64), scale).face_probs()
    for group in (probs[:3], probs[3:6]):
        torch.testing.assert_close(group, group[:1].expand(3), rtol=1e-10, atol=1e-14)


@pytest.mark.parametrize("scale", [1e-3, 0.05, 0.5, 20.0])
@pytest.mark.parametrize("form", ["scale", "cov", "low rank"])
def test_samples_hit_faces_as_often_as_the_probabilities_say(scale, form):
    p = gaussian(torch.tensor([0.6, 0.1, -0.2, -0.3999], dtype=F64), scale, form)
    count = 40000
    hit = (p.sample((count,)) > 0).unsqueeze(-2) == faces(4)
    share, probs = hit.all(-1).double().mean(0), p.face_probs()
    assert ((share - probs).abs() <= 5 * (probs * (1 - probs) / count).sqrt() + 1e-9).all()


def test_probability_of_a_vertex_is_its_density():
    for scale in SCALES:
        p = GaussianSparsemax(torch.tensor([0.9, 0.1, 0.3], dtype=F64), scale)
        vertices = torch.eye(3, dtype=F64)
        torch.testing.assert_close(p.log_face_prob(vertices > 0), p.log_prob(vertices), rtol=1e-10, atol=1e-10)


def test_face_probabilities_are_differentiable():
    loc, scale = torch.tensor([0.4, 0.1, -0.2], dtype=F64), torch.tensor([0.3, 0.2, 0.5], dtype=F64)

    def probs(loc: Tensor, scale: Tensor) -> Tensor:
        return GaussianSparsemax(loc, scale, validate_args=False).face_probs()

    assert torch.autograd.gradcheck(probs, (loc.requires_grad_(), scale.requires_grad_()))
    for size in (1e-6, 1e6):
        leaf = torch.full((3,), size, dtype=F64, requires_grad=True)
        (gradient,) = torch.autograd.grad(probs(loc.detach(), leaf)[6], leaf)
        assert gradient.isfinite().all()


def test_batches_of_one_none_and_many():
    loc = torch.randn(5, 3, dtype=F64) * 0.3
    scale = torch.tensor([1e-3, 0.1, 1.0, 10.0, 1e3], dtype=F64).unsqueeze(-1).expand(5, 3)
    every = GaussianSparsemax(loc, scale).face_probs()
    for i in range(5):
        torch.testing.assert_close(GaussianSparsemax(loc[i : i + 1], scale[i : i + 1]).face_probs()[0], every[i])
    assert GaussianSparsemax(loc[:0], scale[:0]).face_probs().shape == (0, 7)


@pytest.mark.parametrize("scale", [1e-3, 1e-2])
def test_a_quadrature_that_misses_the_mass_says_so(scale):
    p = GaussianSparsemax(torch.tensor([0.31, 0.22, 0.1], dtype=F64), scale)
    q = GaussianSparsemax(torch.tensor([0.3, 0.2, 0.1], dtype=F64), 2 * scale)
    for estimate in (entropy(p, order=12), kl_divergence(p, q, order=12)):
        assert estimate.error == math.inf
    assert entropy(GaussianSparsemax(torch.zeros(3, dtype=F64), 0.7), order=24).error < 1e-8


@pytest.mark.parametrize("size", [10.0**k for k in range(-6, 7, 3)])
def test_the_other_distributions_have_all_their_mass(size):
    logits = torch.tensor([0.5, 0.0, -1.0], dtype=F64)
    distributions = [
        MixedDirichlet(logits * min(size, 100.0), torch.full((3,), size, dtype=F64)),
        GumbelSoftmax(size, logits=logits),
        GumbelSoftmax(size, logits=logits, hard=True),
        HardConcrete(size, logits=logits[:2]),
        LogisticNormal(logits, size),
        MaxEntropyMixed(3, bits=torch.tensor(min(size, 100.0), dtype=F64)),
    ]
    for distribution in distributions:
        assert abs(distribution.face_probs().double().sum().item() - 1) < 1e-6, distribution
