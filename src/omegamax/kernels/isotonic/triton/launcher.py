"""Launch the kernel of isotonic regression; the order of the scores is found by torch."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax.kernels.choice import Case, choose
from omegamax.kernels.isotonic import reference
from omegamax.kernels.isotonic.triton.regression import isotonic_kernel
from omegamax.kernels.tiles import STRING_REGISTERS, string_tile
from omegamax.kernels.triton.launch import launch, share_slots


def oscar(z: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Return what :func:`omegamax.kernels.isotonic.reference.oscar` does."""
    if choose("oscar", Case.ANY, z.itemsize, z.shape[dim])[0] == "reference.oscar":
        return reference.oscar(z, strength, dim)
    return reference.solve_oscar(z, strength, dim, isotonic)


def isotonic(x: Tensor) -> Tensor:
    """Return what :func:`omegamax.kernels.isotonic.reference.isotonic` does, for float64 rows."""
    x = x.contiguous()  # rows of scores along another axis are not
    count, size = x.shape
    out = torch.empty_like(x, memory_format=torch.contiguous_format)
    if count:
        each, block, warps = string_tile(size)
        programs, tiles, slots = share_slots(x, count, each, block)
        arguments = (count, size, x.stride(0), tiles, each, block)
        launch(isotonic_kernel, programs, (x, out, slots), arguments, warps, registers=STRING_REGISTERS)
    return out
