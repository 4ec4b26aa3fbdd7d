"""From tensors to launches: tensors as rows, kernels launched again at little cost, kernels compiled ahead of time."""

from __future__ import annotations

import math
import os
from collections.abc import Hashable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from typing import Any, NamedTuple

import torch
import triton
from torch import Tensor

from omegamax._torch_internals import current_cuda_device
from omegamax.kernels.triton import kept_launches

MAX_KEPT = 4096  # launches in the cache, which is emptied when it is full
MAX_SLOTS = 1 << 20  # entries of all tiles that are solved at a time, of kernels whose threads exchange by memory
VERSION = tuple(int(part) for part in triton.__version__.split(".")[:2])
KNOWN = (3, 3) <= VERSION <= (3, 7)  # versions whose compiled kernels run as in KeptLaunch.__call__
DIRECT = VERSION == (3, 6)  # the version whose launcher in C is called as there, past the one in Python


def as_rows(x: Tensor, dim: int) -> Tensor:
    """Return ``x`` as ``[rows, size]``, with ``dim`` last and of stride 1; a view where that is possible."""
    if dim == x.dim() - 1 and x.is_contiguous():
        return x.view(-1, x.shape[-1]) if x.dim() != 2 else x
    rows = x.movedim(dim, -1).flatten(0, -2) if x.dim() > 1 else x[None]
    return rows if rows.stride(-1) == 1 or rows.shape[-1] == 1 else rows.contiguous()


