"""Launch the kernels of Gaussian functions under densities over the line and the plane."""

from __future__ import annotations

import math
from typing import Any

from torch import Tensor

from omegamax.kernels.gaussian.reference import REACH
from omegamax.kernels.gaussian.triton.line import gaussian_on_line_kernel, line_vjp_kernel, parabola_on_line_kernel
from omegamax.kernels.gaussian.triton.plane import gaussian_in_plane_kernel, plane_vjp_kernel
from omegamax.kernels.tiles import power_of_2
from omegamax.kernels.triton.launch import launch_kept

BLOCK = 128  # functions of a program, or of a block, at most: one for each thread


def gaussian_on_line(loc: Tensor, scale: Tensor, centers: Tensor, variance: Tensor) -> Tensor:
    """Integrate like :func:`omegamax.kernels.gaussian.reference.gaussian_on_line`."""
    return _integrate_on_line(gaussian_on_line_kernel, (loc, scale, centers, variance), ())


def parabola_on_line(
    loc: Tensor, root: Tensor, centers: Tensor, variance: Tensor, nodes: Tensor, ends: Tensor
) -> Tensor:
    """Integrate like :func:`omegamax.kernels.gaussian.reference.parabola_on_line`; the kernel knows the ends."""
    tensors = (loc, root, centers, variance, nodes)
    return _integrate_on_line(parabola_on_line_kernel, tensors, (nodes.shape[1], REACH))


def _integrate_on_line(kernel: Any, tensors: tuple[Tensor, ...], constants: tuple) -> Tensor:
    """Return ``[*, 3, J]`` of densities ``[*, 1]``, a program for each block of functions under each density."""
    loc, count = tensors[0], len(tensors[2])
    out = loc.new_empty((*loc.shape[:-1], 3, count))
    if out.numel():
        block = min(BLOCK, power_of_2(count))
        blocks = -(-count // block)
        programs = math.prod(loc.shape[:-1]) * blocks
        given = (*(t.contiguous() for t in tensors), out)
        launch_kept(kernel, programs, given, (count, blocks, *constants, block), max(block // 32, 1))
    return out


def line_vjp(both: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Differentiate like :func:`omegamax.kernels.gaussian.reference.line_vjp`."""
    *batch, _, count = both.shape
    of_loc, of_scale = both.new_empty((*batch, 1)), both.new_empty((*batch, 1))
    rows = math.prod(batch)
    if rows:
        block = min(BLOCK, power_of_2(max(count, 1)))
        tensors = (both.contiguous(), g.contiguous(), of_loc, of_scale)
        launch_kept(line_vjp_kernel, rows, tensors, (count, block), max(block // 32, 1))
    return of_loc, of_scale


def gaussian_in_plane(loc: Tensor, sigma: Tensor, centers: Tensor, spread: Tensor) -> Tensor:
    """Integrate like :func:`omegamax.kernels.gaussian.reference.gaussian_in_plane`."""
    rows, count = math.prod(loc.shape[:-1]), len(centers)
    out = loc.new_empty((*loc.shape[:-1], 7, count))
    if out.numel():
        block = min(BLOCK, power_of_2(count))
        blocks = -(-count // block)
        tensors = (*(t.contiguous() for t in (loc, sigma, centers, spread)), out)
        arguments = (count, blocks, spread.dim() == 1, block)
        launch_kept(gaussian_in_plane_kernel, rows * blocks, tensors, arguments, max(block // 32, 1))
    return out


def plane_vjp(both: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    """Differentiate like :func:`omegamax.kernels.gaussian.reference.plane_vjp`."""
    *batch, _, count = both.shape
    of_loc, of_matrix = both.new_empty((*batch, 2)), both.new_empty((*batch, 2, 2))
    rows = math.prod(batch)
    if rows:
        block = min(BLOCK, power_of_2(max(count, 1)))
        tensors = (both.contiguous(), g.contiguous(), of_loc, of_matrix)
        launch_kept(plane_vjp_kernel, rows, tensors, (count, block), max(block // 32, 1))
    return of_loc, of_matrix
