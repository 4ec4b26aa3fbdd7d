"""Compile the Triton kernels for a GPU that need not be there; run by triton/test_compiles.py, in its own process."""

from __future__ import annotations

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from omegamax.kernels.bounds.triton import box, clip
from omegamax.kernels.bounds.triton import capped_softmax as capped_softmax_kernels
from omegamax.kernels.bounds.triton import vjp as vjp_kernels
from omegamax.kernels.rows.triton import (
    above_two_long,
    any_alpha,
    any_alpha_long,
    exponent,
    general,
    general_long,
    outside,
    power,
    power_long,
)
from omegamax.kernels.rows.triton import alpha_vjp as alpha_vjp_kernels
from omegamax.kernels.rows.triton import normmax as normmax_kernels

HOPPER = GPUTarget("cuda", 90, 32)
FORWARD = ("z_ptr", "p_ptr")
BACKWARD = ("p_ptr", "g_ptr", "out_ptr")


def compiled(kernel, tensors: tuple[str, ...], dtype: str, warps: int = 4, **constants) -> None:
    types = {name: "*fp32" for name in ("alpha_ptr", "goal_ptr", "out_ptr", "lower_ptr", "upper_ptr", "total_ptr")}
    types |= {name: "fp32" for name in ("alpha", "fraction", "lower", "upper", "whole", "rest")}
    types |= {name: f"*{dtype}" for name in tensors} | {"list_ptr": "*i32"}
    signature = {
        name: "constexpr" if name in constants else types.get(name, "i32")  # counts and strides
        for name in kernel.arg_names
    }
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    binary = triton.compile(ASTSource(kernel, signature, places), HOPPER, {"num_warps": warps}).asm["cubin"]
    print(kernel.__name__, dtype, constants, len(binary), flush=True)


def of_kind(name: str, kind: int, per_row: bool) -> None:
    constants = {"KIND": kind, "PER_ROW": per_row, **({} if per_row else {"alpha_ptr": None})}
    if name not in ("SPARSEMAX", "ENTMAX15"):
        compiled(general.forward, FORWARD, "fp32", **constants, EVEN=True, R=2, BLOCK=256)
        if name != "STEEP":
            compiled(general_long.forward, FORWARD, "bf16", **constants, BLOCK=1024)
    compiled(general.backward, BACKWARD, "bf16", **constants, EVEN=False, R=1, BLOCK=1024)
    if name not in ("STEEP", "NORMMAX"):
        compiled(general_long.backward, BACKWARD, "fp32", **constants, BLOCK=1024)


def bounds_and_norms() -> None:
    sizes = {"EVEN": True, "R": 1, "C": 16, "L": 256}
    compiled(clip.forward, FORWARD, "fp32", 2, goal_ptr=None, PER_ROW=False, FLOOR=False, **sizes)
    compiled(clip.forward, FORWARD, "bf16", 2, PER_ROW=True, FLOOR=True, **sizes | {"EVEN": False})
    compiled(normmax_kernels.forward, FORWARD, "fp32", 2, KIND=exponent.ENTMAX15.value, N=0, STEEP=False, **sizes)
    compiled(normmax_kernels.forward, FORWARD, "bf16", 2, KIND=exponent.POWER.value, N=1, STEEP=True, **sizes)
    compiled(box.bounded, FORWARD, "fp32", FLOORS=True, EVEN=False, R=1, C=4, L=256)
    for given in (False, True):
        none = {} if given else {"upper_ptr": None}
        neither = {} if given else {"lower_ptr": None, "upper_ptr": None}
        sizes = {"GIVEN": given, "EVEN": not given, "R": 1, "BLOCK": 1024}
        compiled(capped_softmax_kernels.capped_softmax, FORWARD, "fp32", **none, **sizes)
        compiled(vjp_kernels.capped, BACKWARD, "bf16", **none, **sizes)
        compiled(vjp_kernels.clipped, BACKWARD, "bf16", **neither, **sizes)
        compiled(normmax_kernels.backward, BACKWARD, "bf16", SQUARE=given, EVEN=given, R=1, BLOCK=1024)


def main() -> None:
    for name in general.KINDS:
        for per_row in (False, True) if name in ("NORMMAX", "STEEP") else (False,):
            of_kind(name, getattr(general, name).value, per_row)
    for name, whole in (("SPARSEMAX", 0), ("ENTMAX15", 0), ("POWER", 3), ("POWER", -4)):
        constants = {"KIND": getattr(exponent, name).value, "N": whole}
        for dtype in ("fp32", "bf16"):
            compiled(power.forward, FORWARD, dtype, 1, **constants, EVEN=True, R=4, C=4, L=32)
            compiled(power.forward, FORWARD, dtype, 2, **constants, EVEN=False, R=1, C=8, L=512)
            sizes = {"EVEN": dtype == "fp32", "DEPTH": 4, "BLOCK": 4096, "MEMBERS": 16, "LIST": 256}
            compiled(power_long.forward, FORWARD, dtype, 8, **constants, **sizes)
    compiled(any_alpha.forward, FORWARD, "fp32", PER_ROW=True, EVEN=True, R=1, C=8, L=512)
    compiled(any_alpha.forward, FORWARD, "bf16", 1, PER_ROW=False, alpha_ptr=None, EVEN=False, R=4, C=4, L=32)
    compiled(outside.forward, FORWARD, "fp32", TURNS=8, R=2, BLOCK=256)
    compiled(any_alpha_long.forward, FORWARD, "bf16", PER_ROW=True, EVEN=True, DEPTH=2, BLOCK=1024)
    compiled(above_two_long.forward, FORWARD, "fp32", PER_ROW=True, BLOCK=1024)
    compiled(general_long.forward, FORWARD, "fp32", KIND=general.ENTMAX.value, PER_ROW=True, BLOCK=1024)
    bounds_and_norms()
    compiled(alpha_vjp_kernels.backward, ("p_ptr", "g_ptr"), "bf16", R=4, BLOCK=128)


if __name__ == "__main__":
    main()
