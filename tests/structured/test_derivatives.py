"""Derivatives of marginals and probabilities, in every mode, against finite differences."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck
from torch.func import jacfwd, jacrev, vjp, vmap

from omegamax import kernels
from omegamax.structured import Sequence, SequentialSubsets, Subsets, sparsemap
from structured.cases import F64, Case, every_case, some_cases


def generic(case: Case, rows: int, seed: int = 0) -> tuple[Tensor, Tensor | None]:
    """Scores in whose neighbourhood the same structures are in use: the probabilities are far from zero, and every
    structure left out falls far short."""
    scores, additional = case.draw(60, seed=seed)
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    slope = case.linear(scores - u, additional)
    used = (case.structures.flatten(1) == found.structures.flatten(2)[:, :, None]).all(-1)
    used = (used & (found.probabilities > 0)[..., None]).any(1)
    firm = torch.where(found.probabilities > 0, found.probabilities, 1.0).amin(-1) > 1e-3
    lead = torch.where(used, slope, torch.inf).amin(-1) - torch.where(used, -torch.inf, slope).amax(-1)
    kept = (firm & (lead > 1e-3)).nonzero()[:rows, 0]
    assert len(kept) == rows
    return scores[kept], None if additional is None else additional[kept]


@every_case
def test_marginals_match_finite_differences(case: Case):
    scores, additional = generic(case, 1)
    inputs = [scores.requires_grad_()] + ([] if additional is None else [additional.requires_grad_()])

    def marginals(*inputs: Tensor) -> tuple[Tensor, ...]:
        u, found = sparsemap(inputs[0], case.factor, *inputs[1:], return_structures=True)
        return (u, found.additional_marginals) if len(inputs) > 1 else (u,)

    assert gradcheck(marginals, inputs, atol=1e-8, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(marginals, inputs, atol=1e-8, fast_mode=True)


@some_cases
def test_probabilities_match_finite_differences(case: Case):
    scores, additional = generic(case, 1)
    inputs = [scores.requires_grad_()] + ([] if additional is None else [additional.requires_grad_()])

    def probabilities(*inputs: Tensor) -> Tensor:
        return sparsemap(inputs[0], case.factor, *inputs[1:], return_structures=True)[1].probabilities

    assert gradcheck(probabilities, inputs, atol=1e-8, check_forward_ad=True)
    assert gradgradcheck(probabilities, inputs, atol=1e-8, fast_mode=True)


@some_cases
def test_jacobian_is_symmetric_positive_and_the_same_forwards(case: Case):
    scores, _ = generic(case, 1)
    scores = scores[0]
    size = scores.numel()

    def f(flat: Tensor) -> Tensor:
        return sparsemap(flat.reshape(case.event), case.factor).flatten()

    backward, forward = jacrev(f)(scores.flatten()), jacfwd(f)(scores.flatten())
    assert backward.shape == (size, size)
    assert (backward - forward).abs().max() <= 1e-14
    assert (backward - backward.T).abs().max() <= 1e-14
    assert torch.linalg.eigvalsh(backward).min() >= -1e-13
    if not isinstance(case.factor, Subsets):
        # A projection onto the face, where no additional scores interfere.
        assert (backward @ backward - backward).abs().max() <= 1e-12


@some_cases
def test_both_backends_have_the_same_derivatives(case: Case):
    scores, additional = generic(case, 3)
    g = torch.randn(scores.shape, dtype=F64)
    grads = []
    for backend in ("reference", "auto"):
        leaf = scores.clone().requires_grad_()
        with kernels.backend(backend):
            sparsemap(leaf, case.factor, additional).backward(g)
        grads.append(leaf.grad)
    assert (grads[0] - grads[1]).abs().max() <= 1e-13


@some_cases
def test_gradient_at_ties_is_finite_and_one_of_the_face(case: Case):
    scores, additional = case.draw(10)
    scores = scores.round().requires_grad_()
    additional = None if additional is None else additional.round().requires_grad_()
    u, found = sparsemap(scores, case.factor, additional, return_structures=True)
    (u.square().sum() + found.probabilities.square().sum()).backward()
    assert scores.grad.isfinite().all()
    assert additional is None or additional.grad.isfinite().all()
    # Probabilities sum to one wherever the scores go.
    total = sparsemap(scores, case.factor, additional, return_structures=True)[1].probabilities.sum()
    (flat,) = torch.autograd.grad(total, scores)
    assert flat.abs().max() <= 1e-13


def test_gradients_reach_the_parameters_of_a_factor():
    z = torch.tensor([[0.3, -0.2, 0.9, 0.1, 0.55], [0.0, 0.7, 0.2, -0.4, 0.6]], dtype=F64)
    for transition in (0.35, [0.1, 0.4, -0.2, 0.3]):
        t = torch.tensor(transition, dtype=F64, requires_grad=True)
        assert gradcheck(lambda t: sparsemap(z, SequentialSubsets(2, t)), t, atol=1e-8)
    scores = torch.randn(2, 4, 3, dtype=F64)
    start, transition, end = (torch.randn(*shape, dtype=F64, requires_grad=True) for shape in ((3,), (3, 3), (2, 3)))
    inputs = (start, transition, end)
    assert gradcheck(lambda *p: sparsemap(scores, Sequence(*p)), inputs, atol=1e-8)
    each = torch.randn(3, 3, 3, dtype=F64, requires_grad=True)
    assert gradcheck(lambda t: sparsemap(scores, Sequence(transition=t)), each, atol=1e-8)


@some_cases
def test_float32_gradients_agree_with_float64(case: Case):
    scores, additional = generic(case, 3)
    single, double = scores.float().requires_grad_(), scores.float().double().requires_grad_()
    more = None if additional is None else additional.float()
    g = torch.randn(scores.shape)
    sparsemap(single, case.factor, more).backward(g)
    sparsemap(double, case.factor, None if more is None else more.double()).backward(g.double())
    assert single.grad.dtype == torch.float32
    assert (single.grad.double() - double.grad).abs().max() <= 1e-6


@some_cases
def test_no_graph_is_kept_where_none_is_wanted(case: Case):
    scores, additional = case.draw(2)
    assert not sparsemap(scores, case.factor, additional).requires_grad
    scores.requires_grad_()
    with torch.no_grad():
        assert not sparsemap(scores, case.factor, additional).requires_grad
    assert sparsemap(scores, case.factor, additional).requires_grad


def test_generic_scores_mix_several_structures():
    # Lest the checks above run at corners, where every derivative is zero.
    for name, count in (("SequentialSubsets", 3), ("DependencyTree", 3), ("Sequence", 3)):
        from structured.cases import CASES

        case = next(c for c in CASES if c.name == name)
        scores, additional = generic(case, 2)
        found = sparsemap(scores, case.factor, additional, return_structures=True)[1]
        assert found.count.max() >= count, name


@some_cases
def test_vmap_maps_over_either_score(case: Case):
    scores, additional = generic(case, 4)
    whole = sparsemap(scores, case.factor, additional)

    def f(scores: Tensor, additional: Tensor | None = None) -> Tensor:
        return sparsemap(scores, case.factor, additional)

    inputs = (scores,) if additional is None else (scores, additional)
    assert (vmap(f)(*inputs) - whole).abs().max() <= 1e-14
    pairs = [a.reshape(2, 2, *a.shape[1:]) for a in inputs]
    assert (vmap(f, in_dims=1)(*pairs).transpose(0, 1).reshape(whole.shape) - whole).abs().max() <= 1e-14
    assert (vmap(vmap(f))(*pairs).reshape(whole.shape) - whole).abs().max() <= 1e-14
    with pytest.raises(NotImplementedError, match=r"sparsemap: no derivatives inside torch\.vmap"):
        vmap(lambda g, s: vjp(f, s)[1](g)[0])(scores, scores)
    if additional is not None:
        shared = vmap(f, (None, 0))(scores[0], additional)
        assert (shared - f(scores[:1].expand_as(scores), additional)).abs().max() <= 1e-14
    with pytest.raises(NotImplementedError, match=r"sparsemap: return_structures .* torch\.vmap"):
        vmap(lambda s: sparsemap(s, case.factor, return_structures=True)[0])(scores)
