"""The losses of named maps against cross_entropy, closed forms and the generic loss."""

import inspect
import math

import mpmath
import pytest
import torch
import torch.nn.functional as F
from maps import exact
from torch.autograd import gradcheck, gradgradcheck

import omegamax
from omegamax.kernels import _dispatch
from omegamax.losses import (
    entmax15_loss,
    entmax_loss,
    fenchel_young_loss,
    k_subsets_loss,
    normmax_loss,
    softmax_loss,
    sparsemax_loss,
)

ONE_CLASS = {
    "softmax_loss": (softmax_loss, omegamax.Shannon()),
    "sparsemax_loss": (sparsemax_loss, omegamax.Tsallis(2.0)),
    "entmax15_loss": (entmax15_loss, omegamax.Tsallis(1.5)),
    "entmax_loss": (entmax_loss, omegamax.Tsallis(1.5)),
    "normmax_loss": (normmax_loss, omegamax.NormEntropy(2.0)),
    "k_subsets_loss": (lambda z, target, **options: k_subsets_loss(z, target, 1, **options), omegamax.KSubsets(1)),
}
every_loss = pytest.mark.parametrize(("loss", "omega"), ONE_CLASS.values(), ids=ONE_CLASS.keys())
SHAPES = [(5,), (3, 5), (3, 5, 2), (2, 5, 3, 4)]


def draw(shape, dtype=torch.float64):
    """Scores and class indices."""
    axis = min(len(shape) - 1, 1)
    return 2 * torch.randn(shape, dtype=dtype), torch.randint(5, shape[:axis] + shape[axis + 1 :])


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("ignore_index", [-100, -1, 2, 77])
def test_entmax_loss_at_one_is_cross_entropy(shape, reduction, weighted, ignore_index):
    z, target = draw(shape)
    if target.dim():
        target.view(-1)[::3] = ignore_index
    weight = torch.rand(5, dtype=torch.float64) + 0.1 if weighted else None
    options = {"weight": weight, "ignore_index": ignore_index, "reduction": reduction}
    wanted = F.cross_entropy(z, target, **options)
    for given in (entmax_loss(z, target, 1.0, **options), softmax_loss(z, target, **options)):
        torch.testing.assert_close(given, wanted, rtol=1e-12, atol=1e-12, equal_nan=True)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.3, 1.0])
def test_softmax_loss_with_dense_targets_is_cross_entropy_less_their_entropy(shape, smoothing):
    z, target = draw(shape)
    axis = min(len(shape) - 1, 1)
    y = torch.rand(shape, dtype=torch.float64).softmax(axis)
    for goal, dense in ((target, F.one_hot(target, 5).double().movedim(-1, axis)), (y, y)):
        smooth = (1 - smoothing) * dense + smoothing / 5
        wanted = (
            F.cross_entropy(z, goal, label_smoothing=smoothing) + torch.special.xlogy(smooth, smooth).sum(axis).mean()
        )
        torch.testing.assert_close(softmax_loss(z, goal, label_smoothing=smoothing), wanted)


@every_loss
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
def test_class_indices_are_one_hot_rows_of_the_generic_loss(loss, omega, shape, smoothing):
    z, target = draw(shape)
    axis = min(len(shape) - 1, 1)
    z.requires_grad_()
    smooth = (1 - smoothing) * F.one_hot(target, 5).double() + smoothing / 5
    wanted = fenchel_young_loss(z.movedim(axis, -1), smooth, omega, "none")
    given = loss(z, target, label_smoothing=smoothing, reduction="none")
    torch.testing.assert_close(given, wanted)
    dense = loss(z, F.one_hot(target, 5).double().movedim(-1, axis), label_smoothing=smoothing, reduction="none")
    torch.testing.assert_close(dense, wanted)
    slope = omega.argmax(z.movedim(axis, -1)) - smooth
    torch.testing.assert_close(torch.autograd.grad(given.sum(), z)[0], slope.movedim(-1, axis))


@every_loss
def test_loss_is_zero_from_the_margin_on(loss, omega):
    if omega.margin == math.inf:
        z = torch.tensor([[9.0, 0.0, 0.0]])
        assert loss(z, torch.tensor([0])) > 0
        return
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64):
        z = torch.tensor([[omega.margin, 0.0, 0.0, -3.0], [0.0, omega.margin + 1, 1.0, -math.inf]], dtype=dtype)
        assert loss(z, torch.tensor([0, 1]), reduction="none").tolist() == [0, 0]
    z = torch.tensor([[0.9 * omega.margin, 0.0, 0.0, -3.0]])
    assert loss(z, torch.tensor([0])) > 0


