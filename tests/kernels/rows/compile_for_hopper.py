"""Compile the Triton kernels for a GPU that need not be there; run by triton/test_compiles.py, in its own process."""

from __future__ import annotations

import torch

from kernels.hopper import compile_kernel, compiled_launches
from omegamax.kernels.bounds.triton import launcher as bounds
from omegamax.kernels.bounds.triton.box import box_kernel, clip_vjp_kernel
from omegamax.kernels.bounds.triton.capped_softmax import capped_softmax_kernel, capped_softmax_vjp_kernel
from omegamax.kernels.bounds.triton.clip import clip_kernel
from omegamax.kernels.choice import CANDIDATE_ROW, POWER_ROW, REGISTER_ROW
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows.triton import launcher as rows
from omegamax.kernels.rows.triton.above_two import entmax_above_two_kernel
from omegamax.kernels.rows.triton.above_two_long import entmax_above_two_long_kernel
from omegamax.kernels.rows.triton.any_alpha import entmax_any_alpha_kernel, entmax_any_alpha_long_kernel
from omegamax.kernels.rows.triton.general import entmax_outside_kernel, general_kernel, general_long_kernel
from omegamax.kernels.rows.triton.normmax import normmax_power_kernel, normmax_vjp_kernel
from omegamax.kernels.rows.triton.power import entmax_power_kernel
from omegamax.kernels.rows.triton.power_long import entmax_power_long_kernel
from omegamax.kernels.rows.triton.vjp import alpha_vjp_kernel, entmax_vjp_kernel, entmax_vjp_long_kernel

FORWARD = ("z_ptr", "p_ptr")
BACKWARD = ("p_ptr", "g_ptr", "out_ptr")


def compiled(kernel, tensors: tuple[str, ...], dtype: str, warps: int = 4, **constants) -> None:
    types = {name: "*fp32" for name in ("alpha_ptr", "goal_ptr", "out_ptr", "lower_ptr", "upper_ptr", "total_ptr")}
    types |= {name: "fp32" for name in ("alpha", "fraction", "lower", "upper", "integer", "rest")}
    types |= {name: f"*{dtype}" for name in tensors} | {"list_ptr": "*i32"}
    compile_kernel(kernel, types, constants, num_warps=warps)


def of_kind(kind: Kind, per_row: bool) -> None:
    constants = {"KIND": kind.value, "PER_ROW": per_row, **({} if per_row else {"alpha_ptr": None})}
    if kind not in (Kind.SPARSEMAX, Kind.ENTMAX15, Kind.ENTMAX_ABOVE_2):
        compiled(general_kernel, FORWARD, "fp32", **constants, UNMASKED=True, R=2, BLOCK=256)
        compiled(general_long_kernel, FORWARD, "bf16", **constants, BLOCK=1024)
    compiled(entmax_vjp_kernel, BACKWARD, "bf16", **constants, UNMASKED=False, R=1, BLOCK=1024)
    if kind not in (Kind.ENTMAX_ABOVE_2, Kind.NORMMAX):
        compiled(entmax_vjp_long_kernel, BACKWARD, "fp32", **constants, BLOCK=1024)


def bounds_and_norms() -> None:
    sizes = {"UNMASKED": True, "R": 1, "C": 16, "L": 256}
    compiled(clip_kernel, FORWARD, "fp32", 2, goal_ptr=None, PER_ROW=False, FLOOR=False, **sizes)
    compiled(clip_kernel, FORWARD, "bf16", 2, PER_ROW=True, FLOOR=True, **sizes | {"UNMASKED": False})
    compiled(
        normmax_power_kernel,
        FORWARD,
        "fp32",
        2,
        **kind_of(Kind.ENTMAX15, 2),
        ABOVE_2=False,
        **sizes,
    )
    compiled(normmax_power_kernel, FORWARD, "bf16", 2, **kind_of(Kind.ENTMAX_POWER, 1, True), ABOVE_2=True, **sizes)
    compiled(box_kernel, FORWARD, "fp32", FLOORS=True, UNMASKED=False, R=1, C=4, L=256)
    for given in (False, True):
        none = {} if given else {"upper_ptr": None}
        neither = {} if given else {"lower_ptr": None, "upper_ptr": None}
        sizes = {"GIVEN": given, "UNMASKED": not given, "R": 1, "BLOCK": 1024}
        compiled(capped_softmax_kernel, FORWARD, "fp32", **none, **sizes)
        compiled(capped_softmax_vjp_kernel, BACKWARD, "bf16", **none, **sizes)
        compiled(clip_vjp_kernel, BACKWARD, "bf16", **neither, **sizes)
        compiled(normmax_vjp_kernel, BACKWARD, "bf16", SQUARE=given, UNMASKED=given, R=1, BLOCK=1024)


