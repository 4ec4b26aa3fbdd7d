"""Faults that were found once, by subject."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax import Bounded, KSubsets, NormEntropy, Tsallis, fenchel_young_loss

F64 = torch.float64
INF = math.inf


def t(*values: float, dtype: torch.dtype = F64, grad: bool = False) -> Tensor:
    return torch.tensor(values, dtype=dtype, requires_grad=grad)


class TestSlopeOfTsallis:
    SPARSE = t(0.6, 0.4, 0.0)

    @pytest.mark.parametrize("alpha", [1.01, 1.04, 1.05, 1.06, 1.3, 1.5, 2.0, 3.0])
    @pytest.mark.parametrize("kind", [float, torch.tensor])
    def test_gradient_at_a_zero_is_the_one_sided_derivative(self, alpha, kind):
        p = self.SPARSE.clone().requires_grad_()
        omega = Tsallis(kind(alpha) if kind is float else torch.tensor(alpha, dtype=F64))
        (grad,) = torch.autograd.grad(omega(p), p)
        wanted = (alpha * self.SPARSE.pow(alpha - 1) - 1) / (alpha * (alpha - 1))
        torch.testing.assert_close(grad, wanted, rtol=1e-12, atol=1e-12)

    @pytest.mark.parametrize("alpha", [0.3, 0.96, 1.0])
    def test_gradient_at_a_zero_is_finite_where_the_slope_is_not(self, alpha):
        for a in (alpha, torch.tensor(alpha, dtype=F64)):
            p = self.SPARSE.clone().requires_grad_()
            (grad,) = torch.autograd.grad(Tsallis(a)(p), p)
            assert grad.isfinite().all() and grad[2] == 0

    @pytest.mark.parametrize("alpha", [0.5, 0.97, 1 - 1e-9, 1.0, 1 + 1e-6, 1.02, 1.05, 1.2, 1.5, 2.0, 2.7])
    def test_value_is_that_of_50_digits(self, alpha):
        import mpmath

        with mpmath.workdps(50):
            for p in (t(0.5, 0.3, 0.2), t(1 - 2**-20, 2**-20, 0.0), torch.full((1000,), 1e-3, dtype=F64)):
                e, total = mpmath.mpf(alpha) - 1, mpmath.mpf(0)
                for x in (mpmath.mpf(float(x)) for x in p if x > 0):
                    total += x * mpmath.log(x) if e == 0 else x * (x**e - 1) / (e * alpha)
                for a in (alpha, torch.tensor(alpha, dtype=F64)):
                    assert Tsallis(a)(p).item() == pytest.approx(float(total), rel=1e-10, abs=1e-13)

    @pytest.mark.parametrize("alpha", [0.5, 1.0, 1.03, 1.05, 1.5, 2.0, 3.0])
    def test_value_is_twice_differentiable_inside(self, alpha):
        p = t(0.5, 0.3, 0.2, grad=True)
        assert gradcheck(Tsallis(alpha), p, check_forward_ad=True)
        assert gradgradcheck(Tsallis(alpha), p)

    @pytest.mark.parametrize("alpha", [0.7, 1 - 1e-9, 1.0, 1 + 1e-9, 1.4])
    def test_alpha_has_derivatives_through_one(self, alpha):
        p, a = t(0.5, 0.3, 0.2, grad=True), torch.tensor(alpha, dtype=F64, requires_grad=True)
        assert gradcheck(lambda p, a: Tsallis(a)(p), (p, a), check_forward_ad=True)
        assert gradgradcheck(lambda p, a: Tsallis(a)(p), (p, a))

    def test_infinite_rows_are_zero_among_finite_ones(self):
        p = t(0.5, 0.5, 0.0).expand(2, 3)
        alpha = torch.tensor([[INF], [2.0]], dtype=F64)
        assert Tsallis(alpha)(p).tolist() == [0.0, -0.25]
        assert Tsallis(alpha).conjugate(t(1.0, 1.0, 0.0).expand(2, 3)).tolist() == [1.0, 1.25]


class TestGradientInTheBudget:
    Z = t(1.3, 0.75, 0.5, 0.2, -0.4, -1.3)

    def test_loss_at_its_minimum_is_flat_in_k(self):
        k = torch.tensor(2.5, requires_grad=True)
        loss = fenchel_young_loss(torch.tensor([3.0, 1, 0.5, 0]), torch.tensor([1.0, 1, 0.5, 0]), KSubsets(k))
        assert torch.autograd.grad(loss, k)[0] == 0

    @pytest.mark.parametrize("shape", [(), (2, 1), (3, 1, 1)])
    @pytest.mark.parametrize("at_most", [False, True])
    @pytest.mark.parametrize("shift", [0.0, 40.0])
    def test_conjugate_and_loss_have_derivatives_of_both_orders_in_every_mode(self, shape, at_most, shift):
        z = (self.Z + 0.1 * torch.rand(3, 2, 6, dtype=F64) + shift).requires_grad_()
        k = (1.9 + 0.2 * torch.rand(shape, dtype=F64)).requires_grad_()
        y = omegamax.k_subsets(-3 * z.detach(), 2.0)  # far off: with another sum, the loss is positive all the same

        def conjugate(z, k):
            return KSubsets(k, at_most).conjugate(z)

        def loss(z, k):
            return fenchel_young_loss(z, y, KSubsets(k, at_most), "none")

        for f in (conjugate, loss):
            assert gradcheck(f, (z, k), check_forward_ad=True, check_batched_grad=True)
            assert gradgradcheck(f, (z, k), check_fwd_over_rev=True)

    def test_unused_budget_is_worth_nothing(self):
        z = torch.tensor([[-1.0, -2.0, 0.5], [2.0, 3.0, 0.2]], dtype=F64)
        k = torch.full((2, 1), 2.5, dtype=F64, requires_grad=True)
        (grad,) = torch.autograd.grad(KSubsets(k, at_most=True).conjugate(z).sum(), k)
        assert grad.tolist() == [[0.0], [0.0]]

    def test_masked_entries_do_not_count(self):
        z = torch.tensor([[1.3, -INF, 0.5, 0.2], [1.0, -INF, 0.5, -INF], [-INF] * 4], dtype=F64)
        k = torch.tensor([[1.5], [2.5], [1.0]], dtype=F64, requires_grad=True)
        value = KSubsets(k).conjugate(z)
        (grad,) = torch.autograd.grad(value.sum(), k)
        short = torch.tensor(1.5, dtype=F64, requires_grad=True)
        wanted = torch.autograd.grad(KSubsets(short).conjugate(t(1.3, 0.5, 0.2)), short)[0].item()
        assert grad.squeeze().tolist() == pytest.approx([wanted, 0.0, 0.0])

    @pytest.mark.parametrize(("k", "low", "high"), [(2, 1.0, 3.0), (0, 5.0, 5.0), (4, -1.0, -1.0)])
    def test_vertex_has_a_subgradient(self, k, low, high):
        k = torch.tensor(float(k), dtype=F64, requires_grad=True)
        (grad,) = torch.autograd.grad(KSubsets(k).conjugate(t(5.0, 4.0, 1.0, 0.0)), k)
        assert low <= grad <= high

    def test_compiled_loss_has_it_too(self):
        z, k = self.Z.clone().requires_grad_(), torch.tensor(2.2, dtype=F64, requires_grad=True)
        y = omegamax.k_subsets(self.Z.flip(0), 2.0)

        def loss(z, k):
            return fenchel_young_loss(z, y, KSubsets(k))

        torch.compiler.reset()
        compiled = torch.compile(loss, fullgraph=True, backend="aot_eager")
        ours = torch.autograd.grad(compiled(z, k), (z, k))
        for a, b in zip(ours, torch.autograd.grad(loss(z, k), (z, k)), strict=True):
            torch.testing.assert_close(a, b)


class TestGradientInTheBounds:
    Z = t(2.0, 1.6, 0.5, 0.4, -0.8, -1.6)

    @pytest.mark.parametrize("base", ["softmax", "sparsemax"])
    @pytest.mark.parametrize("shape", [(), (6,), (2, 1), (3, 1, 6)])
    def test_conjugate_and_loss_have_derivatives_in_the_ceilings(self, base, shape):
        z = (self.Z + 0.05 * torch.rand(3, 2, 6, dtype=F64)).requires_grad_()
        upper = (0.3 + 0.02 * torch.rand(shape, dtype=F64)).requires_grad_()
        y = torch.full((3, 2, 6), 1 / 6, dtype=F64)

        def conjugate(z, upper):
            return Bounded(base, upper).conjugate(z)

        def loss(z, upper):
            return fenchel_young_loss(z, y, Bounded(base, upper), "none")

        for f in (conjugate, loss):
            assert gradcheck(f, (z, upper), check_forward_ad=True, check_batched_grad=True)
            assert gradgradcheck(f, (z, upper), check_fwd_over_rev=True)

    @pytest.mark.parametrize("shape", [(), (2, 1), (3, 1, 6)])
    def test_conjugate_and_loss_have_derivatives_in_the_floors(self, shape):
        z = (self.Z + 0.05 * torch.rand(3, 2, 6, dtype=F64)).requires_grad_()
        upper = torch.tensor(0.4, dtype=F64, requires_grad=True)
        lower = (0.05 + 0.02 * torch.rand(shape, dtype=F64)).requires_grad_()
        y = torch.full((3, 2, 6), 1 / 6, dtype=F64)

        def conjugate(z, upper, lower):
            return Bounded("sparsemax", upper, lower).conjugate(z)

        def loss(z, upper, lower):
            return fenchel_young_loss(z, y, Bounded("sparsemax", upper, lower), "none")

        for f in (conjugate, loss):
            assert gradcheck(f, (z, upper, lower), check_forward_ad=True, check_batched_grad=True)
            assert gradgradcheck(f, (z, upper, lower))

    @pytest.mark.parametrize("base", ["softmax", "sparsemax"])
    def test_masked_entries_do_not_count(self, base):
        z = torch.tensor([[2.0, -INF, 1.0, 0.0], [-INF] * 4], dtype=F64)
        upper = torch.full((2, 4), 0.5, dtype=F64, requires_grad=True)
        (grad,) = torch.autograd.grad(Bounded(base, upper).conjugate(z).sum(), upper)
        short = torch.full((3,), 0.5, dtype=F64, requires_grad=True)
        (wanted,) = torch.autograd.grad(Bounded(base, short).conjugate(t(2.0, 1.0, 0.0)), short)
        torch.testing.assert_close(grad[0, [0, 2, 3]], wanted)
        assert grad[0, 1] == 0 and (grad[1] == 0).all() and wanted[0] > 0

    @pytest.mark.parametrize("base", ["softmax", "sparsemax"])
    def test_bounds_that_leave_no_choice_have_a_supergradient(self, base):
        upper = t(0.5, 0.25, 0.25, 0.0, grad=True)
        value = Bounded(base, upper).conjugate(self.Z[:4])
        (grad,) = torch.autograd.grad(value, upper)
        assert grad.isfinite().all() and (grad >= 0).all()
        for i in range(3):  # concave in the bounds
            more = upper.detach().clone()
            more[i] += 0.1
            assert Bounded(base, more).conjugate(self.Z[:4]) <= value + 0.1 * grad[i] + 1e-12


class TestInfiniteAndSteepAlpha:
    def test_gradient_at_infinite_alpha_is_zero(self):
        z = torch.randn(3, 4, dtype=F64, requires_grad=True)
        for f in (omegamax.entmax, omegamax.normmax):
            alpha = torch.tensor([[INF], [1.5], [2.0]], dtype=F64, requires_grad=True)
            (grad,) = torch.autograd.grad(f(z, alpha)[:, 0].sum(), alpha)
            assert grad.isfinite().all() and grad[0] == 0
        for omega in (Tsallis, NormEntropy):
            alpha = torch.tensor([[INF], [1.5], [2.0]], dtype=F64, requires_grad=True)
            (grad,) = torch.autograd.grad(omega(alpha).conjugate(z).sum(), alpha)
            assert grad.isfinite().all() and grad[0] == 0

    @pytest.mark.parametrize("alpha", [3.0, 10.0])
    def test_alpha_moves_nothing_in_a_row_of_ties(self, alpha):
        alpha = torch.tensor(alpha, requires_grad=True)
        p = omegamax.entmax(torch.zeros(6), alpha)
        (grad,) = torch.autograd.grad(p, alpha, torch.randn(6))
        assert grad.abs() <= 1e-6


class TestScalarScores:
    @pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
    def test_scalar_is_a_row_of_one(self, dtype):
        z = torch.tensor(3.0, dtype=dtype, requires_grad=True)
        one, half = torch.tensor(1.0), torch.tensor(0.5)
        results = [
            omegamax.softmax(z),
            omegamax.entmax(z, torch.tensor(1.5)),
            omegamax.normmax(z, torch.tensor(1.5)),
            omegamax.k_subsets(z, one),
            omegamax.k_subsets(z, one, at_most=True),
            omegamax.constrained_softmax(z, one),
            omegamax.constrained_sparsemax(z, 1.0, lower=half),
        ]
        for p in results:
            assert p.shape == () and p.item() == 1 and p.dtype == dtype
            assert torch.autograd.grad(p, z, retain_graph=True)[0] == 0
        assert omegamax.k_subsets(z, half) == omegamax.k_subsets(z, half, at_most=True) == 0.5
        assert omegamax.entmax(torch.tensor(-INF), torch.tensor(1.5)) == 0


class TestScale:
    Z = t(1.0, 0.5, -0.3, -1.0)

    @pytest.mark.parametrize("scale", [1e2, 1e8, 1e15, 1e30, 1e300])
    def test_box_maps_lose_nothing_to_the_range_of_the_scores(self, scale):
        for f in (omegamax.constrained_softmax, omegamax.constrained_sparsemax):
            assert f(scale * self.Z, 0.4).tolist() == pytest.approx([0.4, 0.4, 0.2, 0.0], abs=1e-15)
        with omegamax.backend("reference"):
            assert omegamax.k_subsets(scale * self.Z, 2.5).tolist() == [1.0, 1.0, 0.5, 0.0]
            assert omegamax.k_subsets(scale * self.Z, 2).tolist() == [1.0, 1.0, 0.0, 0.0]

    def test_ceilings_that_differ_bind_at_any_scale(self):
        upper = t(0.1, 0.3, 0.35, 0.9)
        for f in (omegamax.constrained_softmax, omegamax.constrained_sparsemax):
            assert f(1e15 * self.Z, upper).tolist() == pytest.approx([0.1, 0.3, 0.35, 0.25], abs=1e-15)
            tied = f(1e15 * t(1.0, 0.5, 0.5, 0.5), upper)
            assert tied.tolist() == pytest.approx([0.1, 0.3, 0.3, 0.3], abs=1e-15)

    def test_gradient_of_a_loss_is_that_of_the_unshifted_scores(self):
        z = torch.tensor([1.0, 1e-9, -3.0], requires_grad=True)
        y = torch.tensor([1.0, 0.0, 0.0])
        for loss in (
            fenchel_young_loss(z, y, NormEntropy(10.0)),
            omegamax.normmax_loss(z, torch.tensor(0), 10.0),
            omegamax.normmax_loss(z, y, 10.0),
        ):
            assert torch.equal(torch.autograd.grad(loss, z)[0], omegamax.normmax(z, 10.0) - y)


class TestCeilingsOfHugeScores:
    @pytest.mark.parametrize("dtype", [torch.float32, F64])
    def test_entries_are_capped_from_the_largest_on(self, dtype):
        size = 20001
        z = (1e31 * torch.linspace(-1, 1, size, dtype=F64)).to(dtype)[torch.randperm(size)]
        p = omegamax.constrained_softmax(z, 2.5 / size)
        full = int(size / 2.5)
        largest = z.argsort(descending=True)
        ceiling = torch.tensor(2.5 / size, dtype=dtype)
        assert (p[largest[:full]] == ceiling).all()
        assert p[largest[full]].item() == pytest.approx(1 - full * ceiling.item(), abs=4e-8)
        assert not p[largest[full + 1 :]].any()

    def test_smaller_ceiling_is_reached_first_by_equal_scores(self):
        z = torch.full((3,), 1e30, dtype=F64)
        p = omegamax.constrained_softmax(z, t(0.8, 0.1, 0.8))
        assert p.tolist() == pytest.approx([0.45, 0.1, 0.45], abs=1e-15)


class TestTensorsWithoutMemory:
    @pytest.mark.parametrize("f", [omegamax.sparsemax, omegamax.normmax, lambda z: omegamax.k_subsets(z, 2)])
    def test_batched_gradients_are_those_of_a_loop(self, f):
        z, g = torch.randn(4, 5, dtype=F64, requires_grad=True), torch.randn(3, 4, 5, dtype=F64)
        p = f(z)
        (batched,) = torch.autograd.grad(p, z, g, is_grads_batched=True, retain_graph=True)
        each = [torch.autograd.grad(p, z, one, retain_graph=True)[0] for one in g]
        torch.testing.assert_close(batched, torch.stack(each))

    def test_meta_tensors_have_shapes_and_gradients(self):
        z = torch.empty(4, 5, device="meta", requires_grad=True)
        for p in (omegamax.sparsemax(z), omegamax.entmax(z, 1.3, 0), omegamax.constrained_softmax(z, 0.4)):
            assert p.shape == (4, 5) and p.is_meta
            assert torch.autograd.grad(p.sum(), z)[0].shape == (4, 5)


def test_parts_of_the_package_are_attributes():
    assert omegamax.nn.Sparsemax and omegamax.losses.sparsemax_loss and omegamax.functional.sparsemax
