"""Ridge fits against least squares with augmented rows, and against 50-digit normal equations."""

from __future__ import annotations

import copy
import io
import math

import mpmath
import numpy as np
import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

from omegamax.basis import Basis, Fourier, GaussianRBF, Polynomial, Rectangles, RidgeFit, grid_positions
from omegamax.basis import _ridge_cache as cache_module

F64 = torch.float64


def line(functions: int = 6, variance: float = 0.01, **options) -> GaussianRBF:
    return GaussianRBF.grid(functions, 1, variance, dtype=F64, **options)


def plane(per_axis: int | tuple[int, int] = (3, 4), variance: float = 0.03, **options) -> GaussianRBF:
    return GaussianRBF.grid(per_axis, 2, variance, dtype=F64, **options)


def least_squares(basis: Basis, points: Tensor, values: Tensor, penalty: float) -> Tensor:
    """The oracle: one observation of sqrt(penalty) * coefficient = 0 for each function."""
    design = basis(points.to(F64)).numpy()
    rows = np.concatenate([design, math.sqrt(penalty) * np.eye(len(basis))])
    right = np.concatenate([values.numpy(), np.zeros((len(basis), values.shape[-1]))])
    return torch.as_tensor(np.linalg.lstsq(rows, right, rcond=None)[0])


def close(a: Tensor, b: Tensor, tolerance: float = 1e-10) -> bool:
    return a.shape == b.shape and bool((a - b).abs().max() <= tolerance * b.abs().max().clamp(min=1))


# The fit itself


@pytest.mark.parametrize("penalty", [10.0, 0.01, 1e-6, 1e-10])
@pytest.mark.parametrize("normalised", [True, False])
def test_fit_is_penalised_least_squares(penalty: float, normalised: bool):
    for basis, size in ((line(normalised=normalised), 15), (line(20, normalised=normalised), 7), (plane(), (5, 6))):
        values = torch.randn(math.prod(np.atleast_1d(size)), 3, dtype=F64)
        fit = RidgeFit(basis, size, penalty)
        assert close(fit(values), least_squares(basis, grid_positions(size, dtype=F64), values, penalty), 1e-9)
        assert torch.equal(fit(values), fit.fit(values))
        assert torch.equal(fit.operator(dtype=F64) @ values, fit(values))


@pytest.mark.parametrize("penalty", [1e-2, 1e-8, 1e-12])
def test_fit_solves_the_normal_equations_to_fifty_digits(penalty: float):
    basis, count = line(5, 0.05), 8
    values = torch.randn(count, 1, dtype=F64)
    with mpmath.workdps(50):
        design = mpmath.matrix(basis(grid_positions(count, dtype=F64)).tolist())
        gram = design.T * design + mpmath.mpf(penalty) * mpmath.eye(5)
        exact = mpmath.lu_solve(gram, design.T * mpmath.matrix(values.tolist()))
    expected = torch.tensor([float(x) for x in exact], dtype=F64).unsqueeze(-1)
    assert close(RidgeFit(basis, count, penalty)(values), expected, 1e-10)


def test_vanishing_penalty_gives_the_least_norm():
    basis = line(30, 0.05)  # far from full rank
    values = torch.randn(12, 2, dtype=F64)
    design = basis(grid_positions(12, dtype=F64)).numpy()
    expected = torch.as_tensor(np.linalg.pinv(design, rcond=30 * np.finfo(float).eps) @ values.numpy())
    exact = RidgeFit(basis, 12, 0.0)
    assert close(exact(values), expected, 1e-8)
    assert close(exact.reconstruct(exact(values)), values, 1e-8)  # 12 values, 30 functions
    for penalty in (1e-30, 1e-20):
        assert RidgeFit(basis, 12, penalty)(values).isfinite().all()
    assert close(
        RidgeFit(Polynomial.total_degree(3, 1), 40, 0.0)(torch.ones(40, 1, dtype=F64)), torch.eye(4, 1).double()
    )
    waves = Fourier.grid(2, 1, dtype=F64)  # the sine of frequency zero vanishes everywhere
    assert close(RidgeFit(waves, 9, 0.0)(torch.ones(9, 1, dtype=F64)), torch.eye(6, 1, dtype=F64))