def test_sparsemax_loss_has_its_closed_form_in_two_classes():
    # Half a Huber-like curve of the gap t: 0, (1 - t)^2 / 4, -t.
    t = torch.tensor([3.0, 1.0, 0.5, 0.0, -1.0, -4.0], dtype=torch.float64)
    z = torch.stack([t, torch.zeros_like(t)], -1)
    wanted = torch.where(t >= 1, 0.0, torch.where(t <= -1, -t, (1 - t).square() / 4))
    torch.testing.assert_close(sparsemax_loss(z, torch.zeros(6, dtype=torch.long), reduction="none"), wanted)


@every_loss
def test_weights_multiply_samples_and_divide_the_mean(loss, omega):
    z, target = draw((6, 5))
    target[2] = -100
    w = torch.tensor([0.5, 1.0, 2.0, 0.0, 3.0], dtype=torch.float64)
    rows = loss(z, target, reduction="none")
    by_row = torch.where(target == -100, 0.0, w[target.clamp(min=0)])
    torch.testing.assert_close(loss(z, target, weight=w, reduction="none"), rows * by_row)
    torch.testing.assert_close(loss(z, target, weight=w, reduction="sum"), (rows * by_row).sum())
    torch.testing.assert_close(loss(z, target, weight=w), (rows * by_row).sum() / by_row.sum())
    y = torch.rand(6, 5, dtype=torch.float64).softmax(-1)
    rows = loss(z, y, reduction="none")
    torch.testing.assert_close(loss(z, y, weight=w), (rows * (y @ w)).mean())
    torch.testing.assert_close(loss(z, y, weight=torch.ones(5)), rows.mean())


@every_loss
def test_ignored_samples_cost_nothing_and_all_ignored_is_nan(loss, omega):
    z, target = draw((4, 5))
    target[1] = target[3] = -100
    z[1] = -math.inf
    z.requires_grad_()
    kept = [0, 2]
    torch.testing.assert_close(loss(z, target), loss(z[kept], target[kept]))
    (grad,) = torch.autograd.grad(loss(z, target), z)
    assert (grad[[1, 3]] == 0).all()
    nothing = torch.full((4,), -100)
    assert loss(z, nothing).isnan()
    assert loss(z, nothing, reduction="sum") == 0


@every_loss
def test_target_with_score_minus_infinity_costs_infinity(loss, omega):
    z = torch.tensor([[-math.inf, 1.0, 0.0]], requires_grad=True)
    value = loss(z, torch.tensor([0]))
    assert value == math.inf == F.cross_entropy(z, torch.tensor([0]))
    assert torch.autograd.grad(value, z)[0].isfinite().all()


@pytest.mark.parametrize("loss", [entmax_loss, normmax_loss])
@pytest.mark.parametrize("shape", [(), (1, 1, 2), (3, 1, 1), (3, 1, 2)])
def test_alpha_may_differ_by_row_and_gets_a_gradient(loss, shape):
    z, target = draw((3, 5, 2))
    alpha = 1.2 + torch.rand(shape, dtype=torch.float64)
    rows = loss(z, target, alpha, reduction="none")
    for n in range(3):
        for d in range(2):
            one = alpha.expand(3, 1, 2)[n, 0, d].item()
            torch.testing.assert_close(rows[n, d], loss(z[n, :, d], target[n, d], one))
    z.requires_grad_()
    alpha.requires_grad_()
    y = torch.rand(3, 5, 2, dtype=torch.float64).softmax(1).requires_grad_()
    assert gradcheck(lambda z, alpha: loss(z, target, alpha), (z, alpha), check_forward_ad=True)
    assert gradcheck(lambda z, y, alpha: loss(z, y, alpha, label_smoothing=0.1), (z, y, alpha), check_forward_ad=True)


