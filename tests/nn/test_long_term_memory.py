"""The long-term memory against ridge regression and quadrature in numpy, finite differences, and examples alone."""

import io

import numpy as np
import pytest
import torch
from torch.autograd import gradcheck
from torch.utils.flop_counter import FlopCounterMode

from omegamax.basis import Fourier, GaussianRBF
from omegamax.densities import Gaussian
from omegamax.nn import LongTermMemory, MemoryState

F64 = torch.float64


def make(dim=4, functions=9, **settings):
    torch.manual_seed(0)
    return LongTermMemory(dim, functions, **settings).double()


def fill(memory, batch=3, sizes=(7, 5, 6)):
    segments = [torch.randn(batch, size, memory.dim, dtype=F64) for size in sizes]
    state = memory.initial_state(batch)
    for segment in segments:
        state = memory.update(state, segment)
    return state, segments


def bumps(t, count):
    return np.exp(-((np.asarray(t)[:, None] - np.linspace(0, 1, count)) ** 2) / 2 * (count - 1) ** 2)


def ridge(t, x, count, penalty):
    """Ridge regression as least squares with further rows: written down once more, by hand."""
    rows = np.concatenate([bumps(t, count), np.sqrt(penalty) * np.eye(count)])
    return np.linalg.lstsq(rows, np.concatenate([x, np.zeros((count, x.shape[1]))]), rcond=None)[0]


def cells(k):
    return (np.arange(k) + 0.5) / k


@pytest.mark.parametrize("factor, samples, penalty", [(0.75, 36, 0.01), (0.5, 20, 0.3)])
def test_updates_are_ridge_regression_of_the_past_and_the_new(factor, samples, penalty):
    memory = make(contraction=factor, samples=samples, penalty=penalty)
    state, segments = fill(memory)
    for i in range(3):
        b = ridge(cells(7), segments[0][i].numpy(), 9, penalty)
        for segment in segments[1:]:
            t = np.concatenate([factor * cells(samples), factor + (1 - factor) * cells(segment.shape[1])])
            b = ridge(t, np.concatenate([bumps(cells(samples), 9) @ b, segment[i].numpy()]), 9, penalty)
        np.testing.assert_allclose(state.coefficients[i].numpy(), b, rtol=0, atol=1e-9)
    assert state.length.tolist() == [18, 18, 18]


def by_quadrature(memory, state, query, alpha):
    """The context of one query, in numpy from end to end."""
    heads, d = memory.heads, memory.dim // memory.heads
    w = {name: getattr(memory, name).weight.detach().numpy() for name in ("query", "key", "value", "out")}
    b = state.coefficients[0].detach().numpy()
    count = len(b)
    signal = b if memory.moments == "predicted" else bumps(cells(count), count) @ b
    s, ws = np.polynomial.legendre.leggauss(400)
    found = []
    for h in range(heads):
        rows = slice(h * d, (h + 1) * d)
        scores = (signal @ w["key"][rows].T) @ (w["query"][rows] @ query) / np.sqrt(d)
        if memory.moments == "predicted":
            a = memory.head.weight.detach().numpy() @ scores + memory.head.bias.detach().numpy()
            mean, variance = 1 / (1 + np.exp(-a[0])), np.log1p(np.exp(a[1]))
        else:
            p = np.exp(scores) / np.exp(scores).sum()
            mean = p @ cells(count)
            variance = p @ (cells(count) - mean) ** 2 + 1 / (12 * count**2)
        if alpha == 1:
            u, density = 12 * s, np.exp(-((12 * s) ** 2) / 2) / np.sqrt(2 * np.pi) * 12
        else:  # on [-1, 1] a power of 1 - u^2, whose variance is 1 / (3 + 2 m)
            m = 1 / (alpha - 1)
            density = (1 - s**2) ** m
            density, u = density / (ws @ density), s * np.sqrt(3 + 2 * m)
        at = bumps(mean + np.sqrt(variance) * u, count) @ b @ w["value"][rows].T
        found.append((ws * density) @ at)
    return w["out"] @ np.concatenate(found)