def kind_of(kind: Kind, integer: int, fractional: bool = False) -> dict[str, object]:
    return {"KIND": kind.value, "N": integer, "FRACTIONAL": fractional}


POWERS = (
    kind_of(Kind.SPARSEMAX, 1),
    kind_of(Kind.ENTMAX15, 2),
    kind_of(Kind.ENTMAX_POWER, 3, True),
    kind_of(Kind.ENTMAX_POWER, 4),
)


def longest_rows() -> None:
    """What is launched for the longest rows of each kernel."""
    with compiled_launches():
        rows.entmax(torch.zeros(2, CANDIDATE_ROW[4]), 1.5, 1)
        rows.entmax(torch.zeros(2, POWER_ROW), 1.3, 1)
        rows.entmax(torch.zeros(2, POWER_ROW), 3.0, 1)
        rows.entmax(torch.zeros(2, POWER_ROW + 1), 3.0, 1)
        z = torch.zeros(2, REGISTER_ROW)
        alpha, bound = torch.full((2, 1), 1.5), torch.full((2, 1), 0.5)
        rows.entmax(z, 1.0, 1)
        rows.entmax(z, alpha, 1)
        rows.entmax_vjp(z, z, alpha, 1)
        rows.normmax(z, 2.0, 1)
        bounds.k_subsets(z, 2.0, 1)
        bounds.k_subsets(z[:, : REGISTER_ROW // 4].contiguous(), 2.0, 1)  # with fewer registers than there are
        bounds.box_simplex(z, bound, 1.0, 1.0, 1)
        bounds.box_simplex(z[:, : REGISTER_ROW // 8].contiguous(), bound, 1.0, 1.0, 1)
        bounds.box_simplex_vjp(z, z, bound, 1.0, 1)
        bounds.capped_softmax(z, 0.5, 1)


def main() -> None:
    for kind in (*Kind,)[:6]:
        for per_row in (False, True) if kind in (Kind.NORMMAX, Kind.ENTMAX_ABOVE_2) else (False,):
            of_kind(kind, per_row)
    for constants in POWERS:
        for dtype in ("fp32", "bf16"):
            compiled(entmax_power_kernel, FORWARD, dtype, 1, **constants, UNMASKED=True, R=4, C=4, L=32)
            compiled(entmax_power_kernel, FORWARD, dtype, 2, **constants, UNMASKED=False, R=1, C=8, L=512)
            sizes = {"UNMASKED": dtype == "fp32", "DEPTH": 4, "BLOCK": 4096, "GROUP": 16, "LIST": 256, "ENTRIES": 2048}
            compiled(entmax_power_long_kernel, FORWARD, dtype, 8, **constants, **sizes)
    compiled(entmax_any_alpha_kernel, FORWARD, "fp32", PER_ROW=True, UNMASKED=True, R=1, C=8, L=512)
    compiled(entmax_any_alpha_kernel, FORWARD, "bf16", 1, PER_ROW=False, alpha_ptr=None, UNMASKED=False, R=4, C=4, L=32)
    compiled(entmax_outside_kernel, FORWARD, "fp32", 1, TILES=8, R=4, C=8, L=32)
    compiled(entmax_above_two_kernel, FORWARD, "fp32", 1, UNMASKED=True, R=8, C=4, L=16)
    compiled(entmax_above_two_kernel, FORWARD, "bf16", 1, UNMASKED=False, R=8, C=1, L=16)
    compiled(entmax_above_two_kernel, FORWARD, "fp32", 2, UNMASKED=True, R=1, C=16, L=256)
    compiled(entmax_any_alpha_long_kernel, FORWARD, "bf16", PER_ROW=True, UNMASKED=True, DEPTH=2, BLOCK=1024)
    for per_row in (False, True):
        sizes = {"UNMASKED": not per_row, "DEPTH": 4, "BLOCK": 4096, "GROUP": 16, "LIST": 256}
        alphas = {} if per_row else {"alpha_ptr": None}
        compiled(entmax_above_two_long_kernel, FORWARD, "fp32", 8, PER_ROW=per_row, **alphas, **sizes)
    compiled(general_long_kernel, FORWARD, "fp32", KIND=Kind.ENTMAX.value, PER_ROW=True, BLOCK=1024)
    bounds_and_norms()
    compiled(alpha_vjp_kernel, ("p_ptr", "g_ptr"), "bf16", R=4, BLOCK=128)
    longest_rows()


if __name__ == "__main__":
    main()
