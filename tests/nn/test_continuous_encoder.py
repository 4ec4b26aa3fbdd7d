"""The continuous encoder layer against torch's, the formula by hand, other resolutions, and examples alone."""

import itertools
import math

import pytest
import torch
from torch.autograd import gradcheck

from omegamax.basis import GaussianRBF, Rectangles, RidgeFit, grid_positions
from omegamax.nn import ContinuousEncoderLayer

F64 = torch.float64


def make(d_model=8, functions=10, **settings):
    torch.manual_seed(0)
    settings = {"dim_feedforward": 16, "dropout": 0.0, "batch_first": True, **settings}
    return ContinuousEncoderLayer(d_model, 2, functions=functions, **settings).double().eval()


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("batch_first", [False, True])
def test_with_a_function_for_each_position_it_is_the_layer_of_torch(batch_first, norm_first):
    cells = Rectangles.grid(12, 1)
    settings = {"batch_first": batch_first, "norm_first": norm_first}
    layer = make(functions=cells, penalty=1e-14, transform="softmax", **settings)
    other = torch.nn.TransformerEncoderLayer(8, 2, 16, 0.0, **settings).double().eval()
    other.load_state_dict(layer.state_dict())
    for shape in ((3, 12, 8) if batch_first else (12, 3, 8), (12, 8)):
        src = torch.randn(*shape, dtype=F64)
        torch.testing.assert_close(layer(src), other(src), rtol=1e-9, atol=1e-9)


