"""The stand-in for the adasplash package: its names and signatures, and what they compute."""

from __future__ import annotations

import importlib
import inspect
import math

import pytest
import torch

import omegamax
import omegamax.compat.adasplash as adasplash

ATTENTION = ("adasplash", "adasplash_v1", "adasplash_no_block_mask")
ROWS = ("triton_entmax", "triton_entmax_v1", "triton_entmax_v2")


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.parametrize("alpha", [1.333, 1.5, 2.0])
def test_rows(name, alpha):
    x = torch.randn(3, 4, 8, dtype=torch.float64)
    torch.testing.assert_close(getattr(adasplash, name)(x, alpha=alpha, n_iter=10), omegamax.entmax(x, alpha))


def test_named_rows():
    x = torch.randn(4, 16)
    torch.testing.assert_close(adasplash.triton_entmax15(x, n_iter=3), omegamax.entmax15(x))
    torch.testing.assert_close(adasplash.triton_sparsemax(x), omegamax.sparsemax(x))


def defined(q, k, v, alpha, causal, seen):
    z = q @ k.mT / math.sqrt(q.shape[-1])
    if seen is not None:
        z = z.masked_fill(~seen[:, None, None, :], -math.inf)
    if causal:
        z = z.masked_fill(torch.ones(z.shape[-2:], dtype=torch.bool).triu(1), -math.inf)
    out = omegamax.entmax(z, alpha) @ v
    return out if seen is None else out * seen[:, None, :, None]


@pytest.mark.parametrize("name", ATTENTION)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("lengths", [None, [5, 9]])
def test_attention(name, causal, lengths):
    q, k, v = torch.randn(3, 2, 3, 9, 4, dtype=torch.float64)
    seen = None if lengths is None else torch.arange(9) < torch.tensor(lengths)[:, None]
    varlen = None if lengths is None else torch.tensor(lengths)
    out = getattr(adasplash, name)(q, k, v, alpha=1.5, is_causal=causal, varlen=varlen)
    torch.testing.assert_close(out, defined(q, k, v, 1.5, causal, seen))


def test_second_version_is_causal():
    q, k, v = torch.randn(3, 2, 3, 9, 4, dtype=torch.float64)
    torch.testing.assert_close(adasplash.adasplash_v2(q, k, v), defined(q, k, v, 1.5, True, None))


def test_padding_on_the_left_and_slopes():
    q, k, v = torch.randn(3, 2, 3, 9, 4, dtype=torch.float64)
    slopes = torch.tensor([0.5, 0.25, 0.125], dtype=torch.float64)
    lengths = torch.tensor([5, 9])
    out = adasplash.entmax_attention(q, k, v, 1.5, lengths, padding="left", alibi_slopes=slopes)
    seen = torch.arange(9) >= 9 - lengths[:, None]
    z = q @ k.mT / 2 + slopes[:, None, None] * (torch.arange(9) - torch.arange(9)[:, None])
    z = z.masked_fill(~seen[:, None, None, :], -math.inf)
    torch.testing.assert_close(out, (omegamax.entmax15(z) @ v) * seen[:, None, :, None])


def test_one_query_after_its_keys_sees_all_of_them():
    q, k, v = torch.randn(1, 3, 1, 4), torch.randn(1, 3, 9, 4), torch.randn(1, 3, 9, 4)
    out = adasplash.entmax_attention(q, k, v, is_causal=True)
    torch.testing.assert_close(out, adasplash.entmax_attention(q, k, v))


@pytest.mark.parametrize("argument, value", [("padding", "middle"), ("varlen", torch.ones(3))])
def test_errors_name_the_argument(argument, value):
    q = torch.randn(2, 1, 4, 4)
    with pytest.raises(ValueError, match=f"entmax_attention: {argument}"):
        adasplash.entmax_attention(q, q, q, **{argument: value})


