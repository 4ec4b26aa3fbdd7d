"""The stand-in for the entmax package: same names, arguments and values, with its faults mended."""

import inspect
import math
from functools import partial

import pytest
import torch
from torch.autograd import gradcheck

import omegamax.compat.entmax as ours
from omegamax.compat.entmax.activations import _entmax_threshold_and_support, _sparsemax_threshold_and_support

theirs = pytest.importorskip("entmax")
import entmax.activations as their_activations  # noqa: E402

NAMES = [name for name, value in vars(theirs).items() if callable(value)]
MAPS = [
    ("sparsemax", {}),
    ("entmax15", {}),
    ("sparsemax_bisect", {}),
    *[("entmax_bisect", {"alpha": a}) for a in (0.5, 1.2, 1.5, 2, 3.0)],
    *[("normmax_bisect", {"alpha": a}) for a in (1.2, 2, 5.0)],
    *[("budget_bisect", {"budget": b}) for b in (1, 2.5, 4)],
]
LOSSES = [
    ("sparsemax_loss", {}),
    ("entmax15_loss", {}),
    ("sparsemax_bisect_loss", {}),
    *[("entmax_bisect_loss", {"alpha": a}) for a in (0.5, 1.5, 3.0)],
    *[("normmax_bisect_loss", {"alpha": a}) for a in (1.5, 2)],
]
COARSE = [
    ("entmax_bisect", {"alpha": 0.5}),
    ("entmax_bisect", {"alpha": 1.5}),
    ("entmax_bisect", {"alpha": 1.7, "ensure_sum_one": False}),
    ("entmax_bisect", {"alpha": 4.0}),
    ("normmax_bisect", {"alpha": 1.5}),
    ("normmax_bisect", {"alpha": 4.0}),
    ("budget_bisect", {"budget": 2}),
]
MODULES = [
    ("Sparsemax", {"k": 3}, "sparsemax", {}),
    ("Entmax15", {"k": 3}, "entmax15", {}),
    ("SparsemaxBisect", {"n_iter": 4}, "sparsemax_bisect", {"n_iter": 4}),
    ("EntmaxBisect", {"alpha": 1.3, "n_iter": 4}, "entmax_bisect", {"alpha": 1.3, "n_iter": 4}),
    ("NormmaxBisect", {"alpha": 1.3, "n_iter": 4}, "normmax_bisect", {"alpha": 1.3, "n_iter": 4}),
    ("BudgetBisect", {"budget": 3, "n_iter": 4}, "budget_bisect", {"budget": 3, "n_iter": 4}),
]
LOSS_MODULES = ["SparsemaxLoss", "SparsemaxBisectLoss", "Entmax15Loss", "EntmaxBisectLoss", "NormmaxBisectLoss"]


def label(value):
    return value if isinstance(value, str) else "-".join(f"{k}={v}" for k, v in value.items()) or "plain"


every_map = pytest.mark.parametrize(("name", "options"), MAPS, ids=label)
every_loss = pytest.mark.parametrize(("name", "options"), LOSSES, ids=label)


def scores(*shape, dtype=torch.float64):
    return torch.randn(*shape, dtype=dtype)


def labelled(dtype=torch.float64):
    return 2 * scores(12, 7, dtype=dtype), torch.arange(12) % 7


def value_and_gradient(function, X):
    X = X.detach().clone().requires_grad_()
    out = function(X)
    weights = torch.linspace(-1, 1, out.numel(), dtype=out.dtype).reshape(out.shape)
    (grad,) = torch.autograd.grad((out * weights).sum(), X)
    return out.detach(), grad


def same(a, b, tolerance):
    torch.testing.assert_close(a, b, atol=tolerance, rtol=0)


# Names and arguments


