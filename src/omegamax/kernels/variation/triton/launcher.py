"""Launch the kernels of total variation on chains. Longer ones go through the host, as grids and graphs do."""

from __future__ import annotations

import struct

import torch
from torch import Tensor

from omegamax.kernels._library import expand_by_row
from omegamax.kernels.choice import Case, choose
from omegamax.kernels.host import take_host
from omegamax.kernels.tiles import STRING_REGISTERS, row_tile, string_tile
from omegamax.kernels.triton.launch import as_rows, as_tensor, launch, share_slots
from omegamax.kernels.variation.reference import chain_pull
from omegamax.kernels.variation.triton.chain import chain_kernel, chain_vjp_kernel

SCALE = {8: 2.0**-16}  # by bytes of an entry: of float64, whose largest numbers have no finite sum


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
            bits = struct.unpack("q", struct.pack("d", strength))[0]
        each, block, warps = string_tile(size)
        programs, tiles, slots = share_slots(x, count, each, block)
        sizes = (count, size, rows.stride(0), tiles)
        scale = SCALE.get(x.itemsize, 1.0)
        arguments = (by_row, bits, *sizes, by_row is not None, scale, each, block)
        launch(chain_kernel, programs, (rows, w, slots), arguments, warps, registers=STRING_REGISTERS)
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
        launch(chain_vjp_kernel, -(-count // each), (rows, incoming, out), arguments, warps)
    return as_tensor(out, g, dim)


def tv_chain_slope(w: Tensor, strength: float | Tensor, dim: int) -> Tensor:
    """Compute what :func:`omegamax.kernels.variation.reference.tv_chain_slope` does."""
    return tv_chain_vjp(w, chain_pull(w, dim), strength, dim)


def _by_row(strength: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return one float64 strength for each of the rows that :func:`as_rows` makes of ``x``."""
    return expand_by_row(strength, x, dim).movedim(dim, -1).reshape(-1)
