"""Compile the kernels of attention for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.attention import call
from omegamax.kernels.attention.triton import candidates, dense, dense_backward, lists, lists_backward

HOPPER = GPUTarget("cuda", 90, 32)
INTEGERS = {"heads", "tiles", "first_tile", "queries"}
FULL = call.LOCAL | call.LEFT | call.ADD | call.ALIBI  # every option of the scores but one


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
    return named | {name: "i32" for name in INTEGERS}


def compiled(kernel, dtype: str, options: bool, warps: int, **constants) -> None:
    known = types(dtype, options)
    if not options:
        constants |= {name: None for name in kernel.arg_names if name == "dalpha_ptr"}
    signature = {name: "constexpr" if name in constants else known.get(name, "*fp32") for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    for i, kinds in enumerate(signature.values()):
        if isinstance(kinds, tuple):
            places |= {(i, j): None for j, kind in enumerate(kinds) if kind == "constexpr"}
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": warps}).asm["cubin"]
    print(kernel.__name__, dtype, constants, len(binary), flush=True)


def main() -> None:
    for dtype, kind, options in (("bf16", call.ENTMAX15, False), ("fp32", call.ENTMAX, True), ("fp16", 4, False)):
        marked = {"KIND": kind, "FLAGS": FULL if options else call.RAW, "DEPTH": 40, "D": 64, "BM": 64, "BN": 64}
        compiled(candidates.bound, dtype, options, 4, **marked, MOST=56)
        compiled(candidates.mark, dtype, options, 4, **marked)
        sizes = {**marked, "FLAGS": FULL if options else call.LOCAL, "WIDTH": 64, "W": 64}
        compiled(lists.gather, dtype, options, 1, **sizes, LENGTH=128, WORDS=256, C=8)
        blocks = {**sizes, "BN": 32, "PART": 2, "EXACT": dtype == "fp32"}
        compiled(dense.forward, dtype, options, 4, **blocks, WIDE=2)
        compiled(dense_backward.queries_backward, dtype, options, 4, **blocks)
        compiled(dense_backward.keys_backward, dtype, options, 4, **blocks)
        kept = {name: sizes[name] for name in ("KIND", "DEPTH", "D", "WIDTH", "W", "BM")}
        compiled(lists_backward.scatter, dtype, options, 1, **kept, LENGTH=128, C=8)


if __name__ == "__main__":
    main()