@pytest.mark.parametrize("name", NAMES)
def test_name_has_the_arguments_of_the_original(name):
    def arguments(package):
        thing = getattr(package, name)
        signature = inspect.signature(thing.__init__ if inspect.isclass(thing) else thing)
        return [(p.name, p.kind, p.default) for p in signature.parameters.values()]

    assert arguments(ours) == arguments(theirs)


@pytest.mark.parametrize("module", ["activations", "root_finding", "losses"])
def test_submodules_hold_the_names_of_the_original(module):
    theirs_there = inspect.getmodule(getattr(theirs, module))
    public = [
        n for n, v in vars(theirs_there).items() if getattr(v, "__module__", "") == theirs_there.__name__ and n in NAMES
    ]
    assert public and all(hasattr(getattr(ours, module), n) for n in public)


def test_version_is_that_of_the_original():
    assert ours.__version__ == theirs.__version__


@pytest.mark.parametrize(("module", "settings", "function", "options"), MODULES, ids=label)
@pytest.mark.parametrize("dim", [0, 1, -1, -2])
def test_module_calls_its_function(module, settings, function, options, dim):
    X = scores(6, 5, 6)
    out = getattr(ours, module)(dim=dim, **settings)(X)
    assert torch.equal(out, getattr(ours, function)(X, dim=dim, **options))


def test_modules_print_their_settings():
    assert repr(ours.EntmaxBisect(1.25, dim=0)) == "EntmaxBisect(alpha=1.25, dim=0, n_iter=50)"
    assert repr(ours.Sparsemax(dim=1)) == "Sparsemax(dim=1)"


# Values and gradients


@every_map
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-10)], ids=str)
def test_map_agrees_with_the_original(name, options, dtype, tolerance):
    for scale in (0.1, 1, 5):
        X = scale * scores(20, 9, dtype=dtype)
        for dim in (0, -1):
            p, grad = value_and_gradient(partial(getattr(ours, name), dim=dim, **options), X)
            # In float64, since their bisection amplifies the rounding of its threshold.
            their_p, their_grad = value_and_gradient(partial(getattr(theirs, name), dim=dim, **options), X.double())
            same(p.double(), their_p, tolerance)
            torch.testing.assert_close(grad.double(), their_grad, atol=10 * tolerance, rtol=1e3 * tolerance)


@every_loss
@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-10)], ids=str)
def test_loss_agrees_with_the_original(name, options, dtype, tolerance):
    X, y = labelled(dtype)
    loss, grad = value_and_gradient(partial(getattr(ours, name), target=y, **options), X)
    their_loss, their_grad = value_and_gradient(partial(getattr(theirs, name), target=y, **options), X.double())
    same(loss.double(), their_loss, 2 * tolerance)
    same(grad.double(), their_grad, tolerance)


@pytest.mark.parametrize("name", LOSS_MODULES)
@pytest.mark.parametrize("reduction", ["elementwise_mean", "sum", "none"])
@pytest.mark.parametrize("ignore_index", [-100, 0, 3])
def test_loss_module_agrees_with_the_original(name, reduction, ignore_index):
    X, y = labelled()
    same(
        getattr(ours, name)(ignore_index=ignore_index, reduction=reduction)(X, y),
        getattr(theirs, name)(ignore_index=ignore_index, reduction=reduction)(X, y),
        1e-10,
    )


def test_gradient_in_alpha_agrees_with_the_original():
    X = scores(4, 6)
    for alpha in (0.3, 1.3, 1.9, 2.5):
        grads = []
        for package in (ours, theirs):
            a = torch.full((4, 1), alpha, dtype=torch.float64, requires_grad=True)
            grads.append(torch.autograd.grad(package.entmax_bisect(X, a).square().sum(), a)[0])
        same(*grads, 1e-9)


