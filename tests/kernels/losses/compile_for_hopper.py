"""Compile the loss kernels for a GPU that need not be there; run by triton/test_compiles.py, in its own process."""

from __future__ import annotations

import torch

from kernels.hopper import compile_kernel, compiled_launches
from omegamax.kernels.choice import LOSS_ROW
from omegamax.kernels.kinds import Kind
from omegamax.kernels.losses.triton import launcher
from omegamax.kernels.losses.triton.long import entmax_loss_long_kernel
from omegamax.kernels.losses.triton.projection import gather_rows_kernel, list_support_kernel, scatter_rows_kernel
from omegamax.kernels.losses.triton.soft_targets import entmax_loss_soft_kernel, entmax_loss_soft_vjp_kernel
from omegamax.kernels.losses.triton.tile import entmax_loss_kernel, entmax_loss_vjp_kernel

SCORES = ("z_ptr", "y_ptr", "out_ptr", "weight_ptr", "hidden_ptr")
NUMBERS = ("value_ptr", "state_ptr", "slope_ptr", "alpha_ptr", "g_ptr")
TYPES = {name: "*fp32" for name in NUMBERS} | {name: "fp32" for name in ("alpha", "smoothing", "share", "slack")}
TYPES |= {"index_ptr": "*i64", "token_ptr": "*i64", "first_ptr": "*i64", "count_ptr": "*i32", "column_ptr": "*i32"}


def compiled(kernel, dtype: str, **constants) -> None:
    if constants.get("PER_ROW") is False:
        constants["alpha_ptr"] = None
    types = TYPES | {name: f"*{dtype}" for name in SCORES}
    compile_kernel(kernel, types, constants, num_warps=4)


def main() -> None:
    for kind in (Kind.SPARSEMAX, Kind.ENTMAX15, Kind.ENTMAX, Kind.SOFTMAX, Kind.ENTMAX_ABOVE_2):
        tensor = kind is Kind.ENTMAX_ABOVE_2
        which = {"KIND": kind.value, "PER_ROW": tensor}
        compiled(entmax_loss_kernel, "fp32", **which, SMOOTH=tensor, SLOPE=tensor, R=2, BLOCK=256)
        compiled(entmax_loss_vjp_kernel, "bf16", **which, R=1, BLOCK=1024)
        compiled(entmax_loss_soft_kernel, "bf16", **which, SLOPE=tensor, BLOCK=256)
        compiled(entmax_loss_soft_vjp_kernel, "fp32", **which, R=2, BLOCK=256)
        compiled(list_support_kernel, "bf16", **which, K=50000, BLOCK=256)
        compiled(entmax_loss_long_kernel, "bf16", **which, SMOOTH=tensor, SLOPE=tensor, K=50000, BLOCK=256)
    for kernel in (gather_rows_kernel, scatter_rows_kernel):
        compiled(kernel, "bf16", EACH=4, BLOCK=256)
    with compiled_launches():
        for alpha in (1.5, 1.3):
            z, classes = torch.zeros(2, LOSS_ROW), torch.zeros(2, dtype=torch.long)
            launcher.entmax_loss(z, classes, alpha, 0.1, True)
            launcher.entmax_loss_vjp(z, classes, torch.zeros(2, 3), torch.zeros(2), alpha, 0.1, False)
        for alpha in (1.5, 1.3, 3.0, torch.tensor([1.5, 3.0])):
            launcher.entmax_loss(torch.zeros(2, 10 * LOSS_ROW), classes, alpha, 0.1, True)
        launcher.entmax_loss(z, z, 1.5, 0.1, True)
        launcher.entmax_loss_vjp(z, z, torch.zeros(2, 3), torch.zeros(2), 1.5, 0.1, False)


if __name__ == "__main__":
    main()
