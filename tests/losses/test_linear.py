"""The loss of a projection in chunks is that of the projection in one piece, and so are its gradients."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from nn.launches import count_launches
from torch.utils._python_dispatch import TorchDispatchMode

import omegamax
from omegamax import _checks, kernels
from omegamax.losses import _chunks, _class_blocks, _support

F64 = torch.float64
GPU = "cuda" if torch.cuda.is_available() else "cpu"  # where kernels of a GPU run, interpreted if there is none


def parts(*shape: int, bias: bool = True, dtype: torch.dtype = F64, device: str = "cpu"):
    options = {"dtype": dtype, "device": device, "requires_grad": True}
    hidden = torch.randn(*shape, 5, **options)
    weight = torch.randn(7, 5, **options)
    b = torch.randn(7, **options) if bias else None
    target = torch.randint(7, shape, device=device)
    if target.numel() > 2:
        target.view(-1)[1] = -100
    return hidden, weight, b, target


def grads(loss, *inputs):
    g = torch.randn(loss.shape, dtype=loss.dtype, generator=torch.Generator().manual_seed(3))
    return torch.autograd.grad(loss, [x for x in inputs if x is not None], g.to(loss.device))


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("alpha", [1.0, 1.3, 1.5, 2.0, 3.0])
@pytest.mark.parametrize("chunk", [1, 4, 100, None])
def test_it_is_the_loss_of_the_scores(reduction: str, alpha: float, chunk: int | None):
    hidden, weight, bias, target = parts(2, 5)
    options = {"bias": bias, "reduction": reduction, "label_smoothing": 0.1}
    loss = omegamax.linear_entmax_loss(hidden, weight, target, alpha, chunk, **options)
    scores = F.linear(hidden, weight, bias).movedim(-1, 1)
    wanted = omegamax.entmax_loss(scores, target, alpha, reduction=reduction, label_smoothing=0.1)
    torch.testing.assert_close(loss, wanted, rtol=0, atol=1e-12)
    for ours, theirs in zip(grads(loss, hidden, weight, bias), grads(wanted, hidden, weight, bias), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_alpha_learns(reduction: str):
    hidden, weight, _, target = parts(6, bias=False)
    alpha = torch.tensor(1.4, dtype=F64, requires_grad=True)
    loss = omegamax.linear_entmax_loss(hidden, weight, target, alpha, 2, reduction=reduction)
    wanted = omegamax.entmax_loss(hidden @ weight.T, target, alpha, reduction=reduction)
    for ours, theirs in zip(grads(loss, hidden, weight, alpha), grads(wanted, hidden, weight, alpha), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-12)


def test_finite_differences():
    hidden, weight, bias, target = parts(4)
    assert torch.autograd.gradcheck(
        lambda h, w, b: omegamax.linear_entmax_loss(h, w, target, 1.5, 3, bias=b), (hidden, weight, bias)
    )


def test_only_what_is_wanted_has_a_gradient():
    hidden, weight, bias, target = parts(4)
    loss = omegamax.linear_entmax_loss(hidden.detach(), weight, target, bias=bias.detach())
    loss.backward()
    assert weight.grad is not None and hidden.grad is None and bias.grad is None
    with torch.no_grad():
        assert not omegamax.linear_entmax_loss(hidden, weight, target).requires_grad


def test_it_can_be_differentiated_once():
    hidden, weight, _, target = parts(4)
    loss = omegamax.linear_entmax_loss(hidden, weight, target)
    with pytest.raises(RuntimeError, match="can be differentiated once, got create_graph=True"):
        torch.autograd.grad(loss, hidden, create_graph=True)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype: torch.dtype):
    hidden, weight, _, target = parts(8, bias=False, dtype=dtype)
    loss = omegamax.linear_entmax_loss(hidden, weight, target, 1.5, 3)
    assert loss.dtype == dtype
    exact = omegamax.entmax_loss(hidden.double() @ weight.double().T, target)
    plain = omegamax.entmax_loss(hidden @ weight.T, target)
    slack = torch.finfo(dtype).eps
    assert (loss - exact).abs() <= 2 * (plain - exact).abs() + slack * exact.abs()
    ours, theirs, truth = (grads(x, hidden, weight) for x in (loss, plain, exact))
    for o, t, e in zip(ours, theirs, truth, strict=True):
        assert (o - e).abs().max() <= 2 * (t - e).abs().max() + slack * e.abs().max()


def test_autocast():
    hidden, weight, _, target = parts(8, bias=False, dtype=torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        loss = omegamax.linear_entmax_loss(hidden, weight, target, 1.5, 3)
        plain = omegamax.entmax_loss(F.linear(hidden, weight), target)
    assert loss.dtype == plain.dtype == torch.float32
    torch.testing.assert_close(loss, plain, rtol=1e-5, atol=1e-6)
    for ours, theirs in zip(grads(loss, hidden, weight), grads(plain, hidden, weight), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=0, atol=2e-2)


def test_no_tokens_and_nothing_but_ignored_ones():
    hidden, weight, _, _ = parts(0, bias=False)
    empty = torch.zeros(0, dtype=torch.long)
    assert omegamax.linear_entmax_loss(hidden, weight, empty, reduction="none").shape == (0,)
    assert omegamax.linear_entmax_loss(hidden, weight, empty, reduction="sum") == 0
    hidden, weight, _, _ = parts(3, bias=False)
    ignored = torch.full((3,), -100)
    assert omegamax.linear_entmax_loss(hidden, weight, ignored).isnan()  # as cross_entropy
    (dh,) = torch.autograd.grad(omegamax.linear_entmax_loss(hidden, weight, ignored, reduction="sum"), hidden)
    assert not dh.any()


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"hidden": torch.zeros(3, 4)}, ValueError, r"hidden must have shape \[\*, D\] and weight \[V, D\]"),
        ({"hidden": torch.zeros(3, 5, dtype=torch.long)}, TypeError, "hidden must be a floating-point tensor"),
        ({"weight": "w"}, TypeError, "weight must be a floating-point tensor, got str"),
        ({"target": torch.zeros(2, dtype=torch.long)}, ValueError, r"class indices of shape \(3,\), got \(2,\)"),
        ({"target": torch.zeros(3)}, ValueError, "class indices"),
        ({"bias": torch.zeros(3)}, ValueError, r"bias must have shape \(7,\), got \(3,\)"),
        ({"chunk": 0}, ValueError, "chunk must be an integer >= 1, a count of tokens, got 0"),
        ({"alpha": -1.0}, ValueError, "alpha must be > 0"),
        ({"alpha": torch.ones(3)}, ValueError, "a tensor of one number"),
        ({"reduction": "some"}, ValueError, "reduction must be one of"),
        ({"target": torch.tensor([0, 1, 7])}, IndexError, r"class indices in \[0, 7\)"),
    ],
)
def test_what_does_not_fit_is_refused(change, error, message):
    given = {"hidden": torch.zeros(3, 5), "weight": torch.zeros(7, 5), "target": torch.zeros(3, dtype=torch.long)}
    with pytest.raises(error, match=message):
        omegamax.linear_entmax_loss(**{**given, **change})


@pytest.fixture(params=["all scores", "support", "support, and lists that are too long"])
def fused(request, monkeypatch) -> None:
    """Chunks by the kernels of a GPU, interpreted: with the gradient of all scores, or of those in the support."""
    pytest.importorskip("triton", minversion="3.4")
    if GPU == "cpu":
        monkeypatch.setattr(kernels, "takes_half", lambda op, z: op == "entmax_loss")
    if request.param != "all scores":
        monkeypatch.setattr(_support, "FEW", {2: 1, 4: 1})
    if request.param == "support, and lists that are too long":
        missed = _support.SupportGradients.pop_missed

        def forgetful(support, parts):
            if support.lists is not None:
                support.lists.counts[-1] = 1000
            return missed(support, parts)

        monkeypatch.setattr(_support.SupportGradients, "pop_missed", forgetful)


interpreted = pytest.mark.filterwarnings("ignore:(invalid value|overflow|divide by zero) encountered:RuntimeWarning")


@interpreted
@pytest.mark.parametrize(
    ("reduction", "alpha"), [("mean", 1.5), ("sum", 2.0), ("none", 2.0), ("mean", "learnt"), ("none", "learnt")]
)
def test_kernels_of_a_gpu(fused, reduction: str, alpha):
    hidden, weight, bias, target = parts(2, 4, dtype=torch.float32, device=GPU)
    exact = [x.detach().double().requires_grad_() for x in (hidden, weight, bias)]
    inputs = [hidden, weight, bias]
    a, exact_a = alpha, alpha
    if alpha == "learnt":
        a = torch.tensor(1.4, device=GPU, requires_grad=True)
        exact_a = torch.tensor(1.4, dtype=F64, device=GPU, requires_grad=True)
        inputs, exact = [*inputs, a], [*exact, exact_a]
    loss = omegamax.linear_entmax_loss(hidden, weight, target, a, 3, bias=bias, reduction=reduction)
    scores = F.linear(*exact[:3]).movedim(-1, 1)
    wanted = omegamax.entmax_loss(scores, target, exact_a, reduction=reduction)
    assert loss.dtype is torch.float32
    torch.testing.assert_close(loss.double(), wanted, rtol=1e-6, atol=1e-6)
    g = torch.rand_like(loss)
    found = torch.autograd.grad(loss, inputs, g, retain_graph=True)
    for ours, theirs in zip(found, torch.autograd.grad(wanted, exact, g.double()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=3e-6)
    for ours, again in zip(found, torch.autograd.grad(loss, inputs, g), strict=True):
        torch.testing.assert_close(ours, again, rtol=1e-5, atol=1e-6)


@interpreted
def test_half_precision_by_kernels(fused):
    hidden, weight, _, target = parts(8, bias=False, dtype=torch.float16, device=GPU)
    loss = omegamax.linear_entmax_loss(hidden, weight, target, 1.5, 3)
    exact = omegamax.entmax_loss(hidden.double() @ weight.double().T, target)
    torch.testing.assert_close(loss.double(), exact, rtol=2e-3, atol=2e-3)
    for ours, theirs in zip(grads(loss, hidden, weight), grads(exact, hidden, weight), strict=True):
        assert ours.dtype is torch.float16
        torch.testing.assert_close(ours, theirs, rtol=4e-3, atol=1e-3)


class LargestSingle(TorchDispatchMode):
    """Entries of the largest tensor in float32 that an operation returns."""

    entries = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        if isinstance(result, torch.Tensor) and result.dtype is torch.float32:
            self.entries = max(self.entries, result.numel())
        return result


@interpreted
@pytest.mark.parametrize("chunk", [4, 20], ids=["scores computed again", "one chunk"])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_weights_by_blocks_of_classes(monkeypatch, chunk: int, alpha: float, smoothing: float):
    """No sum over chunks in float32, as large as the weights; as exact as the loss of all scores."""
    pytest.importorskip("triton", minversion="3.4")
    if GPU == "cpu":
        monkeypatch.setattr(kernels, "takes_half", lambda op, z: op == "entmax_loss")
    for module in (_chunks, _class_blocks):
        monkeypatch.setattr(module, "PRODUCT_ENTRIES", 64 * 128)
    monkeypatch.setattr(_support, "FEW", {2: 1000})  # no lists
    monkeypatch.setattr(_checks, "dispatch_mode_count", lambda: 0)  # nor another way because a mode looks on
    kind = {"dtype": torch.float16, "device": GPU}
    leaves = [torch.randn(20, 128, **kind), torch.randn(150, 128, **kind) / 4, torch.randn(150, **kind)]
    hidden, weight, bias = (x.requires_grad_() for x in leaves)
    target = torch.randint(150, (20,), device=GPU)
    target[:3] = torch.tensor([-100, 0, 149])

    def of_scores(h, w, b):
        return omegamax.entmax_loss(F.linear(h, w, b), target, alpha, label_smoothing=smoothing)

    with LargestSingle() as largest:
        loss = omegamax.linear_entmax_loss(hidden, weight, target, alpha, chunk, bias=bias, label_smoothing=smoothing)
    assert largest.entries < weight.numel()
    exact = of_scores(hidden.double(), weight.double(), bias.double())
    with omegamax.backend("reference"):
        plain = of_scores(hidden, weight, bias)
    slack = torch.finfo(torch.float16).eps
    for ours, theirs, truth in zip(*(grads(x, hidden, weight, bias) for x in (loss, plain, exact)), strict=True):
        assert ours.dtype is torch.float16
        assert (ours - truth).abs().max() <= 2 * (theirs - truth).abs().max() + slack * truth.abs().max()


@interpreted
def test_smoothing_by_kernels(fused):
    hidden, weight, _, target = parts(5, bias=False, dtype=torch.float32, device=GPU)
    loss = omegamax.linear_entmax_loss(hidden, weight, target, 1.5, 3, label_smoothing=0.2)
    exact = omegamax.entmax_loss(hidden.double() @ weight.double().T, target, label_smoothing=0.2)
    torch.testing.assert_close(loss.double(), exact, rtol=1e-6, atol=1e-6)
    for ours, theirs in zip(grads(loss, hidden, weight), grads(exact, hidden, weight), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=2e-6)
    alpha = torch.tensor(1.4, device=GPU, requires_grad=True)
    loss = omegamax.linear_entmax_loss(hidden, weight, target, alpha, 3, label_smoothing=0.2)
    exact = omegamax.entmax_loss(hidden.double() @ weight.double().T, target, alpha.double(), label_smoothing=0.2)
    torch.testing.assert_close(grads(loss, alpha), grads(exact, alpha), rtol=1e-5, atol=2e-6)


@interpreted
@pytest.mark.skipif(GPU == "cuda", reason="the next test captures a graph there, which shows the same")
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("long", [False, True])
def test_nothing_waits_for_a_learnt_alpha(monkeypatch, reduction: str, smoothing: float, long: bool):
    """Without lists, as while a graph is captured."""
    pytest.importorskip("triton", minversion="3.4")
    from omegamax.kernels.choice import choose
    from omegamax.kernels.losses.triton import launcher

    monkeypatch.setattr(kernels, "takes_half", lambda op, z: op == "entmax_loss")
    monkeypatch.setattr(_support.SupportGradients, "takes", lambda *_: False)
    if long:
        monkeypatch.setattr(launcher, "choose", lambda op, case, itemsize, _: choose(op, case, itemsize, 10**6))
    alpha = torch.tensor(1.4, requires_grad=True)
    hidden, weight, bias, target = parts(2, 4, dtype=torch.float32)

    def linear():
        options = {"bias": bias, "reduction": reduction, "label_smoothing": smoothing}
        return omegamax.linear_entmax_loss(hidden, weight, target, alpha, 3, **options)

    def of_scores():
        scores = F.linear(hidden, weight, bias).movedim(-1, 1)
        return omegamax.entmax_loss(scores, target, alpha, reduction=reduction, label_smoothing=smoothing)

    for step in (linear, of_scores):
        for launched in count_launches(step, (hidden, weight, bias, alpha)):
            assert not launched.waits, launched.waits


@pytest.mark.skipif(GPU == "cpu", reason="graphs are captured on a GPU")
@pytest.mark.parametrize("alpha", ["learnt", 1.0, 1.5, 3.0])
@pytest.mark.parametrize("size", [1000, 9000])
def test_a_step_is_captured_as_a_graph(monkeypatch, size: int, alpha):
    hidden, weight = torch.randn(600, 16, device=GPU), torch.randn(size, 16, device=GPU)
    target = torch.randint(size, (600,), device=GPU)
    leaves = [hidden.requires_grad_(), weight.requires_grad_()]
    if alpha == "learnt":
        leaves.append(alpha := torch.tensor(1.4, device=GPU, requires_grad=True))

    def step() -> list[torch.Tensor]:
        loss = omegamax.linear_entmax_loss(hidden, weight, target, alpha, 256)
        return [loss, *torch.autograd.grad(loss, leaves)]

    with monkeypatch.context() as patch:  # compiles what is captured, where there are no lists
        patch.setattr(_support.SupportGradients, "takes", lambda *_: False)
        wanted = step()
    with torch.cuda.graph(graph := torch.cuda.CUDAGraph()):
        found = step()
    graph.replay()
    for ours, theirs in zip(found, wanted, strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("learnt", [False, True])
def test_it_compiles_into_one_graph(reduction: str, learnt: bool):
    hidden, weight, bias, target = parts(6)
    alpha = torch.tensor(1.4, dtype=F64, requires_grad=True) if learnt else 1.5

    def call(hidden, weight, bias):
        return omegamax.linear_entmax_loss(hidden, weight, target, alpha, 4, bias=bias, reduction=reduction)

    torch.compiler.reset()
    inputs = [hidden, weight, bias, *([alpha] if learnt else [])]
    found = torch.compile(call, fullgraph=True, backend="aot_eager")(hidden, weight, bias)
    wanted = call(hidden, weight, bias)
    torch.testing.assert_close(found, wanted)
    for ours, theirs in zip(grads(found, *inputs), grads(wanted, *inputs), strict=True):
        torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize("reduced", [False, True])
def test_operation_keeps_the_rules_of_torch(reduced: bool):
    hidden, weight = torch.randn(4, 3, requires_grad=True), torch.randn(6, 3, requires_grad=True)
    index, each = torch.tensor([0, 2, 5, 1]), torch.ones(4)
    scale = torch.tensor(0.25) if reduced else None
    arguments = (hidden, weight, None, None, index, each, scale, 1.5, 2, 0.0, [True, True, False, False])
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    torch.library.opcheck(torch.ops.omegamax.linear_entmax_loss.default, arguments, test_utils=tests)