def test_layer_is_fit_attention_and_evaluation():
    bumps = GaussianRBF(torch.linspace(0, 1, 6, dtype=F64)[:, None], 0.14**2, normalised=False)
    layer = make(functions=bumps, penalty=0.01)
    src = torch.randn(2, 15, 8, dtype=F64)
    t = grid_positions(15, dtype=F64)
    rows = (-((t - torch.linspace(0, 1, 6, dtype=F64)) ** 2) / (2 * 0.14**2)).exp()
    b = torch.linalg.solve(rows.mT @ rows / 15 + 0.01 * torch.eye(6, dtype=F64), rows.mT @ src / 15)
    x = layer.norm1(src + rows @ layer.self_attn(b, b, b)[0])
    wanted = layer.norm2(x + layer.linear2(layer.linear1(x).relu()))
    torch.testing.assert_close(layer(src), wanted, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(make(functions=6).basis(t), rows, rtol=1e-5, atol=1e-6)  # made in single precision
    assert {k: v.shape for k, v in layer.state_dict().items()} == {
        k: v.shape for k, v in torch.nn.TransformerEncoderLayer(8, 2, 16).state_dict().items()
    }


def test_same_signal_at_other_resolutions():
    torch.manual_seed(0)
    layer, w = make(functions=12), torch.randn(8, 4, dtype=F64)

    def sample(length):
        t = grid_positions(length, dtype=F64)
        return sum(w[:, k] * ((k + 1) * math.pi * t + k).sin() for k in range(4))[None]

    # The positions of L are among those of 3 L.
    finest = layer(sample(3**6))
    errors = [
        (layer(sample(3**k)) - finest[:, 3 ** (6 - k) // 2 :: 3 ** (6 - k)]).abs().max().item() for k in (3, 4, 5)
    ]
    assert errors[2] < 1e-3
    assert all(coarse > 6 * fine for coarse, fine in itertools.pairwise(errors))  # second order: 9 times


def test_same_image_at_other_resolutions():
    torch.manual_seed(0)
    layer, w = make(functions=(6, 5)), torch.randn(8, 3, dtype=F64)

    def sample(side):
        x, y = grid_positions((side, side), dtype=F64).unbind(-1)
        values = sum(w[:, k] * ((k + 1) * 2 * x + k).sin()[:, None] * (2 * k * y).cos()[:, None] for k in range(3))
        return values.reshape(1, side, side, 8)

    coarse, fine = layer(sample(28)), layer(sample(84))
    assert (coarse - fine[:, 1::3, 1::3]).abs().max() < 5e-3
    # What a classifier sees of it.
    pooled = [layer(sample(side)).mean((1, 2)) for side in (28, 56, 112)]
    near, far = ((p - pooled[2]).abs().max().item() for p in (pooled[1], pooled[0]))
    assert far < 5e-3 and far > 3 * near


def test_image_in_any_form_is_the_same():
    layer = make(functions=(3, 4))
    image = torch.randn(2, 5, 7, 8, dtype=F64)
    flat = layer(image.flatten(1, 2), size=(5, 7))
    torch.testing.assert_close(layer(image).flatten(1, 2), flat, rtol=1e-12, atol=1e-12)
    other = make(functions=(3, 4), batch_first=False)
    by_length = other(image.flatten(1, 2).transpose(0, 1), size=(5, 7))
    torch.testing.assert_close(by_length.transpose(0, 1), flat, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(layer(image[:, :, :5].flatten(1, 2)), layer(image[:, :, :5]).flatten(1, 2))


def test_padding_is_each_example_alone():
    layer = make()
    src = torch.randn(3, 9, 8, dtype=F64)
    padding = torch.zeros(3, 9, dtype=torch.bool)
    padding[1, 6:] = True
    padding[2, ::2] = True  # gaps do not matter
    src[padding] = torch.nan
    for mask in (padding, torch.zeros(3, 9, dtype=F64).masked_fill(padding, -math.inf)):
        out = layer(src, src_key_padding_mask=mask)
        for i in range(3):
            alone = layer(src[i : i + 1, ~padding[i]])
            torch.testing.assert_close(out[i, ~padding[i]], alone[0], rtol=1e-9, atol=1e-9)
    none_left = layer(torch.zeros(1, 4, 8, dtype=F64), src_key_padding_mask=torch.ones(1, 4, dtype=torch.bool))
    assert none_left.isfinite().all()


def test_masked_cells_of_an_image_are_left_out():
    layer = make(functions=(3, 3))
    src = torch.randn(1, 4, 4, 8, dtype=F64)
    hole = torch.zeros(1, 16, dtype=torch.bool)
    hole[0, 5] = True
    filled = src.clone()
    filled[0, 1, 1] = torch.nan
    first, second = (layer(x, src_key_padding_mask=hole).flatten(1, 2)[~hole] for x in (src, filled))
    assert torch.equal(first, second) and first.isfinite().all()


def test_nan_stays_in_its_example():
    src = torch.randn(2, 9, 8, dtype=F64)
    src[0, 3] = torch.nan
    out = make()(src)
    assert out[0].isnan().any() and out[1].isfinite().all()


def test_stacks_in_an_encoder_of_torch():
    layer = make()
    encoder = torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()
    src = torch.randn(2, 9, 8, dtype=F64)
    padding = torch.arange(9) >= torch.tensor([[9], [5]])
    out = encoder(src, src_key_padding_mask=padding)
    torch.testing.assert_close(out[1, :5], encoder(src[1:, :5])[0], rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(encoder(src), layer(layer(src)))


def test_gradients():
    layer = make(4, 5, dim_feedforward=4)
    src = torch.randn(2, 6, 4, dtype=F64, requires_grad=True)
    assert gradcheck(layer, (src,))
    layer(src).square().sum().backward()
    assert all(p.grad is not None and p.grad.isfinite().all() for p in layer.parameters())


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    layer = make().to(dtype)
    src = torch.randn(2, 20, 8).to(dtype)
    out = layer(src)
    assert out.dtype == dtype
    assert (out.double() - layer.double()(src.double())).abs().max() < 40 * torch.finfo(dtype).eps


@pytest.mark.slow
def test_compiles_without_a_break():
    torch._dynamo.reset()
    layer, src = make(), torch.randn(2, 9, 8, dtype=F64)
    wanted = layer(src)
    compiled = torch.compile(layer, fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(src), wanted, rtol=1e-10, atol=1e-10)


def test_batch_of_none_as_in_torch():
    for functions, shape in ((4, (0, 5, 8)), ((2, 2), (0, 9, 8)), ((2, 2), (0, 3, 3, 8))):
        assert make(functions=functions)(torch.zeros(shape, dtype=F64)).shape == shape


def test_wrong_arguments_are_named():
    layer = make()
    for mask in ({"src_mask": torch.zeros(5, 5)}, {"is_causal": True}):
        with pytest.raises(ValueError, match="attention is between functions"):
            layer(torch.zeros(1, 5, 8, dtype=F64), **mask)
    with pytest.raises(ValueError, match=r"src must be \[B, L, 8\] or \[L, 8\] with L >= 1, got shape \(1, 0, 8\)"):
        layer(torch.zeros(1, 0, 8, dtype=F64))
    with pytest.raises(ValueError, match=r"src_key_padding_mask must have shape \(1, 5\), got \(5, 1\)"):
        layer(torch.zeros(1, 5, 8, dtype=F64), src_key_padding_mask=torch.zeros(5, 1, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"size must give 12 cells, got \(3, 3\)"):
        make(functions=(2, 2))(torch.zeros(1, 12, 8, dtype=F64))
    with pytest.raises(ValueError, match="penalty must be a finite number > 0"):
        make(penalty=0.0)


@pytest.mark.parametrize("penalty", [0.3, 1e-9])
@pytest.mark.parametrize("padding", [False, True])
def test_fit_by_mean_squares_is_a_fit_with_more_penalty(penalty, padding):
    basis = GaussianRBF.grid(5, 1, 0.02, dtype=F64)
    values = torch.randn(3, 12, 2, dtype=F64)
    by_mean = RidgeFit(basis, 12, penalty, padding, mean=True)
    by_sum = RidgeFit(basis, 12, 12 * penalty, padding)
    torch.testing.assert_close(by_mean(values), by_sum(values), rtol=1e-7, atol=1e-9)
    assert by_mean.report(values).degrees_of_freedom == pytest.approx(by_sum.report(values).degrees_of_freedom)
    if not padding:
        lengths = torch.tensor([12, 7, 3])
        found = RidgeFit(basis, None, penalty, mean=True)(values, lengths)
        mask = torch.arange(12) < lengths[:, None]
        places = (torch.arange(12, dtype=F64) + 0.5) / lengths[:, None]
        masked = RidgeFit(basis, None, penalty, mean=True)(values, positions=places[..., None], mask=mask)
        for i, n in enumerate(lengths.tolist()):
            wanted = RidgeFit(basis, n, n * penalty)(values[i, :n])
            torch.testing.assert_close(found[i], wanted, rtol=1e-6, atol=1e-8)
            torch.testing.assert_close(masked[i], wanted, rtol=1e-6, atol=1e-8)
