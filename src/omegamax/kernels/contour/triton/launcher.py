"""Launch the kernel of Gaussian functions under compact densities over the plane."""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor

from omegamax._numerics import log_stretch
from omegamax.kernels.contour.plane import Form
from omegamax.kernels.contour.reference import NODES, log_gamma_scale
from omegamax.kernels.contour.triton.plane import contour_in_plane_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch_kept

BLOCK = 128  # functions of a program, at most: one for each thread


def contour_in_plane(
    loc: Tensor, matrix: Tensor, centers: Tensor, variance: Tensor, alpha: float, form: Form, fine: bool
) -> Tensor:
    """Integrate like :func:`omegamax.kernels.contour.plane.integrate_in_plane`."""
    rows, count = math.prod(loc.shape[:-1]), len(centers)
    out = loc.new_empty((*loc.shape[:-1], 7, count))
    if out.numel():
        block = min(BLOCK, power_of_2(count))
        blocks = -(-count // block)
        tensors = (*(t.contiguous() for t in (loc, matrix, centers, variance)), out)
        arguments = (count, blocks, *make_constants(alpha), form.value, *NODES[fine], block)
        launch_kept(contour_in_plane_kernel, rows * blocks, tensors, arguments, max(block // 32, 1))
    return out


@functools.cache
def make_constants(alpha: float) -> tuple[float, ...]:
    """Return alpha, the exponent M, log(alpha), log(Gamma(M) exp(M) M^-M) and what Sigma is to the covariance.

    All are exact: an argument is float32.
    """
    M = 1 + 1 / (alpha - 1)
    scale = log_gamma_scale(torch.tensor(M, dtype=torch.float64)).item()
    return alpha, M, math.log(alpha), scale, log_stretch(alpha - 1, 2)
