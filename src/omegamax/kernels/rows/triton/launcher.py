"""Launch the kernels of maps of rows: ``(z, *parameters, dim)`` in, probabilities of the same shape out.

Which kernel runs is read from :data:`omegamax.kernels.choice.RULES`. Half precision is loaded and stored as it is and
computed in float32; float64 goes to plain torch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.choice import (
    Case,
    Exponent,
    Parameter,
    choose,
    entmax_case,
    exponent_of,
    kind_of,
    normmax_case,
    normmax_exponent_of,
)
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows import reference
from omegamax.kernels.rows.triton.above_two import entmax_above_two_kernel
from omegamax.kernels.rows.triton.above_two_long import entmax_above_two_long_kernel
from omegamax.kernels.rows.triton.any_alpha import entmax_any_alpha_kernel, entmax_any_alpha_long_kernel
from omegamax.kernels.rows.triton.general import entmax_outside_kernel, general_kernel, general_long_kernel
from omegamax.kernels.rows.triton.normmax import normmax_power_kernel, normmax_vjp_kernel
from omegamax.kernels.rows.triton.normmax_long import normmax_power_long_kernel, normmax_vjp_long_kernel
from omegamax.kernels.rows.triton.power import entmax_power_kernel
from omegamax.kernels.rows.triton.power_long import entmax_power_long_kernel
from omegamax.kernels.rows.triton.vjp import alpha_vjp_kernel, entmax_vjp_kernel, entmax_vjp_long_kernel
from omegamax.kernels.tiles import (
    ABOVE_TWO_REGISTERS,
    ANY_ALPHA_REGISTERS,
    LONG_BLOCK,
    LONG_BLOCKS,
    MAX_CANDIDATES,
    any_alpha_tile,
    candidate_blocks,
    folded_tile,
    listed_entries,
    outside_tile,
    power_of_2,
    row_tile,
    tiles_per_program,
)
from omegamax.kernels.triton.launch import as_rows, as_tensor, by_row, launch, launch_again


def entmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    """Return entmax of scores along ``dim``."""
    key = None
    if type(alpha) is float and dim == z.dim() - 1 and z.is_contiguous():
        key = ("entmax", alpha, z.shape, z.dtype, z.device)
        p = launch_again(key, z)
        if p is not None:
            return p
    kernels = choose("entmax", entmax_case(alpha), z.itemsize, z.shape[dim])
    if kernels[0] == "reference.entmax":
        return reference.entmax(z, alpha, dim)
    return _launch_forward(kernels, z, alpha, kind_of(alpha), dim, key)


def normmax(z: Tensor, alpha: Parameter, dim: int) -> Tensor:
    """Return normmax of scores along ``dim``."""
    key = None
    if type(alpha) is float and dim == z.dim() - 1 and z.is_contiguous():
        key = ("normmax", alpha, z.shape, z.dtype, z.device)
        p = launch_again(key, z)
        if p is not None:
            return p
    kernels = choose("normmax", normmax_case(alpha), z.itemsize, z.shape[dim])
    if kernels[0] == "reference.normmax":
        return reference.normmax(z, alpha, dim)
    return _launch_forward(kernels, z, alpha, Kind.NORMMAX, dim, key)


def entmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    """Return the Jacobian of entmax at ``p`` times ``g``."""
    key = None
    if type(alpha) is float and dim == p.dim() - 1 and p.is_contiguous() and g.is_contiguous():
        key = ("entmax_vjp", alpha, p.shape, p.dtype, g.dtype, p.device)
        out = launch_again(key, p, g)
        if out is not None:
            return out
    kernels = choose("entmax_vjp", entmax_case(alpha), p.itemsize, p.shape[dim])
    if kernels[0] == "reference.entmax_vjp":
        return reference.entmax_vjp(p, g, alpha, dim)
    return _launch_vjp(kernels[0], p, g, alpha, kind_of(alpha), dim, key)


def normmax_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    """Return the Jacobian of normmax at ``p`` times ``g``."""
    key = None
    if type(alpha) is float and dim == p.dim() - 1 and p.is_contiguous() and g.is_contiguous():
        key = ("normmax_vjp", alpha, p.shape, p.dtype, g.dtype, p.device)
        out = launch_again(key, p, g)
        if out is not None:
            return out
    kernels = choose("normmax_vjp", normmax_case(alpha), p.itemsize, p.shape[dim])
    if kernels[0] == "reference.normmax_vjp":
        return reference.normmax_vjp(p.to(_wide(p)), g.to(_wide(p)), alpha, dim).to(p.dtype)
    return _launch_vjp(kernels[0], p, g, alpha, Kind.NORMMAX, dim, key)


def alpha_vjp(p: Tensor, g: Tensor, alpha: Parameter, dim: int) -> Tensor:
    """Return the derivative of entmax in alpha times ``g``, summed along ``dim``, of size 1 there."""
    kernels = choose("alpha_vjp", Case.ANY, p.itemsize, p.shape[dim])
    if kernels[0] == "reference.alpha_vjp":
        return reference.alpha_vjp(p.to(_wide(p)), g.to(_wide(p)), alpha, dim)
    rows, grads = as_rows(p, dim), as_rows(g, dim)
    count, size = rows.shape
    out = torch.empty(count, dtype=torch.float32, device=p.device)
    if count:
        alphas = by_row(alpha if isinstance(alpha, Tensor) else out.new_tensor(alpha), p, dim)
        each, block, warps = row_tile(size)
        arguments = (count, size, rows.stride(0), grads.stride(0), each, block)
        launch(alpha_vjp_kernel, -(-count // each), (rows, grads, out, alphas), arguments, warps)
    shape = p.movedim(dim, -1).shape[:-1]
    return out.view(*shape, 1).movedim(-1, dim)


class Call(NamedTuple):
    """What the kernels of a forward pass are launched with."""

    rows: Tensor  # [count, size], entries next to each other
    p: Tensor  # the same, for the result
    alpha: float  # where there are no alphas
    alphas: Tensor | None  # [count], float32
    kind: Kind
    key: tuple | None  # of the launch, if it is to be kept

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Number and length of the rows, and the stride from one to the next."""
        return *self.rows.shape, self.rows.stride(0)

    @property
    def exponent(self) -> Exponent:
        """The exponent of a kernel that is compiled for it."""
        exponent = (normmax_exponent_of if self.kind is Kind.NORMMAX else exponent_of)(self.alpha)
        assert exponent is not None
        return exponent