def test_boxes_average_their_values():
    values = torch.randn(12, 3, dtype=F64)
    expected = values.reshape(4, 3, 3).mean(1)
    assert close(RidgeFit(Rectangles.grid(4, 1, dtype=F64), 12, 0.0)(values), expected)
    image = torch.randn(4, 6, dtype=F64)
    cells = RidgeFit(Rectangles.grid((2, 3), 2, dtype=F64), (4, 6), 0.0)(image.reshape(-1, 1))
    assert close(cells.reshape(2, 3), torch.nn.functional.avg_pool2d(image[None], 2)[0])


def test_leading_axes_are_a_batch():
    fit = RidgeFit(line(), 9)
    values = torch.randn(2, 3, 9, 4, dtype=F64)
    found = fit(values)
    assert found.shape == (2, 3, 6, 4)
    assert close(found[1, 2], fit(values[1, 2]))
    assert close(fit(values[0, 0].expand(5, 9, 4))[3], found[0, 0])
    assert close(fit(values.transpose(-1, -2).contiguous().transpose(-1, -2)), found)
    assert fit(values[:0]).shape == (0, 3, 6, 4) and fit(values[..., :0]).shape == (2, 3, 6, 0)


# Padding


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7])
def test_padding_observes_zeros_around_the_interval(count: int):
    basis, values = line(), torch.randn(count, 2, dtype=F64)
    if count % 2 == 0:
        points = torch.linspace(-1 / 2 + 1 / (2 * count), 3 / 2 - 1 / (2 * count), 2 * count, dtype=F64)
    else:
        points = torch.linspace(-1 / 2 + 1 / count, 3 / 2 - 1 / count, 2 * count - 1, dtype=F64)
    before = (len(points) - count) // 2
    padded = torch.zeros(len(points), 2, dtype=F64)
    padded[before : before + count] = values
    expected = least_squares(basis, points[:, None], padded, 0.01)
    assert close(RidgeFit(basis, count, padding=True)(values), expected, 1e-9)