def as_tensor(rows: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return rows as a contiguous tensor of the shape of ``x``: the inverse of :func:`as_rows`."""
    if dim == x.dim() - 1:
        return rows.view(x.shape)
    return rows.view(x.movedim(dim, -1).shape).movedim(-1, dim).contiguous()


def by_row(parameter: Tensor, x: Tensor, dim: int) -> Tensor:
    """Return a parameter that broadcasts to the rows of ``x`` as one float32 value for each row."""
    shape = list(x.shape)
    shape[dim] = 1
    return parameter.expand(shape).movedim(dim, -1).reshape(math.prod(shape)).float().contiguous()


def on_device(x: Tensor):
    """Return a context that launches on the device of ``x``, which need not be the current one."""
    if not x.is_cuda or x.device.index == torch.cuda.current_device():
        return nullcontext()
    return torch.cuda.device(x.device)


# Kernels of a few microseconds: what Triton works out anew at each launch is kept for the next one like it.

_runtime: Any = triton.knobs.runtime


class KeptLaunch:
    """A compiled kernel with its grid and all its arguments but the pointers, which come first."""

    __slots__ = ("arguments", "behind_stream", "device", "grid", "run", "scratch", "stream")

    def __init__(
        self, kernel: Any, grid: tuple[int, ...], arguments: tuple, device: int, scratch: tuple[int, ...] | None = None
    ):
        no_hooks = (None, None, None)  # metadata for hooks, and the hooks
        self.run: Any = kernel.run
        self.behind_stream: tuple = (kernel.function, kernel.packed_metadata, *no_hooks)
        if DIRECT and not (self.run.global_scratch_size or self.run.profile_scratch_size):
            modes = (self.run.launch_cooperative_grid, self.run.launch_pdl)
            self.behind_stream = (kernel.function, *modes, None, None, kernel.packed_metadata, *no_hooks)
            self.run = self.run.launch
        self.stream = triton.runtime.driver.active.get_current_stream
        self.grid, self.arguments, self.device = (*grid, 1, 1)[:3], arguments, device
        self.scratch = scratch  # shape of an int32 tensor that the kernel uses itself

    def __call__(self, *pointers: int) -> bool:
        """Run it, and return whether it ran: not if a pointer is less aligned, a profiler listens, or another device
        is current."""
        for pointer in pointers:
            if pointer & 15:
                return False
        hook = _runtime.launch_enter_hook
        if (hook is not None and getattr(hook, "calls", True)) or current_cuda_device() != self.device:
            return False
        self.launch(pointers)
        return True

    def launch(self, pointers: tuple[int, ...]) -> None:
        """Run it."""
        self.run(*self.grid, self.stream(self.device), *self.behind_stream, *pointers, *self.arguments)

    def fill(self, x: Tensor, *others: Tensor) -> Tensor | None:
        """Run it on contiguous tensors and return its result, of the shape of the first; None if it did not run."""
        out = torch.empty_like(x)
        pointers = (x.data_ptr(), *[t.data_ptr() for t in others], out.data_ptr())
        if self.scratch is not None:
            scratch = torch.empty(self.scratch, dtype=torch.int32, device=x.device)
            pointers = (*pointers, scratch.data_ptr())
        return out if self(*pointers) else None


class NestedLaunch(KeptLaunch):
    """The same where pointers stand anywhere among the arguments, and in tuples among these.

    Args:
        arguments: of the launch that is kept.
        tensors: those of the call, in the order of the pointers; no two are the same.
    """

    __slots__ = ("alone", "tuples")

    def __init__(
        self, kernel: Any, grid: tuple[int, ...], arguments: tuple, tensors: Sequence[Tensor | None], device: int
    ):
        super().__init__(kernel, grid, arguments, device)
        numbers = {id(t): n for n, t in enumerate(tensors) if t is not None}
        # Which place takes which pointer: of the arguments themselves, and of each tuple among them.
        self.alone = [(i, numbers[id(a)]) for i, a in enumerate(arguments) if isinstance(a, Tensor)]
        self.tuples = []
        for i, a in enumerate(arguments):
            if isinstance(a, tuple):
                inside = [(j, numbers[id(x)]) for j, x in enumerate(a) if isinstance(x, Tensor)]
                numbered = [None if isinstance(x, Tensor) else x for x in a]
                self.tuples.append((i, numbered, inside))
        self.arguments = tuple(None if isinstance(a, Tensor) else a for a in arguments)

    def launch(self, pointers: tuple[int, ...]) -> None:
        arguments = [*self.arguments]
        for place, number in self.alone:
            arguments[place] = pointers[number]
        for place, numbered, inside in self.tuples:
            entries = numbered.copy()
            for i, number in inside:
                entries[i] = pointers[number]
            arguments[place] = tuple(entries)
        self.run(*self.grid, self.stream(self.device), *self.behind_stream, *arguments)


class KeptCall(NamedTuple):
    """The launches of a call, one after the other, and the tensors that they fill: shape, strides and dtype of each."""

    launches: list[NestedLaunch]
    made: list[tuple[tuple[int, ...], tuple[int, ...], torch.dtype]]


_kept: dict[Hashable, KeptLaunch] = kept_launches
_kept_calls: dict[Hashable, KeptCall] = {}
_find = _kept.get


def launch_again(key: Hashable, x: Tensor, *others: Tensor) -> Tensor | None:
    """Run the launch kept under ``key`` on contiguous tensors and return its result, of the shape of the first.

    Returns None if there is no such launch, or it cannot be used now.
    """
    kept = _find(key)
    return None if kept is None else kept.fill(x, *others)


def call_again(key: Hashable, *given: Tensor | None) -> list[Tensor] | None:
    """Run the launches kept under ``key`` on tensors like those they were kept with, and return the tensors they fill.

    Returns None if there are no such launches, or they cannot be used now.
    """
    kept = _kept_calls.get(key)
    if kept is None:
        return None
    assert given[0] is not None
    device = given[0].device
    made = [torch.empty_strided(shape, strides, dtype=dtype, device=device) for shape, strides, dtype in kept.made]
    pointers = [0 if t is None else t.data_ptr() for t in (*given, *made)]
    for launch in kept.launches:
        if not launch(*pointers):
            return None
    return made


def run_and_keep(
    key: Hashable, launches: Sequence[PlannedLaunch], given: Sequence[Tensor | None], made: Sequence[Tensor]
) -> None:
    """Run the launches of a call and keep them under ``key``, which tells them from all others.

    Args:
        given: all tensors that the launches read, as :func:`call_again` will be given others.
        made: the tensors that they fill, in whole: what they hold before does not count.
    """
    compiled = [planned.run() for planned in launches]
    tensors = [*given, *made]
    there = [t for t in tensors if t is not None]
    if not all(t.is_cuda and not t.data_ptr() & 15 for t in there) or not all(map(_known, compiled)):
        return
    if len({*map(id, there)}) < len(there):  # of one given twice, nobody could tell which of the two a kernel reads
        return
    device = there[0].device.index
    if len(_kept_calls) >= MAX_KEPT:
        _kept_calls.clear()
    _kept_calls[key] = KeptCall(
        [
            NestedLaunch(kernel, planned.grid, planned.all_arguments, tensors, device)
            for kernel, planned in zip(compiled, launches, strict=True)
        ],
        [(tuple(t.shape), t.stride(), t.dtype) for t in made],
    )


def launch(
    kernel: Any,
    programs: int,
    tensors: tuple[Tensor | None, ...],
    arguments: tuple,
    warps: int,
    key: Hashable = None,
    registers: int | None = None,
    scratch: tuple[int, ...] | None = None,
) -> None:
    """Run ``kernel(*tensors, *arguments)``, and keep the launch under ``key``, which tells it from all others.

    Args:
        registers: of a thread, at most, on NVIDIA's GPUs, so that more programs run at once.
        scratch: shape of one more tensor, int32, that the kernel uses itself.
    """
    first = tensors[0]
    assert first is not None
    if scratch is not None:
        tensors = (*tensors, torch.empty(scratch, dtype=torch.int32, device=first.device))
    with on_device(first):
        limit = {"maxnreg": registers} if registers is not None and torch.version.hip is None else {}
        made = kernel[(programs, 1, 1)](*tensors, *arguments, num_warps=warps, **limit)
    if key is None or not first.is_cuda or not _known(made) or any(t is None or t.data_ptr() & 15 for t in tensors):
        return
    if len(_kept) >= MAX_KEPT:
        _kept.clear()
    _kept[key] = KeptLaunch(made, (programs,), arguments, first.device.index, scratch)


def launch_kept(
    kernel: Any,
    programs: int,
    tensors: tuple[Tensor, ...],
    arguments: tuple,
    warps: int,
    registers: int | None = None,
) -> None:
    """Run ``kernel(*tensors, *arguments)`` as it was run before on tensors of these types, where it was.

    The device of each is looked at: nobody else would notice that one is on another.
    """
    types, devices = [t.dtype for t in tensors], [t.device for t in tensors]
    key = (kernel.__name__, programs, arguments, warps, registers, *types, *devices)
    kept = _find(key)
    if kept is None or not kept(*[t.data_ptr() for t in tensors]):
        launch(kernel, programs, tensors, arguments, warps, key, registers)


def _known(kernel: Any) -> bool:
    return KNOWN and all(hasattr(kernel, a) for a in ("run", "function", "packed_metadata"))


def share_slots(like: Tensor, rows: int, each: int, block: int) -> tuple[int, int, Tensor]:
    """Return how many programs share the tiles of ``each`` rows, the tiles, and slots for each of these programs.

    So many programs that they fill a GPU, and so few that their slots, six for each entry, stay in its L2 cache.
    """
    tiles = -(-rows // each)
    programs = min(tiles, max(MAX_SLOTS // (each * block), 1))
    return programs, tiles, torch.empty(6 * programs * each * block, dtype=torch.float64, device=like.device)


# Calls that need several kernels: on the first, all of them are compiled at once, not each at its launch.


class PlannedLaunch(NamedTuple):
    """A kernel with its grid, arguments and constants."""

    kernel: Any
    grid: tuple[int, ...]
    arguments: tuple
    constants: dict[str, Any]

    @property
    def all_arguments(self) -> tuple:
        """The arguments in the order of the kernel's parameters, constants among them."""
        return (*self.arguments, *(self.constants[name] for name in self.kernel.arg_names[len(self.arguments) :]))

    def run(self) -> Any:
        """Launch it, and return the compiled kernel."""
        return self.kernel[self.grid](*self.arguments, **self.constants)


_compiled: set[Hashable] = set()
is_compiled = _compiled.__contains__


def compile_ahead(key: Hashable, launches: Iterable[PlannedLaunch], like: Tensor) -> None:
    """Compile for these launches, in threads, as most of the work is not Python's. Nothing is launched.

    Args:
        key: of all calls that need the same kernels, more or less: one that needs another compiles it at its launch.
        launches: of which only the types, alignments and constants count.
        like: a tensor on the device in question.
    """
    _compiled.add(key)
    if not like.is_cuda:
        return

    def compile_one(planned: PlannedLaunch) -> None:
        with on_device(like):
            # `run` compiles the C code that passes the arguments, which Triton does only when somebody asks for it.
            planned.kernel.warmup(*planned.arguments, grid=planned.grid, **planned.constants).run  # noqa: B018

    one_each: dict[int, PlannedLaunch] = {}
    for planned in launches:
        one_each.setdefault(id(planned.kernel), planned)
    with ThreadPoolExecutor(min(len(one_each), os.cpu_count() or 1)) as threads:
        # A kernel that does not compile raises its error when it is launched.
        for future in [threads.submit(compile_one, planned) for planned in one_each.values()]:
            future.exception()
