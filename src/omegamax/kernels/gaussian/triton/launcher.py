"""Launch the kernel of Gaussian functions under Gaussians."""

from __future__ import annotations

import math

from torch import Tensor

from omegamax.kernels.gaussian.triton.plane import gaussian_in_plane_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch

BLOCK = 128  # functions of a program, at most: one for each thread


def gaussian_in_plane(loc: Tensor, sigma: Tensor, centers: Tensor, spread: Tensor) -> Tensor:
    """Integrate like :func:`omegamax.kernels.gaussian.reference.gaussian_in_plane`."""
    rows, count = math.prod(loc.shape[:-1]), len(centers)
    out = loc.new_empty((*loc.shape[:-1], 7, count))
    if out.numel():
        block = min(BLOCK, power_of_2(count))
        blocks = -(-count // block)
        tensors = (*(t.contiguous() for t in (loc, sigma, centers, spread)), out)
        arguments = (count, blocks, spread.dim() == 1, block)
        launch(gaussian_in_plane_kernel, rows * blocks, tensors, arguments, max(block // 32, 1))
    return out