@pytest.mark.parametrize("moments", ["predicted", "matched"])
@pytest.mark.parametrize("alpha", [1.0, 1.5, 2.0])
def test_context_is_the_mean_of_the_signal(alpha, moments):
    memory = make(heads=2, alpha=alpha, moments=moments)
    state, _ = fill(memory, batch=1)
    query = 3 * torch.randn(1, 5, 4, dtype=F64)
    context, density = memory(query, state)
    assert context.shape == (1, 5, 4) and density.batch_shape == (1, 2, 5)
    for i in range(5):
        wanted = by_quadrature(memory, state, query[0, i].numpy(), alpha)
        np.testing.assert_allclose(context[0, i].detach().numpy(), wanted, rtol=0, atol=1e-9)


def test_each_head_has_its_alpha():
    alphas = torch.tensor([1.0, 2.0], dtype=F64)
    memory, gauss, paraboloid = (make(heads=2, alpha=a) for a in (alphas, 1.0, 2.0))
    state, _ = fill(memory)
    with torch.no_grad():
        for m in (memory, gauss, paraboloid):
            m.out.weight.copy_(torch.eye(4))
        query = torch.randn(3, 5, 4, dtype=F64)
        both, first, second = (m(query, state)[0] for m in (memory, gauss, paraboloid))
    torch.testing.assert_close(both, torch.cat([first[..., :2], second[..., 2:]], -1), rtol=1e-10, atol=1e-10)
    learnt = make(heads=2, alpha=1.5, learnable=True)
    learnt(query, state)[0].sum().backward()
    assert learnt.alpha.raw.grad.shape == (2,) and (learnt.alpha.raw.grad != 0).all()


@pytest.mark.parametrize(
    "settings",
    [{}, {"alpha": 1.5, "moments": "matched", "heads": 2}, {"alpha": 2.0, "sticky": 0.8, "bins": 4}, {"gate": True}],
)
def test_gradients_through_updates(settings):
    memory = make(2, 5, samples=6, **settings)

    def run(first, second, third, query):
        state = memory.update(memory.initial_state(2), first)
        for segment in (second, third):
            if memory.sticky:
                state = memory.observe(state, memory(query, state)[1])
            state = memory.update(state, segment)
        return memory(query, state)[0]

    given = [torch.randn(2, size, 2, dtype=F64, requires_grad=True) for size in (3, 2, 4, 2)]
    assert gradcheck(run, given)
    oldest = torch.autograd.grad(run(*given).square().sum(), given[0])[0]
    assert (oldest != 0).all()


