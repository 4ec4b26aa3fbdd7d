"""What every registered map makes of edge cases: masks, infinities, NaN, ties, shapes, strides, dtypes."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from contracts.records import domain, every_map, options, run, scores, wide
from omegamax.maps import MapRecord

F64 = torch.float64
both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, F64], ids=["float32", "float64"])
both_halves = pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=["float16", "bfloat16"])


@every_map
@given(z=scores(min_size=4), seed=st.integers(0, 99))
def test_masked_entry_is_as_good_as_deleted(record: MapRecord, z: Tensor, seed: int):
    mask = torch.rand(len(z), generator=torch.Generator().manual_seed(seed)) < 0.6
    mask[:2] = True  # enough entries for every example
    if not record.equivariant:  # neighbours of a deleted entry would meet
        mask = torch.arange(len(z)) < mask.sum()
    p = record(z, mask=mask)
    assert (p[~mask] == 0).all()
    assert torch.equal(p, record(z.masked_fill(~mask, -math.inf)))
    assert (p[mask] - record(z[mask])).abs().max() <= 1e-15


@every_map
@both_dtypes
def test_mask_broadcasts_to_the_scores(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 4, 5, dtype).reshape(2, 2, 5)
    mask = torch.tensor([True, True, False, True, True])
    assert torch.equal(record(z, mask=mask), record(z, mask=mask.expand(2, 2, 5)))
    rows = torch.tensor([[True], [False]])
    p = record(z, mask=rows)
    assert torch.equal(p[:, 0], record(z[:, 0])) and (p[:, 1] == 0).all()


@every_map
def test_mask_of_the_wrong_kind_is_refused(record: MapRecord):
    z = wide(record, 2, 4)
    with pytest.raises(TypeError, match=rf"{record.name}: mask .*int64"):
        record(z, mask=torch.ones(2, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=rf"{record.name}: mask of shape \(3, 4\)"):
        record(z, mask=torch.ones(3, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=rf"{record.name}: mask of shape \(1, 2, 4\)"):
        record(z, mask=torch.ones(1, 2, 4, dtype=torch.bool))


@every_map
@both_dtypes
def test_masked_entry_gets_no_gradient_and_sends_none(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 3, 6, dtype)
    g = torch.randn(3, 6, dtype=dtype)
    mask = torch.tensor([True, True, True, True, False, False])
    if record.equivariant:
        mask = torch.tensor([True, False, True, True, False, True])
    whole = z.clone().requires_grad_()
    record(whole, mask=mask).backward(g)
    part = z[:, mask].requires_grad_()
    record(part).backward(g[:, mask])
    assert (whole.grad[:, ~mask] == 0).all()
    assert (whole.grad[:, mask] - part.grad).abs().max() <= 8 * torch.finfo(dtype).eps


@every_map
@both_dtypes
@pytest.mark.parametrize("way", ["mask", "-inf"])
def test_fully_masked_row_is_zero_with_zero_gradient(record: MapRecord, dtype: torch.dtype, way: str):
    z = wide(record, 3, 5, dtype)
    mask = torch.tensor([[True], [False], [True]]).expand(3, 5)
    if way == "-inf":
        z[1] = -math.inf
    z.requires_grad_()
    p = record(z, mask=mask if way == "mask" else None)
    assert (p[1] == 0).all()
    p.backward(torch.randn(3, 5, dtype=dtype))
    assert (z.grad[1] == 0).all()
    clean = z.detach()[[0, 2]].requires_grad_()
    assert torch.equal(p[[0, 2]], record(clean))


@every_map
@both_dtypes
@pytest.mark.parametrize("bad", [math.nan, math.inf], ids=["nan", "inf"])
@pytest.mark.parametrize("dim", [0, 1])
def test_bad_entry_spoils_its_own_row_only(record: MapRecord, dtype: torch.dtype, bad: float, dim: int):
    clean = wide(record, 5, 6, dtype)
    z = clean.clone()
    z[3, 2] = bad
    if dim == 0:
        clean, z = clean.T.contiguous(), z.T.contiguous()
    inputs = [clean.requires_grad_(), z.requires_grad_()]
    outputs = [record(x, dim=dim) for x in inputs]
    g = torch.randn_like(outputs[0])
    grads = [torch.autograd.grad(p, x, g)[0] for p, x in zip(outputs, inputs, strict=True)]
    before, after, grad_before, grad_after = (t.movedim(dim, -1) for t in (*outputs, *grads))
    others = [0, 1, 2, 4]
    assert after[3].isnan().all()
    assert torch.equal(after[others], before[others])
    assert torch.equal(grad_after[others], grad_before[others])


@every_map
@both_dtypes
def test_infinities_of_both_signs_give_nan(record: MapRecord, dtype: torch.dtype):
    z = torch.tensor([[math.inf, -math.inf, 0, 0], [math.inf] * 4, [math.nan, -math.inf, -math.inf, 0.0]])
    assert record(z.to(dtype)).isnan().all()


@every_map
@both_dtypes
def test_nan_under_the_mask_is_not_seen(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 2, 5, dtype)
    bad = z.clone()
    bad[:, 1], bad[:, 3] = math.nan, math.inf
    mask = torch.tensor([True, False, True, False, True])
    bad.requires_grad_()
    p = record(bad, mask=mask)
    assert torch.equal(p, record(z, mask=mask))
    p.sum().backward()
    assert bad.grad.isfinite().all()


@every_map
@both_dtypes
def test_single_entry_gets_everything(record: MapRecord, dtype: torch.dtype):
    total = domain(record, options(record, 1)).total
    for level in (0.0, -7.25, 1e20, -1e20):
        z = torch.tensor([[level]], dtype=dtype, requires_grad=True)
        p = run(record, z)
        assert p.item() == total
        assert torch.autograd.grad(p.sum(), z)[0].item() == 0
    assert run(record, torch.tensor([-math.inf], dtype=dtype)).item() == 0


@every_map
@both_dtypes
def test_scalar_scores_are_a_row_of_one(record: MapRecord, dtype: torch.dtype):
    z = torch.tensor(0.3, dtype=dtype)
    for dim in (0, -1):
        p = run(record, z, dim=dim)
        assert p.shape == () and p.dtype == dtype
        assert p.item() == domain(record, options(record, 1)).total
    with pytest.raises(IndexError, match=record.name):
        run(record, z, dim=1)


@every_map
def test_row_without_entries_is_refused(record: MapRecord):
    for shape, dim in (((3, 0), -1), ((0,), 0), ((0, 3), 0)):
        with pytest.raises(ValueError, match=rf"{record.name}: .*{dim % len(shape)}.*shape"):
            record(torch.empty(shape), dim=dim)


@every_map
@pytest.mark.parametrize("shape", [(0, 5), (3, 0, 5), (0, 0, 4)])
def test_batch_without_rows_stays_empty(record: MapRecord, shape: tuple[int, ...]):
    z = torch.empty(shape, requires_grad=True)
    p = record(z)
    assert p.shape == shape
    p.sum().backward()
    assert z.grad.shape == shape


@every_map
@both_dtypes
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2, -3])
def test_any_axis_gives_the_same_rows(record: MapRecord, dtype: torch.dtype, dim: int):
    z = wide(record, 20, 6, dtype).reshape(4, 5, 6)
    g = torch.randn_like(z)
    last, other = z.clone().requires_grad_(), z.movedim(-1, dim).contiguous().requires_grad_()
    p, q = record(last), record(other, dim=dim)
    assert (q.movedim(dim, -1) - p).abs().max() <= 4 * torch.finfo(dtype).eps
    p.backward(g)
    q.backward(g.movedim(-1, dim).contiguous())
    assert (other.grad.movedim(dim, -1) - last.grad).abs().max() <= 32 * torch.finfo(dtype).eps


@every_map
@pytest.mark.parametrize("dim", [2, -3, 7])
def test_axis_out_of_range_is_refused(record: MapRecord, dim: int):
    with pytest.raises(IndexError, match=rf"{record.name}: dim={dim} is out of range for scores of shape \(2, 4\)"):
        record(torch.zeros(2, 4), dim=dim)


@every_map
@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.bool, torch.complex64])
def test_scores_that_are_not_floating_are_refused(record: MapRecord, dtype: torch.dtype):
    with pytest.raises(TypeError, match=rf"{record.name}: z must be .*{dtype}"):
        record(torch.zeros(2, 4, dtype=dtype))


@every_map
def test_scores_that_are_no_tensor_are_refused(record: MapRecord):
    with pytest.raises(TypeError, match=rf"{record.name}: z must be .*list"):
        record([0.0, 1.0, 2.0])


LAYOUTS = {
    "transposed": lambda z: z.mT.contiguous().mT,
    "strided": lambda z: torch.stack([z, -z, z], -1).flatten(-2)[..., ::3],
    "offset": lambda z: torch.cat([z[..., :1], z], -1)[..., 1:],
    "channels_last": lambda z: z.reshape(2, 2, 3, 6).to(memory_format=torch.channels_last),
    "expanded": lambda z: z[:1].expand(4, 3, 6),
    "tied within a row": lambda z: z[..., :1].expand(4, 3, 6),
    "negated view": lambda z: torch._neg_view(z),
}


@every_map
@both_dtypes
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [-1, -2, 0])
def test_memory_layout_does_not_matter(record: MapRecord, dtype: torch.dtype, layout: str, dim: int):
    z = LAYOUTS[layout](wide(record, 12, 6, dtype).reshape(4, 3, 6))
    packed = z.clone(memory_format=torch.contiguous_format)
    outputs, grads = [], []
    for x in (z, packed):
        leaf = x.detach().requires_grad_()
        outputs.append(run(record, leaf, dim=dim))
        g = torch.arange(leaf.numel(), dtype=dtype).cos().reshape(leaf.shape)
        grads += torch.autograd.grad(outputs[-1], leaf, g)
    close = 16 * torch.finfo(dtype).eps  # sums may run in another order
    assert (outputs[0] - outputs[1]).abs().max() <= close
    assert (grads[0] - grads[1]).abs().max() <= 4 * close


@every_map
def test_gradient_of_any_layout_is_understood(record: MapRecord):
    z = wide(record, 12, 6).reshape(4, 3, 6).requires_grad_()
    g = torch.randn(4, 3, 6, dtype=F64)
    expected = torch.autograd.grad(record(z), z, g)[0]
    for twin in (g.mT.contiguous().mT, LAYOUTS["strided"](g)):
        assert torch.equal(torch.autograd.grad(record(z), z, twin)[0], expected)
    flat = torch.autograd.grad(record(z), z, torch.ones((), dtype=F64).expand(4, 3, 6))[0]
    assert (flat - torch.autograd.grad(record(z), z, torch.ones(4, 3, 6, dtype=F64))[0]).abs().max() == 0


@every_map
def test_scores_are_left_unchanged(record: MapRecord):
    z = wide(record, 5, 6)
    before, version = z.clone(), z._version
    record(z)
    assert torch.equal(z, before) and z._version == version


@every_map
@both_halves
def test_half_precision_is_one_rounding_of_float32(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 200, 17).to(dtype)
    p = record(z)
    assert p.dtype == dtype
    assert torch.equal(p, record(z.float()).to(dtype))


@every_map
@both_halves
def test_half_precision_gradient_has_the_dtype_of_the_scores(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 20, 9).to(dtype).requires_grad_()
    g = torch.randn(20, 9).to(dtype)
    record(z).backward(g)
    full = z.detach().float().requires_grad_()
    record(full).backward(g.float())
    assert z.grad.dtype == dtype
    assert torch.equal(z.grad, full.grad.to(dtype))


@every_map
@both_halves
def test_autocast_returns_float32(record: MapRecord, dtype: torch.dtype):
    z = wide(record, 5, 6).to(dtype)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        p = record(z)
    assert p.dtype == torch.float32
    assert torch.equal(p, record(z.float()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert record(z.double()).dtype == F64


@every_map
def test_autocast_sends_gradients_back_to_half_scores(record: MapRecord):
    z = wide(record, 5, 6).bfloat16().requires_grad_()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        record(z)[:, 0].sum().backward()
    assert z.grad.dtype == torch.bfloat16 and z.grad.isfinite().all() and z.grad.any()