def _launch_forward(
    kernels: tuple[str, ...], z: Tensor, alpha: Parameter, kind: Kind, dim: int, key: tuple | None
) -> Tensor:
    rows = as_rows(z, dim)
    p = torch.empty_like(rows, memory_format=torch.contiguous_format)
    if len(rows):
        scalar, alphas = (2.0, by_row(alpha, z, dim)) if isinstance(alpha, Tensor) else (alpha, None)
        call = Call(rows, p, scalar, alphas, kind, key if len(kernels) == 1 else None)
        for name in kernels:
            FORWARD[name](call)
    return as_tensor(p, z, dim)


def _power(call: Call) -> None:
    kind, integer, fraction = call.exponent
    count, size, _ = call.sizes
    each, depth, width, warps = folded_tile(size, call.rows.itemsize, kind is Kind.SPARSEMAX)
    unmasked = size == depth * width and count % each == 0
    arguments = (fraction, *call.sizes, kind.value, integer, fraction > 0, unmasked, each, depth, width)
    launch(entmax_power_kernel, -(-count // each), (call.rows, call.p), arguments, warps, call.key)


def _power_long(call: Call) -> None:
    kind, integer, fraction = call.exponent
    power = kind is Kind.ENTMAX_POWER
    *blocks, groups = _candidates(call, power)
    room = listed_entries(call.rows.shape[1], groups)
    constants = (kind.value, integer, fraction > 0, *blocks, groups, room)
    _list_candidates(entmax_power_long_kernel, call, (fraction, *call.sizes, *constants), power)


def _normmax_power_long(call: Call) -> None:
    kind, integer, fraction = call.exponent
    power = kind is Kind.ENTMAX_POWER
    constants = (kind.value, integer, fraction > 0, call.alpha > 2, *_candidates(call, power))
    _list_candidates(normmax_power_long_kernel, call, (call.alpha, fraction, *call.sizes, *constants), power)


def _candidates(call: Call, power: bool) -> tuple:
    """Return how a long row is read whose candidates are listed: unmasked or not, depth, block, group and groups."""
    _, size, _ = call.sizes
    depth, block, _ = candidate_blocks(size, power)
    group = power_of_2(-(-size // block))
    return size % (depth * block) == 0, depth, block, group, max(MAX_CANDIDATES[power] // group, 1)


def _list_candidates(kernel: Any, call: Call, arguments: tuple, power: bool, registers: int | None = None) -> None:
    count, size, _ = call.sizes
    warps = candidate_blocks(size, power).warps
    scratch = (count, arguments[-1])
    launch(kernel, count, (call.rows, call.p), arguments, warps, call.key, registers, scratch)


def _any_alpha(call: Call) -> None:
    count, size, _ = call.sizes
    each, depth, width, warps = any_alpha_tile(size, call.rows.itemsize)
    registers = ANY_ALPHA_REGISTERS if each == 1 and warps <= 4 else None
    unmasked = size == depth * width and count % each == 0
    per_row = call.alphas is not None
    arguments = (call.alphas, call.alpha, *call.sizes, per_row, unmasked, each, depth, width)
    launch(entmax_any_alpha_kernel, -(-count // each), (call.rows, call.p), arguments, warps, call.key, registers)


def _any_alpha_long(call: Call) -> None:
    count, size, _ = call.sizes
    depth, block, warps = LONG_BLOCKS
    unmasked = size % (depth * block) == 0
    arguments = (call.alphas, call.alpha, *call.sizes, call.alphas is not None, unmasked, depth, block)
    launch(entmax_any_alpha_long_kernel, count, (call.rows, call.p), arguments, warps, call.key)


def _outside(call: Call) -> None:
    count, size, _ = call.sizes
    each, depth, width, warps = outside_tile(size, call.rows.itemsize)
    tiles = tiles_per_program(count // each, warps)
    arguments = (call.alphas, *call.sizes, tiles, each, depth, width)
    registers = ABOVE_TWO_REGISTERS if warps <= 16 else None
    launch(entmax_outside_kernel, -(-count // (each * tiles)), (call.rows, call.p), arguments, warps, None, registers)


def _above_two(call: Call) -> None:
    count, size, _ = call.sizes
    each, depth, width, warps = folded_tile(size, call.rows.itemsize)
    unmasked = size == depth * width and count % each == 0
    arguments = (call.alpha, *call.sizes, unmasked, each, depth, width)
    tensors = (call.rows, call.p)
    launch(entmax_above_two_kernel, -(-count // each), tensors, arguments, warps, call.key, ABOVE_TWO_REGISTERS)


def _above_two_long(call: Call) -> None:
    constants = (call.alphas is not None, *_candidates(call, False))
    arguments = (call.alphas, call.alpha, *call.sizes, *constants)
    _list_candidates(entmax_above_two_long_kernel, call, arguments, False, ABOVE_TWO_REGISTERS)


def _general(call: Call) -> None:
    count, size, _ = call.sizes
    each, block, warps = row_tile(size)
    unmasked = size == block and count % each == 0
    per_row = call.alphas is not None
    arguments = (call.alphas, call.alpha, *call.sizes, call.kind.value, per_row, unmasked, each, block)
    launch(general_kernel, -(-count // each), (call.rows, call.p), arguments, warps, call.key)


def _general_long(call: Call) -> None:
    # With an alpha for each row of entmax it runs beside other kernels, for alphas below 1.
    kind = Kind.NORMMAX if call.kind is Kind.NORMMAX else Kind.ENTMAX if call.alphas is not None else call.kind
    arguments = (call.alphas, call.alpha, *call.sizes, kind.value, call.alphas is not None, LONG_BLOCK.block)
    launch(general_long_kernel, len(call.rows), (call.rows, call.p), arguments, LONG_BLOCK.warps, call.key)


def _normmax_power(call: Call) -> None:
    kind, integer, fraction = call.exponent
    count, size, _ = call.sizes
    each, depth, width, warps = folded_tile(size, call.rows.itemsize)
    unmasked = size == depth * width and count % each == 0
    constants = (kind.value, integer, fraction > 0, call.alpha > 2, unmasked, each, depth, width)
    arguments = (call.alpha, fraction, *call.sizes, *constants)
    launch(normmax_power_kernel, -(-count // each), (call.rows, call.p), arguments, warps, call.key)


FORWARD: dict[str, Callable[[Call], None]] = {
    "entmax_power_kernel": _power,
    "entmax_power_long_kernel": _power_long,
    "entmax_any_alpha_kernel": _any_alpha,
    "entmax_any_alpha_long_kernel": _any_alpha_long,
    "entmax_outside_kernel": _outside,
    "entmax_above_two_kernel": _above_two,
    "entmax_above_two_long_kernel": _above_two_long,
    "general_kernel": _general,
    "general_long_kernel": _general_long,
    "normmax_power_kernel": _normmax_power,
    "normmax_power_long_kernel": _normmax_power_long,
}


def _launch_vjp(name: str, p: Tensor, g: Tensor, alpha: Parameter, kind: Kind, dim: int, key: tuple | None) -> Tensor:
    rows, incoming = as_rows(p, dim), as_rows(g, dim)
    out = torch.empty_like(rows, memory_format=torch.contiguous_format)
    count, size = rows.shape
    if count:
        scalar, alphas = (2.0, by_row(alpha, p, dim)) if isinstance(alpha, Tensor) else (alpha, None)
        tensors = (rows, incoming, out)
        sizes = (count, size, rows.stride(0), incoming.stride(0))
        each, block, warps = row_tile(size, light=name == "entmax_vjp_kernel")
        unmasked = size == block and count % each == 0
        if name == "normmax_vjp_kernel":
            arguments: tuple = (scalar, *sizes, scalar == 2, unmasked, each, block)
            launch(normmax_vjp_kernel, -(-count // each), tensors, arguments, warps, key)
        elif name == "normmax_vjp_long_kernel":
            arguments = (scalar, *sizes, scalar == 2, LONG_BLOCK.block)
            launch(normmax_vjp_long_kernel, count, tensors, arguments, LONG_BLOCK.warps, key)
        elif name == "entmax_vjp_kernel":
            arguments = (alphas, scalar, *sizes, kind.value, alphas is not None, unmasked, each, block)
            launch(entmax_vjp_kernel, -(-count // each), tensors, arguments, warps, key)
        else:
            arguments = (alphas, scalar, *sizes, kind.value, alphas is not None, LONG_BLOCK.block)
            launch(entmax_vjp_long_kernel, count, tensors, arguments, LONG_BLOCK.warps, key)
    return as_tensor(out, p, dim)


def _wide(x: Tensor) -> torch.dtype:
    return torch.promote_types(x.dtype, torch.float32)
