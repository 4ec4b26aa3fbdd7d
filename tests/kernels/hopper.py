"""Hopper: the GPU that kernels are compiled for where there is none, and what one program may take of it."""

from __future__ import annotations

import re
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any
from unittest.mock import patch

import torch
import triton
from torch import Tensor
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from triton.runtime.jit import KernelInterface

TARGET = GPUTarget("cuda", 90, 32)
REGISTERS = 2**16  # of a multiprocessor
WARP_REGISTERS = 2**8  # which a warp is given at a time
SHARED = 227 * 2**10  # bytes of shared memory, at most, of a program
SPILLED = 2**12  # bytes of a thread in global memory: more are a sign that the assembler has left registers unused
ALIGNED = [["tt.divisibility", 16]]
TYPES = {torch.float16: "fp16", torch.bfloat16: "bf16", torch.float32: "fp32", torch.float64: "fp64"}
TYPES |= {torch.int8: "i8", torch.uint8: "u8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64"}


def compile_kernel(kernel: Any, types: dict[str, Any], constants: dict[str, Any], **options: int) -> Any:
    """Compile a kernel, print a line about it, and return it.

    Args:
        types: of arguments; tuples have one for each entry, where "constexpr" is None. Counts and strides need none.
        constants: arguments that are known when it is compiled.
        options: those of a launch, such as ``num_warps``.
    """
    signature = {name: "constexpr" if name in constants else types.get(name, "i32") for name in kernel.arg_names}
    places = {(kernel.arg_names.index(name),): value for name, value in constants.items()}
    for i, kinds in enumerate(signature.values()):
        if isinstance(kinds, tuple):
            places |= {(i, j): None for j, kind in enumerate(kinds) if kind == "constexpr"}
    return _compile(kernel, signature, places, {}, options)


@contextmanager
def compiled_launches() -> Iterator[None]:
    """Compile what is launched, and launch nothing: the functions of the library say how kernels are launched."""
    with patch.object(KernelInterface, "__getitem__", lambda kernel, grid: partial(_compile_launch, kernel)):
        yield


def _compile_launch(kernel: Any, *arguments: Any, **named: Any) -> Any:
    """Compile a kernel as it is for a launch with these arguments."""
    options = {name: named.pop(name) for name in [*named] if name not in kernel.arg_names}
    given = dict(zip(kernel.arg_names, arguments, strict=False)) | named
    places: dict[tuple, Any] = {}
    aligned: dict[tuple, Any] = {}

    def look(path: tuple[int, ...], x: Any) -> Any:
        parameter = kernel.params[path[0]]
        if isinstance(x, tuple):
            return tuple(look((*path, i), entry) for i, entry in enumerate(x))
        special = not parameter.do_not_specialize
        if parameter.is_constexpr or x is None or (special and type(x) is int and x == 1):
            places[path] = x
            return "constexpr"
        if isinstance(x, Tensor) or (special and type(x) is int and x % 16 == 0):
            aligned[path] = ALIGNED
        if isinstance(x, Tensor):
            return f"*{TYPES[x.dtype]}"
        return "fp32" if isinstance(x, float) else "i32" if abs(x) < 2**31 else "i64"

    signature = {name: look((i,), given[name]) for i, name in enumerate(kernel.arg_names)}
    return _compile(kernel, signature, places, aligned, options)


def _compile(kernel: Any, signature: dict, places: dict, aligned: dict, options: dict[str, Any]) -> Any:
    made = triton.compile(ASTSource(kernel, signature, places, aligned), TARGET, options)
    constants = {kernel.arg_names[path[0]]: value for path, value in places.items() if len(path) == 1}
    registers, spilled = measure_thread(made.asm["cubin"])
    shared = made.metadata.shared
    line = f"{kernel.__name__} {constants} {options}: {registers} registers, {spilled} bytes spilled, {shared} shared"
    print(line, flush=True)
    for_a_warp = -(-32 * registers // WARP_REGISTERS) * WARP_REGISTERS
    assert made.metadata.num_warps * for_a_warp <= REGISTERS, f"{line}: no multiprocessor has as many registers"
    assert shared <= SHARED, f"{line}: no multiprocessor has as much shared memory"
    assert spilled <= SPILLED, f"{line}: too many for a kernel that is to be quick"
    return made


def measure_thread(binary: bytes) -> tuple[int, int]:
    """Return the registers of a thread of a compiled kernel, and the bytes that it keeps in global memory."""
    found = re.findall(r"\bREG:(\d+) STACK:(\d+)", _dump(binary, "-res-usage"))
    return max(int(registers) for registers, _ in found), max(int(stack) for _, stack in found)


def disassemble(binary: bytes) -> str:
    """Return the instructions of a compiled kernel."""
    return _dump(binary, "-sass")


def _dump(binary: bytes, what: str) -> str:
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        command = [triton.knobs.nvidia.cuobjdump.path, what, file.name]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