@pytest.mark.parametrize("alpha", [0.5, 1.0, 1 + 1e-9, 1.001, 1.25, 1.5, 2 - 1e-9, 2.0, 2.5, 6.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_gradient_in_alpha_is_that_of_the_exact_loss(alpha: float, smoothing: float):
    z = torch.tensor(
        [[0.3, -1.2, 2.1, 0.9, -math.inf], [1.0, 1.0, 0.5, 0.5, -2.0], [3.0, 0.0, -1.0, -4.0, -5.0]]
    ).double()
    target = torch.tensor([3, 1, -100])
    if smoothing:
        z = z.clamp(min=-3)
    a = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    weight = torch.linspace(0.5, 1.5, 5, dtype=torch.float64)
    rows = entmax_loss(z, target, a, label_smoothing=smoothing, weight=weight, reduction="none")
    # The envelope theorem: the gradient is that of Omega(y) - Omega(p) with p and y held fast.
    y = (1 - smoothing) * F.one_hot(target.clamp(min=0), 5).double() + smoothing / 5
    for i in range(2):
        slopes = [omega_slope(exact.entmax(z[i, z[i].isfinite()], alpha), alpha), omega_slope(y[i].tolist(), alpha)]
        wanted = weight[target[i]].item() * float(slopes[1] - slopes[0])
        assert torch.autograd.grad(rows[i], a, retain_graph=True)[0].item() == pytest.approx(
            wanted, rel=1e-12, abs=1e-12
        )
    assert torch.autograd.grad(rows[2], a)[0] == 0


def omega_slope(p, alpha: float):
    """The derivative of the negative Tsallis entropy in alpha at fixed probabilities."""
    with mpmath.workdps(exact.DIGITS):

        def omega(a):
            if a == 1:
                return mpmath.fsum(x * mpmath.log(x) for x in p if x > 0)
            return mpmath.fsum(mpmath.mpf(x) ** a - x for x in p if x > 0) / (a * (a - 1))

        h = mpmath.mpf(10) ** -14
        return (omega(alpha + h) - omega(alpha - h)) / (2 * h)


@every_loss
def test_loss_does_not_ask_for_the_jacobian_of_its_map(loss, omega, monkeypatch):
    asked, find = [], _dispatch._find
    monkeypatch.setattr(_dispatch, "_find", lambda op, *rest: asked.append(op) or find(op, *rest))
    z, target = draw((3, 5))
    loss(z.requires_grad_(), target).backward()
    assert asked and not [op for op in asked if op.endswith("_vjp")]


@every_loss
def test_loss_is_twice_differentiable(loss, omega, generic_scores):
    z = generic_scores(omega.argmax, 3, 5).requires_grad_()
    target = torch.tensor([4, 0, 2])
    assert gradcheck(lambda z: loss(z, target), z, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(lambda z: loss(z, target, label_smoothing=0.1), z)


@every_loss
def test_loss_maps_differentiates_and_compiles(loss, omega):
    z, target = draw((4, 5))
    per_row = torch.func.vmap(torch.func.grad(lambda z, t: loss(z, t)))(z, target)
    torch.testing.assert_close(per_row, omega.argmax(z) - F.one_hot(target, 5))
    z.requires_grad_()
    w = torch.rand(5, dtype=torch.float64)
    torch.compiler.reset()
    compiled = torch.compile(
        lambda z, t: loss(z, t, weight=w, label_smoothing=0.1), fullgraph=True, backend="aot_eager"
    )
    wanted = loss(z, target, weight=w, label_smoothing=0.1)
    torch.testing.assert_close(compiled(z, target), wanted)
    torch.testing.assert_close(
        torch.autograd.grad(compiled(z, target), z)[0], torch.autograd.grad(wanted, z)[0], rtol=1e-12, atol=1e-12
    )


@pytest.mark.slow
@pytest.mark.inductor
def test_entmax_loss_compiles_with_inductor():
    z, target = draw((6, 7))
    target %= 7
    z.requires_grad_()
    alpha = torch.tensor(1.3, dtype=torch.float64, requires_grad=True)
    torch.compiler.reset()
    given = torch.compile(entmax_loss, fullgraph=True)(z, target, alpha)
    wanted = entmax_loss(z, target, alpha)
    torch.testing.assert_close(given, wanted)
    for a, b in zip(torch.autograd.grad(given, (z, alpha)), torch.autograd.grad(wanted, (z, alpha)), strict=True):
        torch.testing.assert_close(a, b)


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_is_computed_in_single(loss, omega, dtype):
    z, target = draw((64, 5), dtype=dtype)
    assert loss(z, target).dtype == dtype
    torch.testing.assert_close(loss(z, target), loss(z.float(), target).to(dtype))
    y = torch.rand(64, 5).softmax(-1).to(dtype)
    wanted = loss(z.float() + 1000, y.float() / y.float().sum(-1, keepdim=True), label_smoothing=0.1)
    torch.testing.assert_close(loss(z.float() + 1000, y, label_smoothing=0.1), wanted, rtol=0.02, atol=0.02)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert loss(z, target).dtype == torch.float32


def test_k_subsets_loss_takes_indices_and_k_hot_vectors_alike():
    z = torch.randn(3, 6, 2, dtype=torch.float64)
    index = torch.rand(3, 6, 2).argsort(1)[:, :3]
    k_hot = torch.zeros_like(z).scatter(1, index, 1.0)
    wanted = fenchel_young_loss(z.movedim(1, -1), k_hot.movedim(1, -1), omegamax.KSubsets(3), "none")
    torch.testing.assert_close(k_subsets_loss(z, index, 3, reduction="none"), wanted)
    torch.testing.assert_close(k_subsets_loss(z, k_hot, k=3, reduction="none"), wanted)
    smooth = 0.8 * k_hot + 0.2 * 3 / 6
    wanted = fenchel_young_loss(z.movedim(1, -1), smooth.movedim(1, -1), omegamax.KSubsets(3))
    torch.testing.assert_close(k_subsets_loss(z, index, 3, label_smoothing=0.2), wanted)
    w = torch.rand(6, dtype=torch.float64)
    rows = k_subsets_loss(z, index, 3, reduction="none")
    by_row = w[index].mean(1)
    torch.testing.assert_close(k_subsets_loss(z, index, 3, weight=w), (rows * by_row).sum() / by_row.sum())
    torch.testing.assert_close(k_subsets_loss(z, k_hot, 3, weight=torch.ones(6)), rows.mean())


def test_k_subsets_loss_ignores_a_set_that_holds_the_ignored_index():
    z = torch.randn(3, 6)
    index = torch.tensor([[0, 1], [-100, -100], [5, -100]])
    torch.testing.assert_close(k_subsets_loss(z, index, 2), k_subsets_loss(z[:1], index[:1], 2))


def test_k_subsets_loss_is_zero_from_the_margin_on():
    z = torch.tensor([[1e4, 1.1, 0.1, -0.3, -0.7], [3.5, 2.5, 4.7, -7.0, 1.3]])
    assert k_subsets_loss(z, torch.tensor([[1, 0], [0, 2]]), 2, reduction="none").tolist() == [0, 0]


BAD = [
    (sparsemax_loss, (torch.zeros(2, 3), torch.tensor([0, 3])), {}, IndexError, r"in \[0, 3\) .* got 3"),
    (sparsemax_loss, (torch.zeros(2, 3), torch.tensor([0, -1])), {}, IndexError, "ignore_index=-100, got -1"),
    (entmax15_loss, (torch.zeros(2, 3).long(), torch.tensor([0, 1])), {}, TypeError, "z must be a floating-point"),
    (entmax15_loss, (torch.zeros(()), torch.tensor(0)), {}, ValueError, r"z must have shape \[C\]"),
    (entmax15_loss, ([1.0, 2.0], torch.tensor(0)), {}, TypeError, "z must be a torch.Tensor, got list"),
    (entmax15_loss, (torch.zeros(2, 0), torch.tensor([0, 1])), {}, ValueError, "at least one entry"),
    (entmax15_loss, (torch.zeros(2, 3), 1), {}, TypeError, "target must be a floating-point tensor"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1, 2])), {}, ValueError, r"of shape \(2,\) or .* \(3,\)"),
    (softmax_loss, (torch.zeros(2, 3), torch.zeros(2, 3).bool()), {}, TypeError, "integer class indices or float"),
    (softmax_loss, (torch.zeros(2, 3), torch.zeros(3, 2)), {}, ValueError, r"got \(2, 3\) and \(3, 2\)"),
    (softmax_loss, (torch.zeros(2, 3), torch.zeros(2, 3)), {"ignore_index": 1}, ValueError, "ignore_index goes with"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"reduction": "avg"}, ValueError, "got 'avg'"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"label_smoothing": 1.5}, ValueError, r"\[0, 1\]"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"label_smoothing": None}, TypeError, "label_smoothing"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"weight": torch.ones(2)}, ValueError, r"shape \(3,\)"),
    (softmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"weight": [1, 2, 3]}, TypeError, "weight must be"),
    (entmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"alpha": 0.0}, ValueError, "alpha must be > 0"),
    (entmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(3)), {}, ValueError, "size 1 along dim=1"),
    (normmax_loss, (torch.zeros(2, 3), torch.tensor([0, 1])), {"alpha": 1.0}, ValueError, "alpha must be > 1"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.zeros(2, 3), 4), {}, ValueError, r"k must lie in \[0, 3\]"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.tensor([0, 1]), 2), {}, ValueError, "k=2 class indices"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.tensor([[0, 1], [2, 2]]), 2), {}, ValueError, "differ from each other"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.tensor([0, 1]), torch.ones(2, 1)), {}, ValueError, "integer"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.tensor([[0, 1], [2, 3]]), 2), {}, IndexError, "got 3"),
    (k_subsets_loss, (torch.zeros(2, 3), torch.tensor([[0, 1], [2, 1]]), 1.5), {}, ValueError, "integer, got 1.5"),
]


@pytest.mark.parametrize(("loss", "args", "options", "kind", "words"), BAD)
def test_bad_input_is_refused_by_name(loss, args, options, kind, words):
    with pytest.raises(kind, match=f"^{loss.__name__}: .*{words}"):
        loss(*args, **options)


@pytest.mark.parametrize("name", ONE_CLASS)
def test_signature_is_that_of_cross_entropy(name):
    ours = inspect.signature(getattr(omegamax.losses, name)).parameters
    theirs = inspect.signature(F.cross_entropy).parameters
    shared = [p for p in theirs if p not in ("input", "size_average", "reduce")]
    assert [p for p in ours if p not in ("z", "alpha", "k")] == shared
    assert all(ours[p].default == theirs[p].default for p in shared)
