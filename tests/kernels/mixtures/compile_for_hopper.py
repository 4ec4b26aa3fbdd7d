"""Compile the kernels of mixtures for a GPU that need not be there; run by triton/test_compiles.py."""

from __future__ import annotations

import re
from unittest.mock import patch

import torch
import triton
import triton.language as tl
from torch import Tensor

from kernels import hopper
from omegamax.kernels.mixtures.triton.launcher import choose_start, fit_mixtures, fit_mixtures_vjp
from omegamax.kernels.mixtures.triton.members import square_distance
from omegamax.kernels.mixtures.triton.points import load_points
from omegamax.mixtures import BIC, Linear
from omegamax.mixtures._criteria import find_penalty

F64 = torch.float64


def fit(
    n: int,
    components: int,
    length: int,
    dtype: torch.dtype = torch.float32,
    restarts: int = 1,
    growing: bool = False,
    init: str = "split",
    **given: Tensor,
) -> None:
    """Compile for one fit, or for a search among several starts, and for what comes after it."""
    x, weights = torch.rand(length, n, dtype=dtype), torch.rand(3, length, dtype=dtype)
    names = ("mask", "floor", "spread", "labels", "taken", "draws", "used")
    mask, *tensors = (given.get(name) for name in names)
    numbers = (components, restarts, growing, init, 5, 2.0**-40)
    results = fit_mixtures(x, weights, mask, *tensors, *numbers, restarts > 1)
    pi, mean, cov, values, labels, sums, *kept = results
    if restarts == 1:
        fit_mixtures_vjp(weights, mask, labels, *kept, pi, mean, cov)
    else:
        penalty = find_penalty(BIC() if growing else Linear(0.3), n)
        choose_start(values, None, sums, pi, mean, cov, components if growing else 1, restarts, penalty, growing)


def compile_all() -> None:
    draws = torch.rand(900, dtype=F64)
    fit(2, 2, 196, spread=torch.rand(2))
    fit(2, 4, 196, spread=torch.rand(2))
    fit(1, 1, 50, F64, floor=torch.rand(3, dtype=F64))
    fit(2, 4, 1, F64, restarts=3, growing=True, draws=draws)
    fit(2, 4, 1, F64, mask=torch.rand(3, 1) < 0.5)
    members = {"labels": torch.zeros(2, 3, 50, dtype=torch.int32), "taken": torch.zeros(3, dtype=torch.int32)}
    fit(2, 100, 50, torch.bfloat16, mask=torch.rand(50) < 0.5, **members)
    fit(2, 3, 196, F64, init="random", mask=torch.rand(3, 196) < 0.5, draws=draws, used=torch.tensor(2))
    fit(2, 4, 196, restarts=3, growing=True, spread=torch.rand(2), draws=draws)
    fit(2, 4, 196, F64, restarts=3, growing=True, init="kmeans++", draws=draws)
    fit(1, 5, 1000, restarts=3, draws=draws)


@triton.jit
def distance_kernel(x_ptr, p_ptr, out_ptr, L, BLOCK: tl.constexpr):
    place, there, p, x, y = load_points(x_ptr, p_ptr, 0, L, 2, BLOCK)
    tl.store(out_ptr + place, square_distance(x, y, there, p, 2), mask=there)


def check_distance() -> None:
    """Squares are not added while they are multiplied: ties are those of plain torch."""
    types = {name: "*fp64" for name in distance_kernel.arg_names if name.endswith("_ptr")}
    made = hopper.compile_kernel(distance_kernel, types, {"BLOCK": 128}, num_warps=4)
    assert "DADD" in hopper.disassemble(made.asm["cubin"]) and "DFMA" not in hopper.disassemble(made.asm["cubin"])


def main() -> None:
    check_distance()
    compile_one = hopper._compile

    def compile_exactly(kernel, signature, *rest):
        made = compile_one(kernel, signature, *rest)
        # Where all is in double precision no number is rounded on its way.
        if not {"*fp32", "*bf16"} & set(signature.values()):
            assert not re.search(r"cvt\S*\.f32\.f64|cvt\S*\.f64\.f32", made.asm["ptx"])
        return made

    with patch.object(hopper, "_compile", compile_exactly), hopper.compiled_launches():
        compile_all()


if __name__ == "__main__":
    main()