@pytest.mark.parametrize("scale", [0.01, 1.0, 100.0])
@pytest.mark.parametrize("dim", [0, 1, 2, -1, -2])
@pytest.mark.parametrize("k", [None, 1, 2])
def test_thresholds_agree_with_the_original(scale, dim, k):
    X = scale * scores(3, 4, 5)
    for mine, other in (
        (_sparsemax_threshold_and_support, their_activations._sparsemax_threshold_and_support),
        (_entmax_threshold_and_support, their_activations._entmax_threshold_and_support),
    ):
        (tau, size), (their_tau, their_size) = mine(X, dim=dim, k=k), other(X, dim=dim)
        same(tau, their_tau, 1e-10)
        assert torch.equal(size, their_size)


def test_thresholds_are_differentiable():
    X = scores(3, 5).requires_grad_()
    assert gradcheck(lambda X: _sparsemax_threshold_and_support(X)[0], X)
    assert gradcheck(lambda X: _entmax_threshold_and_support(X)[0], X)


@pytest.mark.parametrize("k", [1, 2, 5, 1000])
def test_size_of_the_partial_sort_changes_nothing(k):
    X, y = labelled()
    assert torch.equal(ours.sparsemax(X, k=k), ours.sparsemax(X))
    assert torch.equal(ours.entmax15(X, k=k), ours.entmax15(X))
    assert torch.equal(ours.sparsemax_loss(X, y, k=k), ours.sparsemax_loss(X, y))
    assert torch.equal(ours.Entmax15Loss(k=k)(X, y), ours.Entmax15Loss()(X, y))


# Coarse bisections


@pytest.mark.parametrize(("name", "options"), COARSE, ids=label)
@pytest.mark.parametrize("n_iter", [1, 2, 5, 20, 49])
@pytest.mark.parametrize("dim", [0, -1])
def test_coarse_result_is_that_of_the_original(name, options, n_iter, dim):
    X = scores(8, 8)
    mine = value_and_gradient(partial(getattr(ours, name), dim=dim, n_iter=n_iter, **options), X)
    other = value_and_gradient(partial(getattr(theirs, name), dim=dim, n_iter=n_iter, **options), X)
    same(mine[0], other[0], 1e-12)
    torch.testing.assert_close(mine[1], other[1].nan_to_num(0.0), atol=1e-10, rtol=1e-10)


@pytest.mark.parametrize("n_iter", [1, 5, 20])
def test_coarse_gradient_in_alpha_is_that_of_the_original(n_iter):
    X, grads = scores(4, 6), []
    for package in (ours, theirs):
        a = torch.full((4, 1), 1.3, dtype=torch.float64, requires_grad=True)
        p = package.entmax_bisect(X, a, n_iter=n_iter)
        grads.append(torch.autograd.grad(p.square().sum(), a)[0])
    same(*grads, 1e-11)


@pytest.mark.parametrize("n_iter", [1, 5, 20])
def test_coarse_loss_is_that_of_the_original_but_never_negative(n_iter):
    X, y = labelled()
    for name, options in LOSSES[3:]:
        options = {"target": y, "n_iter": n_iter, **options}
        mine = value_and_gradient(partial(getattr(ours, name), **options), X)
        other = value_and_gradient(partial(getattr(theirs, name), **options), X)
        same(mine[0], other[0].clamp(min=0), 1e-11)
        same(mine[1], other[1], 1e-12)


def test_sparsemax_bisect_honours_n_iter_and_ensure_sum_one():
    X = scores(5, 6)
    coarse = ours.SparsemaxBisect(n_iter=3)(X)
    same(coarse, theirs.entmax_bisect(X, alpha=2.0, n_iter=3), 1e-14)
    raw = ours.sparsemax_bisect(X, n_iter=3, ensure_sum_one=False)
    same(raw, theirs.entmax_bisect(X, alpha=2.0, n_iter=3, ensure_sum_one=False), 1e-14)
    assert ((raw.sum(-1) - 1).abs() > 1e-3).any()
    same(raw / raw.sum(-1, keepdim=True), coarse, 1e-14)


