"""Derivatives of every registered map, in every mode torch has, against finite differences and each other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.autograd.gradcheck import gradcheck, gradgradcheck
from torch.func import hessian, jacfwd, jacrev, jvp, vjp, vmap

from contracts.records import domain, every_map, run, wide
from omegamax.maps import MapRecord

F64 = torch.float64
every_axis = pytest.mark.parametrize("dim", [0, 1, -1, -2])


@every_map
@every_axis
def test_first_derivative_matches_finite_differences(record: MapRecord, dim: int, generic_scores):
    z = generic_scores(record, 3, 4, dim=dim).requires_grad_()
    assert gradcheck(
        lambda z: record(z, dim=dim),
        z,
        atol=1e-7,
        check_forward_ad=True,
        check_batched_grad=True,
        check_batched_forward_grad=True,
    )


@every_map
@every_axis
def test_second_derivative_matches_finite_differences(record: MapRecord, dim: int, generic_scores):
    z = generic_scores(record, 3, 4, dim=dim).requires_grad_()
    assert gradgradcheck(lambda z: record(z, dim=dim), z, atol=1e-7, check_fwd_over_rev=True)


@every_map
def test_first_derivative_matches_finite_differences_where_entries_are_masked(record: MapRecord, generic_scores):
    mask = torch.tensor([True, False, True, True, True])
    z = generic_scores(lambda z: record(z, mask=mask), 3, 5).requires_grad_()
    assert gradcheck(lambda z: record(z, mask=mask), z, atol=1e-7, check_forward_ad=True, check_batched_grad=True)


@every_map
def test_jacobian_is_symmetric_positive_and_blind_to_shifts(record: MapRecord):
    z = wide(record, 1, 7, scale=1.0)[0]
    jacobian = jacrev(record)(z)
    assert (jacobian - jacobian.T).abs().max() <= 1e-14
    assert torch.linalg.eigvalsh(jacobian).min() >= -1e-13
    assert jacobian.sum(-1).abs().max() <= 1e-13


@every_map
def test_forward_mode_agrees_with_reverse_mode(record: MapRecord, generic_scores):
    z = generic_scores(record, 6)
    assert (jacfwd(record)(z) - jacrev(record)(z)).abs().max() <= 1e-14
    tangent = torch.randn(6, dtype=F64)
    p, push = jvp(record, (z,), (tangent,))
    q, pull = vjp(record, z)
    assert torch.equal(p, q)
    assert (push - pull(tangent)[0]).abs().max() <= 1e-14  # the Jacobian is symmetric
    with forward_ad.dual_level():
        dual = forward_ad.unpack_dual(record(forward_ad.make_dual(z, tangent)))
    assert (dual.tangent - push).abs().max() <= 1e-15


@every_map
def test_hessian_of_the_conjugate_is_the_jacobian_of_the_map(record: MapRecord, generic_scores):
    z = generic_scores(record, 6)
    omega = record.omega(**record.example)
    assert (hessian(omega.conjugate)(z) - jacrev(record)(z)).abs().max() <= 1e-13


@every_map
def test_second_derivatives_agree_in_either_order_of_modes(record: MapRecord, generic_scores):
    z = generic_scores(record, 4)
    weights = torch.randn(4, dtype=F64)

    def f(z: Tensor) -> Tensor:
        return (weights * record(z)).sum()

    reference = jacrev(jacrev(f))(z)
    for inner, outer in ((jacrev, jacfwd), (jacfwd, jacrev)):
        assert (outer(inner(f))(z) - reference).abs().max() <= 1e-12


@every_map
@pytest.mark.parametrize("in_dim", [0, 1, 2, -1])
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_vmap_maps_over_any_axis(record: MapRecord, in_dim: int, dim: int):
    z = wide(record, 16, 4).reshape(4, 4, 4)
    expected = torch.stack([run(record, x, dim=dim) for x in z.unbind(in_dim)])
    assert (vmap(lambda x: run(record, x, dim=dim), in_dims=in_dim)(z) - expected).abs().max() <= 1e-14


@every_map
def test_vmap_maps_over_scores_and_masks(record: MapRecord):
    z, mask = wide(record, 5, 6), torch.rand(5, 6) < 0.5
    mask[:, :2] = True
    both = vmap(lambda x, m: record(x, mask=m))(z, mask)
    assert (both - record(z, mask=mask)).abs().max() <= 1e-15
    shared = vmap(lambda m: record(z[0], mask=m))(mask)
    assert (shared - record(z[:1].expand(5, 6), mask=mask)).abs().max() <= 1e-15


@every_map
def test_vmap_nests_and_composes_with_gradients(record: MapRecord, generic_scores):
    z = generic_scores(record, 2, 3, 5)
    twice = vmap(vmap(jacrev(record)))(z)
    assert twice.shape == (2, 3, 5, 5)
    assert (twice[1, 2] - jacrev(record)(z[1, 2])).abs().max() <= 1e-14
    weights = torch.randn(5, dtype=F64)
    per_sample = vmap(torch.func.grad(lambda x: record(x) @ weights))(z[0])
    leaf = z[0].clone().requires_grad_()
    (record(leaf) @ weights).sum().backward()
    assert (per_sample - leaf.grad).abs().max() <= 1e-14


@every_map
def test_gradient_of_the_sum_is_zero(record: MapRecord):
    z = wide(record, 20, 8).requires_grad_()
    run(record, z).sum().backward()
    assert z.grad.abs().max() <= 1e-14


@every_map
@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_gradient_of_tied_and_constant_rows_is_finite(record: MapRecord, dtype: torch.dtype):
    z = torch.tensor([[0.0, 0, 0, 0], [1, 1, 0, 0], [1, 0, 0, -1], [5, 5, 5, -5]], dtype=dtype, requires_grad=True)
    p = record(z)
    p.backward(torch.randn(4, 4, dtype=dtype))
    assert z.grad.isfinite().all()
    assert z.grad.sum(-1).abs().max() <= 1e-5


@every_map
@pytest.mark.parametrize("scale", [1e-30, 1e-6, 1e6, 1e30])
def test_gradient_is_finite_at_every_scale(record: MapRecord, scale: float):
    for dtype in (torch.float32, F64):
        z = (scale * wide(record, 10, 6, dtype)).requires_grad_()
        record(z).backward(torch.randn(10, 6, dtype=dtype))
        assert z.grad.isfinite().all()


@every_map
def test_float32_gradient_agrees_with_float64(record: MapRecord, generic_scores):
    single = generic_scores(record, 10, 8).float().requires_grad_()
    double = single.detach().double().requires_grad_()
    g = torch.randn(10, 8)
    record(single).backward(g)
    record(double).backward(g.double())
    assert (single.grad.double() - double.grad).abs().max() <= 1e-6 * (1 + double.grad.abs().max())


@every_map
def test_no_graph_is_kept_where_none_is_wanted(record: MapRecord):
    z = wide(record, 2, 5)
    assert not record(z).requires_grad
    z.requires_grad_()
    with torch.no_grad():
        assert not record(z).requires_grad
    with torch.inference_mode():
        p = record(z)
    assert torch.equal(p, record(z).detach())
    assert domain(record).total == pytest.approx(p.sum(-1).mean().item())


@every_map
def test_graph_can_be_used_twice_and_freed(record: MapRecord):
    z = wide(record, 2, 5).requires_grad_()
    p = record(z)
    g = torch.randn(2, 5, dtype=F64)
    once = torch.autograd.grad(p, z, g, retain_graph=True)[0]
    assert torch.equal(torch.autograd.grad(p, z, g)[0], once)
    with pytest.raises(RuntimeError, match="second time"):
        torch.autograd.grad(p, z, g)
