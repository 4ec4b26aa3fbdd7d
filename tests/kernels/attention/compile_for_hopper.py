"""Compile the kernels of attention for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

from unittest.mock import patch

import torch

from kernels.hopper import compile_kernel, compiled_launches
from omegamax.kernels.attention import call
from omegamax.kernels.attention.paged import PagedCall
from omegamax.kernels.attention.triton import decode, launcher
from omegamax.kernels.attention.triton.candidates import bound_thresholds_kernel, mark_candidates_kernel
from omegamax.kernels.attention.triton.dense import attention_dense_kernel
from omegamax.kernels.attention.triton.dense_backward import dense_keys_vjp_kernel, dense_queries_vjp_kernel
from omegamax.kernels.attention.triton.lists import attend_lists_kernel, lists_vjp_kernel
from omegamax.kernels.attention.triton.pages import bound_pages_kernel, read_pages_kernel
from omegamax.kernels.attention.triton.short import attention_short_kernel, short_vjp_kernel
from omegamax.kernels.attention.triton.survivors import (
    bound_edges_kernel,
    combine_splits_kernel,
    solve_survivors_kernel,
    weigh_survivors_kernel,
)
from omegamax.kernels.kinds import Kind

INTEGERS = {
    "heads",
    "tiles",
    "first_tile",
    "queries",
    "rows",
    "size",
    "pages",
    "chunks",
    "chunk_size",
    "share",
    "count",
    "length",
}
FULL = call.LOCAL | call.LEFT | call.ADD | call.ALIBI | call.DROPOUT  # every option of the scores but one


def types(dtype: str, options: bool) -> dict[str, object]:
    """Of all arguments: tensors with their strides, and the numbers of a call."""
    vectors = (f"*{dtype}", "i64", "i64", "i32")
    pointers = ("*fp32", "*fp32", "*i32") if options else ("constexpr",) * 3
    numbers = ("fp32", *pointers, *("i32",) * 7, "fp32")
    named: dict[str, object] = {"mask": (f"*{dtype}", *("i64",) * 4), "extra": numbers}
    named |= {name: vectors for name in ("q", "k", "v", "g")}
    named |= {name: f"*{dtype}" for name in ("out_ptr", "dq_ptr")}
    named |= {name: "*i8" for name in ("block_ptr", "dense_ptr")}
    named |= {name: "*i32" for name in ("bit_ptr", "count_ptr")} | {"list_ptr": "*i16", "wanted_ptr": "*i32"}
    # Of a cache in pages.
    named |= (
        {name: ("*fp32", "i64", "i32") for name in ("low", "high")}
        | {"codes": ("*u8", "i64", "i32")}
        | {"q_ptr": f"*{dtype}"}
    )
    named |= {name: "*i32" for name in ("limit_ptr", "first_ptr", "index_ptr")} | {"alpha": "fp32", "scale": "fp32"}
    named["found"] = ("*i32", "*fp32", "*fp32", "*i32")
    named["certificate"] = ("*i64", "*fp32", "*fp32")
    named["drop"] = ("fp32", "*i64" if options else "constexpr")
    return named | {name: "i32" for name in INTEGERS}


def compiled(kernel, dtype: str, options: bool, warps: int, **constants) -> None:
    known = types(dtype, options)
    if "mask" not in kernel.arg_names and "extra" not in kernel.arg_names:  # keys without an axis of heads
        known |= {name: (f"*{dtype}", "i64", "i32") for name in ("k", "v")} | {"list_ptr": "*i32"}
    if not options:
        constants |= {name: None for name in kernel.arg_names if name in ("dalpha_ptr", "alpha_ptr")}
    all_types = {name: known.get(name, "*fp32") for name in kernel.arg_names}
    compile_kernel(kernel, all_types, constants, num_warps=warps)


def compile_paged(dtype: str, options: bool, formula: dict[str, int]) -> None:
    """The kernels of a cache in pages: queries and keys of 40 features, pages of 100 keys in blocks of 64."""
    sizes = {"DEPTH": 40, "D": 64, "PAGE": 100, "BN": 64, "NP": 16}
    compiled(bound_pages_kernel, dtype, options, 4, **sizes)
    compiled(bound_edges_kernel, dtype, options, 8, **formula, C=4096)
    compiled(read_pages_kernel, dtype, options, 4, SPLITS=16, **sizes, BM=16)
    compiled(solve_survivors_kernel, dtype, options, 8, **formula, SPLITS=16, C=256)
    compiled(weigh_survivors_kernel, dtype, options, 4, **formula, SPLITS=16, C=32, WIDTH=40, W=64)
    compiled(combine_splits_kernel, dtype, options, 4, KIND=formula["KIND"], SPLITS=16, WIDTH=40, W=64)


def compile_launches(dtype: torch.dtype, keys: int, width: int, alpha: float) -> None:
    """What is launched on Hopper for so many keys, and queries and values of so many features."""
    q = torch.zeros(1, 2, keys, width, dtype=dtype)
    given = call.AttentionCall(q, q, q, alpha, None, None, None, None, 0, call.UNLIMITED, call.UNLIMITED, 1.0)
    with patch.object(call, "is_hopper", lambda device: True), compiled_launches():
        out, t, *state = launcher.forward(given)
        launcher.backward(given, out, t, *state)
        launcher.count_zeros(given, t)


def compile_launches_of_pages(dtype: torch.dtype, width: int, page: int) -> None:
    """The same for a cache of 64 pages, read for 64 queries at a time."""
    k = torch.zeros(2, 64 * page, width, dtype=dtype)
    extremes = torch.zeros(2, 64, width)
    codes = torch.zeros(2, 64, width, page, dtype=torch.uint8)
    limits = torch.zeros(2, 64, dtype=torch.int32)
    with compiled_launches():
        decode.decode(PagedCall(k[:, :64], k, k, extremes, extremes, codes, limits, 1.5, None, 1.0, page))


def main() -> None:
    calls = (("fp32", Kind.ENTMAX, 0, True), ("fp16", Kind.ENTMAX_POWER, 4, False))
    for dtype, kind, exponent, options in calls:
        marked = {"KIND": kind.value, "N": exponent, "FLAGS": FULL if options else call.RAW}
        marked |= {"DEPTH": 40, "D": 64, "BM": 64, "BN": 64}
        compiled(bound_thresholds_kernel, dtype, options, 4, **marked, MAX_SUPPORT=56)
        compiled(mark_candidates_kernel, dtype, options, 4, **marked)
        sizes = {**marked, "FLAGS": FULL if options else call.LOCAL, "WIDTH": 64, "W": 64}
        compiled(attend_lists_kernel, dtype, options, 1, **sizes, LENGTH=128, WORDS=256, C=8)
        blocks = {**sizes, "BN": 32, "PART": 2, "EXACT": dtype == "fp32"}
        compiled(attention_dense_kernel, dtype, options, 4, **blocks, WIDE=2)
        short = {name: blocks[name] for name in ("KIND", "N", "FLAGS", "EXACT", "DEPTH", "D", "WIDTH", "W", "BM")}
        short |= {"BM": 32, "BN": 32} if dtype == "fp32" else {"BN": 64}  # single precision is launched with neither
        compiled(attention_short_kernel, dtype, options, 4, **short)
        compiled(short_vjp_kernel, dtype, options, 4, **short)
        compiled(dense_queries_vjp_kernel, dtype, options, 4, **blocks)
        compiled(dense_keys_vjp_kernel, dtype, options, 4, **blocks)
        kept = {name: sizes[name] for name in ("KIND", "DEPTH", "D", "WIDTH", "W", "BM")}
        compiled(lists_vjp_kernel, dtype, options, 1, **kept, LENGTH=128, C=8)
        compile_paged(dtype, options, {"KIND": kind.value, "N": exponent})
    for width, alpha in ((64, 2.0), (256, 1.5)):
        compile_launches(torch.bfloat16, 4096, width, alpha)
    compile_launches(torch.bfloat16, 256, 64, 1.5)
    compile_launches(torch.float32, 4096, 256, 1.5)
    compile_launches_of_pages(torch.bfloat16, 256, 64)


if __name__ == "__main__":
    main()