@pytest.mark.parametrize(("dtype", "enough"), [(torch.float32, 24), (torch.bfloat16, 24), (torch.float64, 50)], ids=str)
def test_enough_halvings_give_the_exact_result(dtype, enough):
    X = scores(5, 6).to(dtype)
    for n_iter in (enough, 100, None):
        assert torch.equal(ours.sparsemax_bisect(X, n_iter=n_iter), ours.sparsemax(X))
        assert torch.equal(ours.entmax_bisect(X, n_iter=n_iter), ours.entmax15(X))


def test_coarse_result_with_almost_enough_halvings_is_almost_exact():
    X = scores(5, 6)
    for name, options in MAPS[3:]:
        function = partial(getattr(ours, name), X, **options)
        same(function(n_iter=49), function(), 1e-9)


def test_coarse_entmax_takes_alpha_one_and_infinity():
    X = scores(3, 5)
    alpha = torch.tensor([[1.0], [math.inf], [1.5]], dtype=torch.float64, requires_grad=True)
    p = ours.entmax_bisect(X, alpha, n_iter=49)
    same(p[0], X[0].softmax(-1), 1e-9)
    assert torch.equal(p[1], torch.nn.functional.one_hot(X[1].argmax(), 5).double())
    assert torch.autograd.grad(p.square().sum(), alpha)[0].isfinite().all()
    same(ours.normmax_bisect(X, math.inf, n_iter=49), ours.normmax_bisect(X, math.inf), 1e-9)


def test_too_few_halvings_are_refused():
    with pytest.raises(ValueError, match="n_iter must be at least 1, got 0"):
        ours.entmax_bisect(scores(3), n_iter=0)


# What the original does not do


@every_map
@pytest.mark.parametrize("n_iter", [None, 6])
def test_fully_masked_row_gives_zeros_and_no_gradient(name, options, n_iter):
    if "bisect" in name:
        options = {**options, "n_iter": n_iter}
    X = scores(3, 5)
    X[1] = -math.inf
    p, grad = value_and_gradient(partial(getattr(ours, name), **options), X)
    assert torch.equal(p[1], torch.zeros(5, dtype=X.dtype)) and torch.equal(grad[1], torch.zeros(5, dtype=X.dtype))
    alone = value_and_gradient(partial(getattr(ours, name), **options), X[[0]])[0]
    same(p[0], alone[0], 1e-15)


@every_map
@pytest.mark.parametrize("n_iter", [None, 49])
def test_masked_entries_leave_the_rest_alone(name, options, n_iter):
    if "bisect" in name:
        options = {**options, "n_iter": n_iter}
    X = scores(3, 7)
    X[:, 4:] = -math.inf
    p, grad = value_and_gradient(partial(getattr(ours, name), **options), X)
    same(p[:, :4], getattr(ours, name)(X[:, :4], **options), 1e-9)
    assert (p[:, 4:] == 0).all() and (grad[:, 4:] == 0).all() and grad.isfinite().all()


@every_map
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n_iter", [None, 6])
def test_half_precision_is_the_rounded_float32_result(name, options, dtype, n_iter):
    if "bisect" in name:
        options = {**options, "n_iter": n_iter}
    X = scores(4, 9, dtype=torch.float32).to(dtype)
    function = partial(getattr(ours, name), **options)
    p, grad = value_and_gradient(function, X)
    assert p.dtype == grad.dtype == dtype
    assert torch.equal(p, function(X.float()).to(dtype))


@every_loss
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("n_iter", [None, 6])
def test_half_precision_loss_is_the_rounded_float32_loss(name, options, dtype, n_iter):
    if "bisect" in name:
        options = {**options, "n_iter": n_iter}
    X, y = labelled(torch.float32)
    X = X.to(dtype)
    loss = getattr(ours, name)(X, y, **options)
    assert loss.dtype == dtype
    assert torch.equal(loss, getattr(ours, name)(X.float(), y, **options).to(dtype))