def test_names_and_signatures():
    for name in set(adasplash.__all__) - {"__version__"}:
        assert callable(getattr(adasplash, name))
    wanted = ["q", "k", "v", "alpha", "is_causal", "varlen", "niter"]
    assert all(list(inspect.signature(getattr(adasplash, name)).parameters) == wanted for name in ATTENTION)
    assert list(inspect.signature(adasplash.adasplash_v2).parameters) == ["q", "k", "v", "niter", "varlen"]
    wanted = ["x", "alpha", "n_iter", "use_histogram", "fast_math"]
    assert list(inspect.signature(adasplash.triton_entmax).parameters) == wanted


# Of each submodule, the functions that are called from outside, with their parameters; None: of the module itself.
SUBMODULES = {
    "triton_entmax": {
        "triton_entmax": ["x", "alpha", "n_iter", "fast_math"],
        None: ["x", "alpha", "n_iter", "use_histogram", "fast_math"],
    },
    "triton_entmax_v2": {
        "triton_entmax": ["x", "alpha", "n_iter", "use_histogram", "fast_math"],
        None: ["x", "alpha", "n_iter", "use_histogram", "fast_math"],
    },
    "adasplash_block_mask": {"sparse_attn": ["q", "k", "v", "alpha", "is_causal", "varlen", "niter"]},
    "adasplash_no_block_mask": {
        "sparse_attn": ["q", "k", "v", "alpha", "is_causal", "varlen", "niter"],
        None: ["q", "k", "v", "alpha", "is_causal", "varlen", "niter"],
    },
    "adasplash_v2": {
        "sparse_attn": ["q", "k", "v", "niter", "varlen"],
        None: ["q", "k", "v", "niter", "varlen"],
    },
    "attention": {
        "entmax_attention": ["q", "k", "v", "alpha", "varlen", "is_causal", "padding", "niter", "alibi_slopes"]
    },
}


@pytest.mark.parametrize("name", SUBMODULES)
def test_submodules_have_their_functions(name):
    module = importlib.import_module(f"omegamax.compat.adasplash.{name}")
    for function, parameters in SUBMODULES[name].items():
        called = module if function is None else getattr(module, function)
        assert list(inspect.signature(called).parameters) == parameters


@pytest.mark.parametrize("name", SUBMODULES)
def test_package_works_as_before_once_a_submodule_is_imported(name):
    importlib.import_module(f"omegamax.compat.adasplash.{name}")
    q, k, v = torch.randn(3, 1, 2, 7, 4, dtype=torch.float64)
    torch.testing.assert_close(adasplash.triton_entmax(q), omegamax.entmax15(q))
    torch.testing.assert_close(adasplash.triton_entmax_v2(q, 2.0), omegamax.sparsemax(q))
    torch.testing.assert_close(adasplash.adasplash_v2(q, k, v), defined(q, k, v, 1.5, True, None))
    torch.testing.assert_close(adasplash.adasplash_no_block_mask(q, k, v), defined(q, k, v, 1.5, False, None))


def test_functions_of_submodules_compute_what_they_say():
    from omegamax.compat.adasplash.adasplash_block_mask import sparse_attn
    from omegamax.compat.adasplash.adasplash_v2 import sparse_attn as causal
    from omegamax.compat.adasplash.triton_entmax import triton_entmax
    from omegamax.compat.adasplash.triton_entmax_v2 import triton_entmax15, triton_sparsemax

    q, k, v = torch.randn(3, 1, 2, 7, 4, dtype=torch.float64)
    torch.testing.assert_close(triton_entmax(q, 1.25), omegamax.entmax(q, 1.25))
    torch.testing.assert_close(triton_entmax15(q), omegamax.entmax15(q))
    torch.testing.assert_close(triton_sparsemax(q), omegamax.sparsemax(q))
    torch.testing.assert_close(sparse_attn(q, k, v, alpha=2.0), defined(q, k, v, 2.0, False, None))
    torch.testing.assert_close(causal(q, k, v), defined(q, k, v, 1.5, True, None))
