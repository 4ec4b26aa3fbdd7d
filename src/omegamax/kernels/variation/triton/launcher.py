"""Launch the kernels of total variation on chains and grids. Larger ones go through the host, as graphs do."""

from __future__ import annotations

import math
import struct

import torch
from torch import Tensor

from omegamax.kernels._library import expand_by_row
from omegamax.kernels.choice import Case, choose
from omegamax.kernels.host import take_host
from omegamax.kernels.tiles import IMAGE_REGISTERS, STRING_REGISTERS, image_tile, row_tile, string_tile
from omegamax.kernels.triton.launch import as_rows, as_tensor, launch, launch_kept, share_slots
from omegamax.kernels.variation.reference import chain_pull, grid_pull
from omegamax.kernels.variation.triton.chain import chain_kernel, chain_vjp_kernel
from omegamax.kernels.variation.triton.grid import grid_kernel, grid_vjp_kernel

SCALE = {8: 2.0**-16}  # by bytes of an entry: of float64, whose largest numbers have no finite sum
MAX_SWEEPS = 2048  # of an image over its edges: those that need more are left to the host


def tv_chain(x: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain` does."""
    dim %= x.dim()
    if choose("tv_chain", Case.ANY, x.itemsize, x.shape[dim])[0] == "host.tv_chain":
        return take_host("variation", "tv_chain")(x, strength, dim)
    rows = as_rows(x, dim)
    w = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count and size:
        by_row, bits = None, 0
        if isinstance(strength, Tensor):
            by_row = _by_row(strength, x, dim)
        else:
            bits = _bits(strength)
        each, block, warps = string_tile(size)
        programs, tiles, slots = share_slots(x, count, each, block)
        sizes = (count, size, rows.stride(0), tiles)
        scale = SCALE.get(x.itemsize, 1.0)
        arguments = (by_row, bits, *sizes, by_row is not None, scale, each, block)
        run = launch_kept if by_row is None else launch  # pointers of what is kept stand in front
        run(chain_kernel, programs, (rows, w, slots), arguments, warps, registers=STRING_REGISTERS)
    return as_tensor(w, x, dim)


def tv_chain_vjp(w: Tensor, g: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain_vjp` does."""
    dim %= w.dim()
    if choose("tv_chain_vjp", Case.ANY, w.itemsize, w.shape[dim])[0] == "host.tv_chain_vjp":
        return take_host("variation", "tv_chain_vjp")(w, g, strength, dim)
    if not isinstance(strength, Tensor) and not strength > 0:
        return torch.where(w == -torch.inf, 0.0, g)
    rows, incoming = as_rows(w, dim), as_rows(g, dim)
    out = torch.empty_like(incoming, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count and size:
        by_row = _by_row(strength, w, dim) if isinstance(strength, Tensor) else None
        each, block, warps = row_tile(size)
        arguments = (by_row, count, size, rows.stride(0), incoming.stride(0), by_row is not None, each, block)
        run = launch_kept if by_row is None else launch
        run(chain_vjp_kernel, -(-count // each), (rows, incoming, out), arguments, warps)
    return as_tensor(out, g, dim)


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain_slope` does."""
    return tv_chain_vjp(w, chain_pull(w, dim), strength, dim)


def _by_row(strength: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return one float64 strength for each of the rows that :func:`as_rows` makes of ``x``."""
    return expand_by_row(strength, x, dim).movedim(dim, -1).reshape(-1)


def tv_grid(x: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid` does.

    Whether an image is left to the host is read from the GPU, which waits for it.
    """
    *batch, height, width = x.shape
    if height == 1 or width == 1:
        return tv_chain(x.flatten(-2), _of_lines(strength), -1).reshape(x.shape)
    if choose("tv_grid", Case.ANY, x.itemsize, height * width)[0] == "host.tv_grid":
        return take_host("variation", "tv_grid")(x, strength)
    x = x.contiguous()
    w = torch.empty_like(x)
    if x.numel():
        by_image, bits = None, 0
        if isinstance(strength, Tensor):
            by_image = _by_image(strength, x)
        else:
            bits = _bits(strength)
        count = math.prod(batch)
        undone = torch.empty(count, dtype=torch.int32, device=x.device)
        block, warps = image_tile(height * width)
        # The last tensor is read where there is a strength for each image, and only there.
        tensors = (x, w, undone, undone if by_image is None else by_image)
        arguments = (bits, height, width, MAX_SWEEPS, by_image is not None, block)
        launch_kept(grid_kernel, count, tensors, arguments, warps, IMAGE_REGISTERS)
        left = undone.cpu().nonzero().flatten()
        if len(left):
            left = left.to(x.device)
            strengths = strength if by_image is None else by_image[left].reshape(-1, 1, 1)
            images = x.view(count, height, width)[left]
            w.view(count, height, width)[left] = take_host("variation", "tv_grid")(images, strengths)
    return w


def tv_grid_vjp(w: Tensor, g: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid_vjp` does."""
    *batch, height, width = w.shape
    if height == 1 or width == 1:
        return tv_chain_vjp(w.flatten(-2), g.flatten(-2), _of_lines(strength), -1).reshape(g.shape)
    if choose("tv_grid_vjp", Case.ANY, w.itemsize, height * width)[0] == "host.tv_grid_vjp":
        return take_host("variation", "tv_grid_vjp")(w, g, strength)
    if not isinstance(strength, Tensor) and not strength > 0:
        return torch.where(w == -torch.inf, 0.0, g)
    w, g = w.contiguous(), g.contiguous()
    out = torch.empty_like(g)
    if g.numel():
        by_image = _by_image(strength, w) if isinstance(strength, Tensor) else None
        block, warps = image_tile(height * width)
        tensors = (w, g, out, w if by_image is None else by_image)
        launch_kept(grid_vjp_kernel, math.prod(batch), tensors, (height, width, by_image is not None, block), warps)
    return out


def tv_grid_slope(w: Tensor, strength: float | Tensor) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_grid_slope` does."""
    return tv_grid_vjp(w, grid_pull(w), strength)


def _by_image(strength: Tensor, x: Tensor) -> Tensor:
    """Return one float64 strength for each image of ``x``."""
    return strength.detach().double().expand(*x.shape[:-2], 1, 1).flatten().contiguous()


def _of_lines(strength: float | Tensor) -> float | Tensor:
    """Return the strength of images as that of the rows of their cells."""
    return strength.squeeze(-1) if isinstance(strength, Tensor) and strength.dim() else strength


def _bits(strength: float) -> int:
    """Return the bits of a float64, as an integer."""
    return struct.unpack("q", struct.pack("d", strength))[0]