@every_map
def test_negative_dim_means_the_same_axis_counted_from_the_end(name, options):
    X = scores(5, 6, 7)
    for dim in (-3, -2, -1):
        function = getattr(ours, name)
        assert torch.equal(function(X, dim=dim, **options), function(X, dim=dim + 3, **options))
        if name in ("sparsemax", "entmax15"):
            assert torch.equal(function(X, dim=dim, k=1), function(X, dim=dim + 3))


def test_thresholds_of_a_fully_masked_row_are_finite_with_empty_support():
    X = torch.full((2, 3), -math.inf)
    X[0] = 0.0
    for function in (_sparsemax_threshold_and_support, _entmax_threshold_and_support):
        tau, size = function(X)
        assert tau.isfinite().all() and size.tolist() == [[3], [0]]


def test_entmax_takes_alpha_of_one_and_below():
    X = scores(4, 6).requires_grad_()
    same(ours.entmax_bisect(X, 1.0), X.softmax(-1), 1e-12)
    alpha = torch.tensor([[0.1], [0.7], [1.0], [1.5]], dtype=torch.float64, requires_grad=True)
    assert gradcheck(ours.entmax_bisect, (X, alpha))


@pytest.mark.parametrize("n_iter", [None, 6])
def test_normmax_below_one_is_the_maximiser_of_its_objective(n_iter):
    X = scores(20, 5)
    for alpha in (0.05, 0.5, 0.99, 1.0):
        p = ours.normmax_bisect(X, alpha, n_iter=n_iter)
        others = torch.distributions.Dirichlet(torch.full((5,), 0.5, dtype=torch.float64)).sample((200, 20))

        def value(q, alpha=alpha):
            return (q * X).sum(-1) - q.pow(alpha).sum(-1).pow(1 / alpha)

        assert (value(p) >= value(others)).all()
        assert torch.equal(p, torch.nn.functional.one_hot(X.argmax(-1), 5).double())


@pytest.mark.parametrize("n_iter", [None, 6])
def test_normmax_takes_an_alpha_for_each_row_on_both_sides_of_one(n_iter):
    X, y = labelled()
    alpha = torch.linspace(0.25, 3, 12, dtype=torch.float64).unsqueeze(-1)
    p = ours.normmax_bisect(X, alpha, n_iter=n_iter)
    loss = ours.normmax_bisect_loss(X, y, alpha, n_iter=n_iter)
    for i in range(12):
        same(p[i], ours.normmax_bisect(X[i], alpha[i].item(), n_iter=n_iter), 1e-12)
        same(loss[[i]], ours.normmax_bisect_loss(X[[i]], y[[i]], alpha[i].item(), n_iter=n_iter), 1e-12)


def test_normmax_tends_to_its_limit_as_alpha_falls_to_one():
    X = scores(6, 5)
    same(ours.normmax_bisect(X, 1.001), ours.normmax_bisect(X, 1.0), 1e-3)


@pytest.mark.parametrize("budget", range(7))
def test_every_budget_up_to_the_size_has_its_sum_and_gradient(budget):
    X = scores(4, 6).requires_grad_()
    for b in (budget, torch.tensor(budget, dtype=torch.float64)):
        assert gradcheck(partial(ours.budget_bisect, budget=b), X)
        same(ours.budget_bisect(X, b).sum(-1), torch.full((4,), float(budget), dtype=torch.float64), 1e-12)


@pytest.mark.parametrize("n_iter", [None, 20])
def test_budget_beyond_the_size_takes_every_entry(n_iter):
    X = scores(3, 4)
    assert torch.equal(ours.budget_bisect(X, 9, n_iter=n_iter), torch.ones_like(X))
    same(ours.budget_bisect(X, 9), theirs.budget_bisect(X, 9), 0)
    assert torch.equal(ours.budget_bisect(X, -1, n_iter=n_iter), torch.zeros_like(X))