@pytest.mark.parametrize("size", [(4, 4), (4, 3), (5, 2)])
def test_padding_observes_zeros_around_the_square(size: tuple[int, int]):
    basis, values = plane(), torch.randn(math.prod(size), 2, dtype=F64)
    points, padded = [], []
    for row in range(-(size[0] // 2), size[0] + size[0] // 2):
        for column in range(-(size[1] // 2), size[1] + size[1] // 2):
            inside = 0 <= row < size[0] and 0 <= column < size[1]
            points.append([(column + 0.5) / size[1], (row + 0.5) / size[0]])
            padded.append(values[row * size[1] + column] if inside else torch.zeros(2, dtype=F64))
    expected = least_squares(basis, torch.tensor(points, dtype=F64), torch.stack(padded), 0.01)
    fit = RidgeFit(basis, size, padding=True)
    assert close(fit(values), expected, 1e-9)
    beyond = torch.tensor([[-0.3, 0.5], [0.5, 1.3]], dtype=F64)
    plain = RidgeFit(GaussianRBF.grid(6, 2, 0.05, dtype=F64), (8, 8))
    tamed = RidgeFit(plain.basis, (8, 8), padding=True)
    ones = torch.ones(64, 1, dtype=F64)
    assert tamed.reconstruct(tamed(ones), beyond).abs().max() < plain.reconstruct(plain(ones), beyond).abs().max()


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_padding_takes_the_grid_as_a_tensor(dtype: torch.dtype):
    for basis, size in ((line(), (7,)), (line(), (1,)), (plane(), (4, 3)), (plane(), (1, 5))):
        values = torch.randn(2, math.prod(size), 3, dtype=F64)
        found = RidgeFit(basis, grid_positions(size, dtype=dtype), padding=True)(values)
        assert torch.equal(found, RidgeFit(basis, size, padding=True)(values))


def test_padding_with_lengths():
    fit = RidgeFit(line(), 8, padding=True)
    values = torch.randn(2, 8, 3, dtype=F64)
    found = fit(values, torch.tensor([8, 5]))
    assert close(found[1], RidgeFit(line(), 5, padding=True)(values[1, :5]))


# Lengths


@pytest.mark.parametrize("lengths", [[9, 9], [9, 6], [6, 6]])
def test_shapes_do_not_depend_on_the_lengths(lengths: list[int]):
    fit, values = RidgeFit(line(), 9), torch.randn(9, 4, dtype=F64)
    found = fit(values, torch.tensor(lengths))
    assert found.shape == (2, 6, 4)
    assert close(found[1], fit(values, lengths[1]))
    with pytest.raises(ValueError, match=r"must agree with values of shape \(3, 9, 4\), got a batch of shape \(2,\)"):
        fit(values.expand(3, 9, 4), torch.tensor(lengths))


@pytest.mark.parametrize("positions", [None, 9])
def test_each_length_is_fitted_as_if_alone(positions: int | None):
    fit = RidgeFit(line(), positions)
    lengths = torch.tensor([[9, 4, 1], [7, 4, 0]])
    values = torch.randn(2, 3, 9, 2, dtype=F64)
    for i, row in enumerate(lengths.tolist()):
        for j, count in enumerate(row):
            values[i, j, count:] = math.nan
    values[1, 1, 8] = math.inf
    for _ in range(2):  # cold, then from the table
        found = fit(values, lengths)
        operator = fit.operator(lengths, width=9, dtype=F64)
        assert operator.shape == (2, 3, 6, 9)
        for i, row in enumerate(lengths.tolist()):
            for j, count in enumerate(row):
                if count:
                    alone = least_squares(line(), grid_positions(count, dtype=F64), values[i, j, :count], 0.01)
                    assert close(found[i, j], alone, 1e-9)
                assert (operator[i, j, :, count:] == 0).all()
    assert (found[1, 2] == 0).all()
    wider = torch.cat([values, torch.full((2, 3, 4, 2), math.nan, dtype=F64)], 2)
    assert close(fit(wider, lengths), found) and close(fit(values[..., :7, :], lengths.clamp(max=7))[1], found[1])


@pytest.mark.parametrize("positions", [None, (4, 5)])
def test_each_image_is_fitted_as_if_alone(positions: tuple[int, int] | None):
    fit = RidgeFit(plane(), positions)
    sizes = torch.tensor([[4, 5], [2, 3], [5, 2], [0, 3]])
    values = torch.randn(4, 20, 2, dtype=F64)
    found = fit(values, sizes)
    for i, size in enumerate(map(tuple, sizes.tolist()[:3])):
        alone = least_squares(plane(), grid_positions(size, dtype=F64), values[i, : math.prod(size)], 0.01)
        assert close(found[i], alone, 1e-9)
    assert (found[3] == 0).all()
    same = fit(values, (2, 3))
    assert close(same[1], found[1]) and fit.operator((2, 3), width=20).shape == (12, 20)
    assert fit.operator(sizes[:2, :], width=20).shape == (2, 12, 20)


def test_lengths_of_given_positions_count_the_first():
    points = torch.rand(8, 2, dtype=F64)
    fit = RidgeFit(plane(), points)
    values = torch.randn(3, 8, 2, dtype=F64)
    values[1, 5:] = math.nan
    found = fit(values, [8, 5, 0])
    assert close(found[0], least_squares(plane(), points, values[0], 0.01), 1e-9)
    assert close(found[1], least_squares(plane(), points[:5], values[1, :5], 0.01), 1e-9)
    assert (found[2] == 0).all() and torch.equal(fit.positions, points)


def test_lengths_that_are_all_alike():
    fit = RidgeFit(line(), 9)
    values = torch.randn(3, 9, 2, dtype=F64)
    values[:, 6:] = math.nan
    expected = RidgeFit(line(), 6)(values[:, :6])
    for lengths in (6, [6, 6, 6], torch.tensor([6, 6, 6]), torch.tensor(6), torch.tensor([6, 6, 6], dtype=torch.int32)):
        assert close(fit(values, lengths), expected)
    assert fit.operator(6, dtype=F64).shape == (6, 9) and fit.operator([6, 6, 6]).shape == (3, 6, 9)
    assert RidgeFit(line()).operator([6, 4]).shape == (2, 6, 6)
    assert fit(values[:0], torch.zeros(0, dtype=torch.long)).shape == (0, 6, 2)
    assert fit.operator(torch.zeros(0, dtype=torch.long)).shape == (0, 6, 9)


# Positions of each example


def test_places_of_each_example_with_a_mask():
    fit = RidgeFit(plane())
    points, values = torch.rand(3, 7, 2, dtype=F64), torch.randn(3, 7, 4, dtype=F64)
    mask = torch.tensor([[True] * 7, [True, False, True, True, False, True, False], [False] * 7])
    points[~mask], values[~mask] = math.nan, math.inf
    points.requires_grad_()
    found = fit(values, positions=points, mask=mask)
    for i in range(2):
        expected = least_squares(plane(), points.detach()[i, mask[i]], values[i, mask[i]], 0.01)
        assert close(found[i].detach(), expected, 1e-9)
    assert (found[2] == 0).all()
    found.sum().backward()
    assert points.grad.isfinite().all() and (points.grad[~mask] == 0).all() and (points.grad[mask] != 0).all()
    operator = fit.operator(positions=points, mask=mask, dtype=F64)
    assert operator.shape == (3, 12, 7) and (operator.mT[~mask] == 0).all()


def test_places_may_be_counted_shared_or_regular():
    fit = RidgeFit(plane(), (2, 4))
    points, values = torch.rand(3, 8, 2, dtype=F64), torch.randn(3, 8, 2, dtype=F64)
    counted = fit(values, torch.tensor([8, 3, 5]), positions=points)
    assert close(counted[1], least_squares(plane(), points[1, :3], values[1, :3], 0.01), 1e-9)
    shared = fit(values, positions=points[0])
    assert close(shared[2], least_squares(plane(), points[0], values[2], 0.01), 1e-9)
    mask = torch.rand(3, 8) < 0.6
    regular = fit(values, mask=mask)
    cells = grid_positions((2, 4), dtype=F64)
    assert close(regular[1], least_squares(plane(), cells[mask[1]], values[1, mask[1]], 0.01), 1e-9)
    mask[:, 6:] = True
    both = fit(values, torch.tensor([[2, 3], [2, 4], [1, 1]]), mask=mask)
    first = mask[0, :6]
    cells = grid_positions((2, 3), dtype=F64)
    assert close(both[0], least_squares(plane(), cells[first], values[0, :6][first], 0.01), 1e-9)


@pytest.mark.parametrize("penalty", [0.01, 1e-9, 0.0])
@pytest.mark.parametrize("count", [4, 9])
def test_gradients_in_values_and_positions(penalty: float, count: int):
    fit = RidgeFit(line(6, 0.04, normalised=False), penalty=penalty)
    # Evenly spread but for a nudge, so that even without a penalty the rank is full.
    points = (grid_positions(count, dtype=F64) + 0.02 * torch.randn(2, count, 1, dtype=F64)).requires_grad_()
    values = torch.randn(2, count, 2, dtype=F64, requires_grad=True)
    assert gradcheck(lambda v, p: fit(v, positions=p), (values, points), eps=1e-7, atol=1e-4, rtol=1e-3)
    if penalty == 0.01:
        mask = torch.rand(2, count) < 0.7
        assert gradcheck(lambda v, p: fit(v, positions=p, mask=mask), (values, points))
        few = RidgeFit(line(2, 0.04)), values.detach()[0, :3, :1], points.detach()[0, :3]
        assert gradgradcheck(lambda v, p: few[0](v, positions=p), tuple(x.clone().requires_grad_() for x in few[1:]))


def test_gradients_in_values_alone():
    fit = RidgeFit(line(), 5)
    values = torch.randn(2, 5, 2, dtype=F64, requires_grad=True)
    assert gradcheck(fit, (values,)) and gradcheck(lambda v: fit(v, [5, 3]), (values,))
    assert not fit.operator().requires_grad


def test_places_at_construction_may_be_learnt():
    points = torch.rand(7, 1, dtype=F64, requires_grad=True)
    fit = RidgeFit(line(), points)
    values = torch.randn(2, 7, 2, dtype=F64)
    assert gradcheck(lambda p: RidgeFit(line(), p)(values, [7, 4]), (points,))
    before = fit(values).detach()
    with torch.no_grad():
        points += 0.05
    assert not close(fit(values).detach(), before, 1e-3)


def test_basis_with_parameters_is_never_remembered():
    class Tuned(Basis):
        """exp(-rate_j t), with rates to learn."""

        dimension = 1

        def __init__(self):
            super().__init__()
            self.rate = torch.nn.Parameter(torch.tensor([0.5, 1.0, 3.0], dtype=F64))

        def __len__(self):
            return 3

        def forward(self, t):
            return (-self.rate * t).exp()

    fit = RidgeFit(Tuned(), 6)
    values = torch.randn(3, 6, 2, dtype=F64)
    for lengths in (None, [6, 3, 6]):
        before = fit(values, lengths)
        before.sum().backward()
        assert fit.basis.rate.grad.abs().min() > 0
        with torch.no_grad():
            fit.basis.rate.add_(0.1)
        assert not close(fit(values, lengths), before, 1e-6)


# Dtypes, modes, moves


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_lower_precision_follows_double(dtype: torch.dtype):
    basis = GaussianRBF.grid(10, 2, 0.001)
    fit = RidgeFit(basis, (14, 14), padding=True)
    values = torch.randn(2, 196, 3).to(dtype)
    found = fit(values)
    exact = RidgeFit(copy.deepcopy(basis).double(), (14, 14), padding=True)(values.double())
    assert found.dtype == dtype
    assert (found.double() - exact).abs().max() <= 2 * torch.finfo(dtype).eps * exact.abs().max()
    points = torch.rand(2, 196, 2).to(dtype)
    assert torch.equal(basis(points.double()), copy.deepcopy(basis).double()(points.double()))
    assert RidgeFit(basis)(values, positions=points).dtype == dtype
    assert fit.reconstruct(found).dtype == dtype


def test_autocast_does_not_reach_the_fit():
    fit = RidgeFit(GaussianRBF.grid(20, 1, 0.01), 64)
    values = torch.randn(2, 64, 3)
    expected = fit(values)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = fit(values)
        cold = RidgeFit(fit.basis, 64)(values)
        smooth = fit.reconstruct(found)
    assert torch.equal(found, expected) and torch.equal(cold, expected)
    assert torch.equal(smooth, fit.reconstruct(expected))


def test_operators_met_in_inference_mode_serve_training():
    fit = RidgeFit(line(), 9)
    values = torch.randn(2, 9, 2, dtype=F64)
    with torch.inference_mode():
        fit(values)
        fit(values, [9, 4])
    values.requires_grad_()
    (fit(values).sum() + fit(values, [9, 4]).sum()).backward()
    assert values.grad.isfinite().all()


def test_module_has_no_state_and_can_be_copied_moved_and_saved():
    fit = RidgeFit(GaussianRBF.grid(6, 1, 0.02), torch.rand(9, 1))
    values = torch.randn(9, 2)
    expected = fit(values)
    assert not fit.state_dict() and not list(fit.parameters())
    assert torch.equal(copy.deepcopy(fit)(values), expected)
    stored = io.BytesIO()
    torch.save(fit, stored)
    stored.seek(0)
    assert torch.equal(torch.load(stored, weights_only=False)(values), expected)
    model = torch.nn.ModuleDict({"fit": fit}).half()
    assert torch.equal(model["fit"](values), expected)
    assert close(model.double()["fit"](values.double()), expected.double(), 1e-5)
    assert fit.basis.centers.dtype == F64 and fit.positions.dtype == F64
    assert "penalty=0.01" in repr(fit)


def test_operators_are_computed_once(monkeypatch):
    calls = []

    class Counted(GaussianRBF):
        def forward(self, t):
            calls.append(len(t))
            return super().forward(t)

    fit = RidgeFit(Counted.grid(6, 1, 0.02), 9)
    values = torch.randn(3, 9, 2)
    assert fit.operator() is fit.operator()
    fit(values)
    assert calls == [9]
    fit(values, [9, 4, 7])
    fit(values, [4, 7, 9])
    fit(values, [4, 4, 7])
    assert calls == [9, 9, 4, 7]  # the table of mixed lengths is another
    fit(values, [3, 9, 9])
    assert calls[4:] == [3]
    before = fit(values)
    fit.penalty = 1.0  # not the same operator any more
    assert not torch.equal(fit(values), before) and len(calls) == 6
    # When the table would grow too large it starts anew, and is still right.
    monkeypatch.setattr(cache_module, "_MOST_ENTRIES", 6 * 9 * 3)
    for lengths in ([2, 3, 4], [5, 6, 7], [2, 8, 9]):
        found = fit(values, lengths)
        assert torch.allclose(found[1], RidgeFit(fit.basis, lengths[1], 1.0)(values[1, : lengths[1]]), atol=1e-5)
    assert all(t.numel() <= 6 * 9 * 4 for _, t in fit._cache._tables.values())
    for count in range(2, 9):
        fit(values[:, :count], count)
    assert sum(t.numel() for t in fit._cache._single.values()) <= 6 * 9 * 3


def test_cache_holds_every_length_of_long_texts(monkeypatch):
    functions = 64  # of a corpus; here one, and as many times fewer entries
    monkeypatch.setattr(cache_module, "_MOST_ENTRIES", cache_module._MOST_ENTRIES // functions)
    cache, made = cache_module.OperatorCache(), []

    def make(size):
        made.append(size)
        return torch.arange(1.0, size[0] + 1).unsqueeze(0) * size[0]

    generator = torch.Generator().manual_seed(0)
    for _ in range(2):
        for lengths in (torch.randperm(2000, generator=generator) + 1).split(16):
            sizes = [(int(length),) for length in lengths]
            width = int(lengths.max())
            found = cache.many(sizes, width, "setting", make)
            wanted = torch.arange(1.0, width + 1) * lengths.unsqueeze(1)
            wanted[torch.arange(width) >= lengths.unsqueeze(1)] = 0
            assert torch.equal(found.squeeze(1), wanted)
    assert sorted(made) == [(length,) for length in range(1, 2001)]  # each once


def test_fit_compiles_without_graph_breaks():
    fit = RidgeFit(line(), 9)
    values = torch.randn(2, 9, 2, dtype=F64)
    expected = RidgeFit(line(), 9)(values)
    compiled = torch.compile(fit, fullgraph=True, backend="eager")
    for _ in range(3):  # cold, then warm
        assert close(compiled(values), expected)
    assert close(fit(values), expected)
    points = torch.rand(2, 9, 1, dtype=F64)
    assert close(compiled(values, positions=points), fit(values, positions=points))
    assert close(compiled(values, 6), fit(values, 6))
    loose = torch.compile(fit, backend="eager")
    assert close(loose(values, torch.tensor([9, 4])), fit(values, torch.tensor([9, 4])))


def test_fit_is_mapped_over_and_traced():
    fit = RidgeFit(line(), 9)
    values = torch.randn(4, 9, 2, dtype=F64)
    mapped = torch.func.vmap(fit)(values)
    exported = torch.export.export(RidgeFit(line(), 9), (values,)).module()(values)
    assert close(mapped, fit(values)) and close(exported, fit(values))
    cold = RidgeFit(line(), 9)
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        cold(mode.from_tensor(values))
    assert close(cold(values), fit(values))  # nothing fake was kept
    points = torch.rand(4, 9, 1, dtype=F64)
    together = torch.func.vmap(lambda v, p: fit(v, positions=p))(values, points)
    assert close(together, fit(values, positions=points))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")
def test_fit_on_a_gpu():
    fit = RidgeFit(plane(), (4, 5), padding=True)
    there = copy.deepcopy(fit).cuda()
    values, lengths = torch.randn(3, 20, 2, dtype=F64), torch.tensor([[4, 5], [2, 3], [3, 3]])
    for sizes in (None, (2, 3), lengths, lengths.cuda()):
        expected = fit(values, sizes if not isinstance(sizes, Tensor) else sizes.cpu())
        for module in (there, fit):  # also with the basis left behind
            assert close(module(values.cuda(), sizes).cpu(), expected)
        report = there.report(values.cuda(), sizes)
        assert report.rmse == pytest.approx(fit.report(values, sizes if sizes is not lengths else lengths).rmse)
        smooth = there.reconstruct(expected.cuda(), lengths=sizes)
        assert close(smooth.cpu(), fit.reconstruct(expected, lengths=sizes))
    assert there.operator().is_cuda and there.operator() is there.operator()
    loose, here = RidgeFit(plane()).cuda(), RidgeFit(plane())
    points, mask = torch.rand(3, 20, 2, dtype=F64), torch.rand(3, 20) < 0.6
    for penalty in (0.01, 1e-12, 0.0):
        loose.penalty = here.penalty = penalty
        found = loose(values.cuda(), positions=points.cuda(), mask=mask.cuda())
        assert close(found.cpu(), here(values, positions=points, mask=mask), 1e-6)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        assert torch.equal(there(values.float().cuda()), copy.deepcopy(there)(values.float().cuda()))


# Reconstruction and report


def test_reconstruction_is_the_value_function():
    fit = RidgeFit(plane(), (3, 4))
    coefficients = torch.randn(2, 12, 5, dtype=F64)
    points = torch.rand(2, 7, 2, dtype=F64)
    assert close(fit.reconstruct(coefficients, points), plane()(points) @ coefficients)
    assert close(fit.reconstruct(coefficients), plane()(grid_positions((3, 4), dtype=F64)) @ coefficients)
    assert close(fit.reconstruct(coefficients, (2, 2)), plane()(grid_positions((2, 2), dtype=F64)) @ coefficients)
    mixed = fit.reconstruct(coefficients, lengths=torch.tensor([[3, 4], [2, 2]]))
    assert mixed.shape == (2, 12, 5) and (mixed[1, 4:] == 0).all()
    assert close(mixed[1, :4], fit.reconstruct(coefficients, (2, 2))[1])
    points.requires_grad_()
    assert gradcheck(lambda c, p: fit.reconstruct(c, p), (coefficients.requires_grad_(), points))


def test_report_against_numpy():
    basis, penalty = line(6, 0.02), 0.05
    fit = RidgeFit(basis, 9, penalty)
    values = torch.randn(3, 9, 2, dtype=F64)
    lengths = [9, 4, 6]
    report = fit.report(values, torch.tensor(lengths))
    wrong, size, conditions, freedom, rmse, relative = [], [], [], [], [], []
    for v, count in zip(values, lengths, strict=True):
        design = basis(grid_positions(count, dtype=F64)).numpy()
        gram = design.T @ design + penalty * np.eye(6)
        off = design @ np.linalg.solve(gram, design.T @ v[:count].numpy()) - v[:count].numpy()
        wrong.append(off.ravel())
        size.append(v[:count].numpy().ravel())
        conditions.append(np.linalg.cond(gram))
        freedom.append(np.trace(np.linalg.solve(gram, design.T @ design)))
        rmse.append(np.sqrt((off**2).mean()))
        relative.append(np.linalg.norm(off) / np.linalg.norm(size[-1]))
    every, whole = np.concatenate(wrong), np.concatenate(size)
    assert report.rmse == pytest.approx(np.sqrt((every**2).mean()))
    assert report.relative_error == pytest.approx(np.linalg.norm(every) / np.linalg.norm(whole))
    assert report.maximum_error == pytest.approx(np.abs(every).max())
    assert report.condition == pytest.approx(max(conditions)) and report.degrees_of_freedom == pytest.approx(
        np.mean(freedom)
    )
    assert report.each_rmse.tolist() == pytest.approx(rmse)
    assert report.each_relative_error.tolist() == pytest.approx(relative)
    assert report.positions == pytest.approx(19 / 3) and report.functions == 6 and report.penalty == penalty
    assert "degrees of freedom" in str(report) and "by example" in str(report)
    mask = torch.arange(9) < torch.tensor(lengths).unsqueeze(-1)
    points = torch.stack([torch.cat([grid_positions(k, dtype=F64), torch.zeros(9 - k, 1).double()]) for k in lengths])
    same = fit.report(values, positions=points, mask=mask)
    for name in ("rmse", "relative_error", "maximum_error", "condition", "degrees_of_freedom", "positions"):
        assert getattr(same, name) == pytest.approx(getattr(report, name)), name


def test_report_of_hard_and_empty_fits():
    singular = RidgeFit(line(9), 4, 0.0).report(torch.randn(4, 1, dtype=F64))
    assert singular.condition == math.inf and singular.degrees_of_freedom == pytest.approx(4)
    assert singular.rmse <= 1e-9 and "by example" not in str(singular)
    nothing = RidgeFit(line(), 4).report(torch.zeros(2, 4, 1, dtype=F64), [4, 0])
    assert nothing.rmse == nothing.relative_error == nothing.maximum_error == 0
    padded = RidgeFit(line(), 8, padding=True).report(torch.ones(8, 1))
    assert padded.degrees_of_freedom < RidgeFit(line(), 8).report(torch.ones(8, 1)).degrees_of_freedom


# Errors


@pytest.mark.parametrize(
    "make, error, match",
    [
        (lambda: RidgeFit("rbf", 3), TypeError, "basis must be a Basis"),
        (lambda: RidgeFit(line(), 3, -1), ValueError, "penalty must be a finite number >= 0, got -1"),
        (lambda: RidgeFit(line(), 3, math.nan), ValueError, "penalty"),
        (
            lambda: RidgeFit(line(), (3, 3)),
            ValueError,
            r"positions must have one entry for each of 1 axes, got \(3, 3\)",
        ),
        (lambda: RidgeFit(plane(), 3), ValueError, "positions must have one entry for each of 2 axes"),
        (lambda: RidgeFit(line(), 0), ValueError, "positions must be at least 1"),
        (lambda: RidgeFit(line(), "all"), TypeError, "positions must be an int"),
        (lambda: RidgeFit(line(), torch.rand(3)), ValueError, r"positions must be \[L, 1\], got shape \(3,\)"),
        (lambda: RidgeFit(line(), torch.rand(3, 2)), ValueError, r"positions must be \[\*, L, 1\]"),
        (lambda: RidgeFit(line(), torch.ones(3, 1).long()), TypeError, "positions must be a floating-point"),
        (lambda: RidgeFit(line(), torch.rand(3, 1), padding=True), ValueError, "padding needs a regular grid"),
        (
            lambda: RidgeFit(line(), 3)(torch.rand(4, 1)),
            ValueError,
            "values must have 3 rows, one for each position, got 4",
        ),
        (lambda: RidgeFit(line(), 3)(torch.rand(3)), ValueError, r"values must be \[\*, L, D\]"),
        (lambda: RidgeFit(line(), 3)(torch.ones(3, 1).long()), TypeError, "values must be a floating-point"),
        (lambda: RidgeFit(plane())(torch.rand(3, 1)), ValueError, "positions are needed"),
        (lambda: RidgeFit(line()).operator(), ValueError, "positions, lengths or width are needed"),
        (lambda: RidgeFit(line(), 3)(torch.rand(2, 3, 1), [3, 4]), ValueError, "lengths must fit in 3 values, got 4"),
        (lambda: RidgeFit(line(), 3)(torch.rand(2, 3, 1), [3, -1]), ValueError, "lengths must be >= 0"),
        (lambda: RidgeFit(line(), 3)(torch.rand(2, 3, 1), [3.0, 1]), TypeError, "lengths must be integers"),
        (lambda: RidgeFit(line(), 3)(torch.rand(2, 3, 1), [1, 2, 3]), ValueError, "must agree with values of shape"),
        (lambda: RidgeFit(plane(), (3, 3))(torch.rand(2, 9, 1), [3, 3, 3]), ValueError, r"lengths must be \[\*, 2\]"),
        (lambda: RidgeFit(plane(), (3, 3))(torch.rand(2, 9, 1), (2, 5)), ValueError, r"fit in 9 values, got \(2, 5\)"),
        (lambda: RidgeFit(line())(torch.rand(3, 1), positions=torch.rand(4, 1)), ValueError, r"be \[\*, 3, 1\]"),
        (lambda: RidgeFit(line(), 3)(torch.rand(3, 1), mask=torch.ones(3)), TypeError, "mask must be a bool tensor"),
        (lambda: RidgeFit(line(), 3)(torch.rand(3, 1), mask=torch.ones(4) > 0), ValueError, r"mask must be \[\*, 3\]"),
        (
            lambda: RidgeFit(line(), 3, padding=True)(torch.rand(3, 1), mask=torch.ones(3) > 0),
            ValueError,
            "padding needs a regular grid, got positions or a mask",
        ),
        (lambda: RidgeFit(line(), 3).operator(dtype=torch.float16), TypeError, "dtype must be torch.float32"),
        (lambda: RidgeFit(line(), 3).reconstruct(torch.rand(5, 1)), ValueError, r"coefficients must be \[\*, 6, D\]"),
    ],
)
def test_errors_name_what_is_wrong(make, error, match):
    with pytest.raises(error, match=match) as caught:
        make()
    assert "RidgeFit" in str(caught.value)