def test_state_saved_and_resumed_goes_on_alike():
    memory = make(sticky=1.0, alpha=2.0)
    state, _ = fill(memory)
    query, more = torch.randn(3, 2, 4, dtype=F64), torch.randn(3, 8, 4, dtype=F64)
    state = memory.observe(state, memory(query, state)[1])
    file = io.BytesIO()
    torch.save({"state": state._asdict(), "memory": memory.state_dict()}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    other = LongTermMemory(4, 9, sticky=1.0, alpha=2.0).double()
    other.load_state_dict(loaded["memory"])
    here = memory(query, memory.update(state, more))[0]
    there = other(query, other.update(MemoryState(**loaded["state"]), more))[0]
    assert torch.equal(here, there)
    assert not set(memory.state_dict()) - {name for name, _ in memory.named_parameters()}


def test_state_is_saved_as_it_is_and_a_plain_tuple_will_do():
    memory = make(sticky=1.0)
    state, _ = fill(memory)
    file = io.BytesIO()
    torch.save(state, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)
    assert isinstance(loaded, MemoryState)
    query, more = torch.randn(3, 2, 4, dtype=F64), torch.randn(3, 8, 4, dtype=F64)
    wanted, density = memory(query, state)
    for given in (loaded, tuple(state), list(state)):
        assert torch.equal(memory(query, given)[0], wanted)
        for other, own in zip(memory.update(given, more), memory.update(state, more), strict=True):
            assert torch.equal(other, own)
        assert torch.equal(memory.observe(given, density).histogram, memory.observe(state, density).histogram)


def test_cost_and_size_know_nothing_of_the_past():
    memory, costs, sizes = LongTermMemory(4, 8, sticky=0.5), set(), set()
    state = memory.update(memory.initial_state(1), torch.randn(1, 16, 4))
    for _ in range(50):
        with FlopCounterMode(display=False) as counter:
            state = memory.update(state, torch.randn(1, 16, 4))
            _, density = memory(torch.randn(1, 2, 4), state)
            state = memory.observe(state, density)
        costs.add(counter.get_total_flops())
        sizes.add(sum(tensor.numel() for tensor in state))
    assert len(costs) == len(sizes) == 1 and costs.pop() > 0
    assert state.length == 51 * 16 and state.coefficients.isfinite().all()


@pytest.mark.parametrize("batch", [0, 1])
def test_batches_of_none_and_of_one(batch):
    memory = make(sticky=0.5, heads=2)
    state = memory.update(memory.initial_state(batch), torch.randn(batch, 1, 4, dtype=F64))
    context, density = memory(torch.randn(batch, 3, 4, dtype=F64), state)
    assert context.shape == (batch, 3, 4) and density.batch_shape == (batch, 2, 3)
    state = memory.update(memory.observe(state, density), torch.randn(batch, 300, 4, dtype=F64))
    assert state.coefficients.shape == (batch, 9, 4) and state.coefficients.isfinite().all()


@pytest.mark.parametrize("sticky", [0.0, 0.7])
def test_lengths_are_each_example_alone(sticky):
    memory = make(sticky=sticky, gate=True)
    lengths = [[7, 0, 3, 7], [2, 5, 0, 5], [1, 0, 6, 6]]
    state = memory.initial_state(4)
    alone = [memory.initial_state(1) for _ in range(4)]
    query = torch.randn(4, 2, 4, dtype=F64)
    for row in lengths:
        hidden = torch.randn(4, 7, 4, dtype=F64)
        for i, n in enumerate(row):
            hidden[i, n:] = torch.nan
            before = alone[i]
            if sticky:
                before = memory.observe(before, memory(query[i : i + 1], before)[1])
            alone[i] = memory.update(before, hidden[i : i + 1, :n]) if n else before
        if sticky:
            state = memory.observe(state, memory(query, state)[1])
        state = memory.update(state, hidden, torch.tensor(row))
    for i in range(4):
        torch.testing.assert_close(state.select(i).coefficients, alone[i].coefficients, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(state.select(i).histogram, alone[i].histogram, rtol=1e-9, atol=1e-9)
    assert state.length.tolist() == [sum(column) for column in zip(*lengths, strict=True)]


def test_nothing_comes_of_nothing():
    memory = make()
    empty = memory.initial_state(2)
    context, _ = memory(torch.randn(2, 3, 4, dtype=F64), empty)
    assert (context == 0).all()
    assert memory.update(empty, torch.zeros(2, 0, 4, dtype=F64)) is empty
    assert memory(torch.randn(2, 0, 4, dtype=F64), empty)[0].shape == (2, 0, 4)
    once = memory.update(empty, torch.randn(2, 1, 4, dtype=F64))
    np.testing.assert_allclose(once.coefficients.isfinite().all(), True)
    same = memory.update(once, torch.full((2, 3, 4), torch.nan, dtype=F64), torch.tensor([0, 0]))
    assert all(torch.equal(a, b) for a, b in zip(once, same, strict=True))
    nobody = memory.update(memory.initial_state(0), torch.zeros(0, 3, 4, dtype=F64))
    assert memory(torch.zeros(0, 2, 4, dtype=F64), nobody)[0].shape == (0, 2, 4)


def test_nan_stays_in_its_example():
    memory = make(sticky=1.0)
    state, _ = fill(memory)
    bad = torch.randn(3, 4, 4, dtype=F64)
    bad[1, 2, 0] = torch.nan
    query = torch.randn(3, 2, 4, dtype=F64)
    for hidden in (bad, bad[:, :1]):  # the second one is clean, and comes after
        state = memory.observe(memory.update(state, hidden), memory(query, state)[1])
    context, _ = memory(query, memory.update(state, bad[:, :1]))
    assert context[1].isnan().any() and context[[0, 2]].isfinite().all()


def test_attention_outside_the_unit_interval_does_not_count():
    memory = make(sticky=1.0, bins=4)
    density = Gaussian(torch.tensor([[[[0.0], [0.5]]]], dtype=F64), 1e-4)  # half of the first lies below 0
    state = memory.observe(memory.initial_state(1), density)
    torch.testing.assert_close(state.histogram, torch.tensor([[0.5, 0.5, 0.5, 0.0]], dtype=F64))
    state = memory.observe(state, density, mask=torch.tensor([[False, True]]))
    torch.testing.assert_close(state.histogram, torch.tensor([[0.5, 1.0, 1.0, 0.0]], dtype=F64))


def test_even_attention_is_no_attention():
    sticky, plain = make(sticky=1.0, bins=8), make()
    state, _ = fill(plain)
    even = MemoryState(state.coefficients, state.length, torch.full((3, 8), 0.3, dtype=F64))
    more = torch.randn(3, 5, 4, dtype=F64)
    wanted = plain.update(state, more).coefficients
    torch.testing.assert_close(sticky.update(even, more).coefficients, wanted, rtol=1e-10, atol=1e-10)
    without = even._replace(histogram=torch.zeros(3, 8, dtype=F64))
    torch.testing.assert_close(sticky.update(without, more).coefficients, wanted, rtol=1e-10, atol=1e-10)


def test_points_are_quantiles_of_the_histogram():
    memory = make(sticky=1.0, bins=4, samples=8, contraction=0.5, functions=33, penalty=1e-6)
    ramp = torch.linspace(0, 1, 200, dtype=F64)[None, :, None].expand(1, 200, 4)
    state = memory.update(memory.initial_state(1), ramp)
    state = state._replace(histogram=torch.tensor([[0.0, 3.0, 0.0, 1.0]], dtype=F64))
    after = memory.update(state, torch.zeros(1, 3, 4, dtype=F64))
    # Six of eight points in the second quarter, two in the last: the ramp tells where they were.
    wanted = [0.25 + (i + 0.5) / 24 for i in range(6)] + [0.75 + (i + 0.5) / 8 for i in range(2)]
    found = memory.recall(after, torch.tensor(cells(8)) / 2)[0, :, 0]
    np.testing.assert_allclose(found, wanted, atol=6e-3)


def test_what_was_attended_to_is_remembered_longer():
    torch.manual_seed(0)
    memory = LongTermMemory(2, 32, sticky=0.9, contraction=0.6).double()
    first = torch.randn(1, 8, 2, dtype=F64).repeat_interleave(8, 1)
    state = {share: memory.update(memory.initial_state(1), first) for share in (False, True)}
    errors = {}
    look = Gaussian(torch.full((1, 1, 1, 1), 0.3, dtype=F64), 0.15**2)
    for _ in range(4):
        more = torch.randn(1, 64, 2, dtype=F64)
        state = {stick: memory.update(memory.observe(s, look) if stick else s, more) for stick, s in state.items()}
    # The best match of the first segment's middle anywhere in what is left.
    grid = torch.linspace(0, 1, 2000, dtype=F64)
    for stick, s in state.items():
        errors[stick] = (memory.recall(s, grid)[0] - first[0, 28]).norm(dim=-1).min().item()
    assert state[True].length.item() == 320
    assert errors[True] < errors[False]


def test_old_vectors_keep_their_outline_and_lose_their_detail():
    memory = LongTermMemory(2, 64).double()
    t = torch.arange(8 * 64, dtype=F64)
    slow_and_fast = torch.stack([(2 * torch.pi * t / 256).sin(), (2 * torch.pi * t / 24).sin()], -1)[None]
    state = memory.initial_state(1)
    for segment in slow_and_fast.split(64, 1):
        state = memory.update(state, segment)
    errors = []
    for age in range(8):
        low, high = 0.75 ** (age + 1) if age < 7 else 0.0, 0.75**age
        found = memory.recall(state, low + (high - low) * torch.tensor(cells(64)))
        wanted = slow_and_fast[:, (7 - age) * 64 : (8 - age) * 64]
        errors.append((found - wanted).square().mean((0, 1)).sqrt())
    slow, fast = torch.stack(errors).T
    assert slow.max() < 0.05
    assert fast[:3].max() < 0.05
    assert fast[4:7].min() > 0.5  # a sine that is gone leaves 0.71; the first segment once filled all of [0, 1]


@pytest.mark.slow
@pytest.mark.parametrize("settings", [{}, {"sticky": 1.0, "alpha": 1.5, "moments": "matched", "heads": 2}])
def test_compiles_without_a_break(settings):
    memory = make(**settings)
    state, _ = fill(memory)

    def step(state, hidden, query):
        state = memory.update(state, hidden)
        context, density = memory(query, state)
        return context, memory.observe(state, density) if memory.sticky else state

    given = state, torch.randn(3, 6, 4, dtype=F64), torch.randn(3, 2, 4, dtype=F64)
    wanted, after = step(*given)
    context, compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(*given)
    torch.testing.assert_close(context, wanted, rtol=1e-10, atol=1e-10)
    for a, b in zip(compiled, after, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_vmap_over_memories():
    memory = make(sticky=0.5)
    hidden, query = torch.randn(5, 2, 6, 4, dtype=F64), torch.randn(5, 2, 3, 4, dtype=F64)

    def run(hidden, query):
        state = memory.update(memory.initial_state(2), hidden)
        state = memory.observe(state, memory(query, state)[1])
        return memory(query, memory.update(state, hidden))[0]

    together = torch.func.vmap(run)(hidden, query)
    for i in range(5):
        torch.testing.assert_close(together[i], run(hidden[i], query[i]), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_state_in_half_precision_goes_on_in_single(dtype):
    memory = make(sticky=0.5, bins=8)
    state = MemoryState(*(t.float() if t.is_floating_point() else t for t in fill(memory)[0]))
    memory = memory.float()
    hidden, query = torch.randn(3, 5, 4), torch.randn(3, 2, 4)
    state = memory.observe(state, memory(query, state)[1])
    half = MemoryState(*(t.to(dtype) if t.is_floating_point() else t for t in state))
    rounded = MemoryState(*(t.float() if t.is_floating_point() else t for t in half))
    assert torch.equal(memory(query, half)[0], memory(query, rounded)[0])
    for found, wanted in zip(memory.update(half, hidden), memory.update(rounded, hidden), strict=True):
        assert found.dtype == wanted.dtype and torch.equal(found, wanted)


def test_an_example_that_is_not_there_is_not_selected():
    state = make().initial_state(3)
    assert state.select(-1).length.shape == state.select(2).length.shape == (1,)
    for index in (3, -4):
        with pytest.raises(IndexError):
            state.select(index)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_keeps_its_state_in_single(dtype):
    torch.manual_seed(0)
    memory = LongTermMemory(8, 16, heads=2)
    half = LongTermMemory(8, 16, heads=2, dtype=dtype)
    half.load_state_dict(memory.state_dict())
    memory.load_state_dict(half.state_dict())  # the same numbers
    hidden, query = torch.randn(2, 12, 8, dtype=dtype), torch.randn(2, 3, 8, dtype=dtype)
    state = half.update(half.update(half.initial_state(2), hidden), hidden)
    wide = memory.update(memory.update(memory.initial_state(2), hidden.float()), hidden.float())
    assert state.coefficients.dtype == torch.float32 and torch.equal(state.coefficients, wide.coefficients)
    context, density = half(query, state)
    wanted, _ = memory(query.float(), wide)
    assert context.dtype == dtype and density.loc.dtype == torch.float32
    torch.testing.assert_close(context.float(), wanted, rtol=0, atol=8 * torch.finfo(dtype).eps)


@pytest.mark.parametrize("basis", [GaussianRBF.grid(6, 1, [0.01, 0.04]), Fourier(torch.arange(4.0)[:, None])])
def test_any_basis_of_one_dimension(basis):
    memory = LongTermMemory(4, basis)
    state = memory.update(memory.initial_state(2), torch.randn(2, 30, 4))
    assert state.coefficients.shape == (2, len(basis), 4)
    assert memory(torch.randn(2, 3, 4), memory.update(state, torch.randn(2, 30, 4)))[0].isfinite().all()


def test_wrong_arguments_are_named():
    with pytest.raises(ValueError, match="dim must be a multiple of heads, got 5 and 2"):
        LongTermMemory(5, heads=2)
    with pytest.raises(ValueError, match="over one dimension, got 2"):
        LongTermMemory(4, GaussianRBF.grid(3, 2, 0.1))
    with pytest.raises(TypeError, match="functions must be an int or a basis, got str"):
        LongTermMemory(4, "many")
    for name, value in (("contraction", 1.0), ("sticky", 1.5), ("penalty", 0.0), ("moments", "other"), ("alpha", 0.2)):
        with pytest.raises(ValueError, match=f"LongTermMemory: {name} must"):
            LongTermMemory(4, **{name: value})
    memory = LongTermMemory(4)
    state = memory.initial_state(2)
    with pytest.raises(ValueError, match=r"hidden must be \[2, \*, 4\] for this state, got shape \(3, 5, 4\)"):
        memory.update(state, torch.zeros(3, 5, 4))
    with pytest.raises(ValueError, match=r"lengths must lie in \[0, 5\], got \[6, 0\]"):
        memory.update(state, torch.zeros(2, 5, 4), torch.tensor([6, 0]))
    with pytest.raises(TypeError, match="state must be a MemoryState, got Tensor"):
        memory(torch.zeros(2, 1, 4), torch.zeros(2))
    density = memory(torch.zeros(2, 1, 4), state)[1]
    with pytest.raises(ValueError, match="observe needs sticky > 0"):
        memory.observe(state, density)
    sticky = LongTermMemory(4, sticky=1.0)
    with pytest.raises(TypeError, match="density must be a BetaGaussian, got NoneType"):
        sticky.observe(sticky.initial_state(2), None)
    with pytest.raises(ValueError, match=r"density must have batch \[3, 1, Q\] for this state, got \(2, 1, 1\)"):
        sticky.observe(sticky.initial_state(3), density)
    with pytest.raises(ValueError, match=r"mask must be \[2, 1\], got shape \(2,\)"):
        sticky.observe(sticky.initial_state(2), density, torch.ones(2, dtype=torch.bool))


@pytest.mark.slow
def test_memories_of_several_alphas_compile_in_one_process():
    torch.manual_seed(0)
    query, hidden = torch.randn(2, 3, 8), torch.randn(2, 6, 8)
    for alpha in (1.0, 2.0, 1.5, 1.25):
        memory = LongTermMemory(8, functions=8, alpha=alpha)
        state = memory.update(memory.initial_state(2), hidden)
        compiled = torch.compile(lambda q, s, memory=memory: memory(q, s)[0], fullgraph=True, backend="eager")
        torch.testing.assert_close(compiled(query, state), memory(query, state)[0], atol=1e-6, rtol=0)