def test_budget_and_alpha_may_be_learnt():
    X, _ = labelled()
    module = ours.EntmaxBisect(torch.nn.Parameter(torch.tensor(1.3, dtype=torch.float64)))
    module(X).square().sum().backward()
    assert module.alpha.grad.abs() > 0
    budget = torch.full((12, 1), 2.5, dtype=torch.float64, requires_grad=True)
    ours.budget_bisect(X, budget).sum().backward()
    same(budget.grad, torch.ones_like(budget), 1e-12)


@pytest.mark.parametrize("Loss", [ours.EntmaxBisectLoss, ours.NormmaxBisectLoss])
@pytest.mark.parametrize("shape", [(), (1,), (12, 1)], ids=str)
def test_gradient_reaches_the_alpha_of_a_loss(Loss, shape):
    X, y = labelled()
    alpha = torch.full(shape, 1.4, dtype=torch.float64, requires_grad=True)
    assert gradcheck(lambda X, alpha: Loss(alpha, reduction="none")(X, y), (X.requires_grad_(), alpha))


@pytest.mark.parametrize("Loss", [ours.EntmaxBisectLoss, ours.NormmaxBisectLoss])
def test_alpha_of_a_loss_may_be_a_parameter(Loss):
    X, y = labelled()
    module = Loss(torch.nn.Parameter(torch.tensor(1.4)))
    module(X.float(), y).backward()
    assert [name for name, _ in module.named_parameters()] == ["alpha"] and module.alpha.grad.abs() > 0


# Losses


@pytest.mark.parametrize("name", LOSS_MODULES)
@pytest.mark.parametrize("ignore_index", [-100, -1, 3])
def test_ignored_samples_count_for_nothing_whatever_the_sign(name, ignore_index):
    X, y = labelled()
    kept = y != 3
    y = torch.where(kept, y, ignore_index)
    X[~kept] = math.nan
    Loss = partial(getattr(ours, name), ignore_index=ignore_index)
    same(Loss()(X, y), Loss()(X[kept], y[kept]), 1e-14)
    loss, grad = value_and_gradient(lambda X: Loss(reduction="none")(X, y), X)
    assert (loss[~kept] == 0).all() and (grad[~kept] == 0).all()


@every_loss
def test_loss_is_zero_at_the_margin_and_never_negative(name, options):
    for dtype in (torch.float32, torch.float64):
        X = scores(200, 5, dtype=dtype)
        y = X.argmax(-1)
        assert (getattr(ours, name)(X, y, **options) >= 0).all()
        if options.get("alpha", 2) > 1:
            X = X.scatter_add(1, y[:, None], X.new_full((200, 1), 2.5))
            loss, grad = value_and_gradient(partial(getattr(ours, name), target=y, **options), X)
            assert (loss == 0).all() and (grad == 0).all()


@every_loss
def test_loss_does_not_depend_on_a_shift_of_the_scores(name, options):
    X, y = labelled(torch.float32)
    X = (X * 64).round() / 64  # so that adding a large number loses nothing
    same(getattr(ours, name)(X + 4096, y, **options), getattr(ours, name)(X, y, **options), 1e-6)


def test_loss_of_a_masked_class_is_infinite_and_of_the_others_finite():
    X, y = labelled()
    X[:, 5] = -math.inf
    for name, options in LOSSES:
        loss, grad = value_and_gradient(partial(getattr(ours, name), target=y, **options), X)
        assert (loss.isinf() == (y == 5)).all() and grad.isfinite().all()


def test_unknown_reductions_and_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="reduction must be one of 'elementwise_mean', 'sum', 'none', got 'mean'"):
        ours.SparsemaxLoss(reduction="mean")
    with pytest.raises(ValueError, match=r"got shapes \(3, 4\) and \(2,\)"):
        ours.sparsemax_loss(scores(3, 4), torch.tensor([0, 1]))
