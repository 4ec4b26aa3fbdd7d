"""Call the compiled search for SparseMAP's structures: C++ in ``cpp/structures.cpp``."""

from __future__ import annotations

import ctypes
import functools

import numpy as np
import torch
from torch import Tensor, get_num_threads

from omegamax._torch_internals import DisableTransforms
from omegamax.kernels._library import make_dense, open_library
from omegamax.kernels.structures._ties import MAX_TIED
from omegamax.kernels.structures.matching_cpu import matching as matching
from omegamax.kernels.structures.matching_cpu import matching_vjp as matching_vjp
from omegamax.kernels.structures.reference import ActiveSet

# enum class StructureKind in cpp/structures.cpp
KINDS = ("k_subsets", "sequential_k_subsets", "sequence", "arborescence", "projective", "spanning_tree")


class _Start(ctypes.Structure):
    """The structures to start from: ``omegamax_packed`` in C."""

    _fields_ = (
        *((name, ctypes.c_void_p) for name in ("ones", "ones_count", "weights", "count", "begin")),
        ("width", ctypes.c_int64),
        ("trusted", ctypes.c_int32),
    )


@functools.cache
def load_entries() -> ctypes.CDLL:
    """Return the C functions of ``cpp/structures.cpp`` with their signatures."""
    entries = open_library("structures")
    pointer, integer, threads = ctypes.c_void_p, ctypes.c_int64, ctypes.c_int
    kind, sizes, start = ctypes.c_int, [integer] * 3, ctypes.POINTER(_Start)
    limits = [ctypes.c_double, integer, integer]
    signatures = {
        "solve": [kind, *[pointer] * 2, *sizes, *[pointer] * 2, start, *limits, *[pointer] * 2, threads],
        "measure": [pointer] * 2,
        "write": [pointer, integer, *[pointer] * 8],
        "release": [pointer],
        "overlaps": [*[pointer] * 3, *sizes, pointer, threads],
        "basis": [*[pointer] * 7, *sizes, integer, pointer, threads],
        "relax": [*[pointer] * 2, *sizes, ctypes.c_int, *[pointer] * 3, threads],
    }
    results = {"solve": pointer, "overlaps": ctypes.c_int, "basis": ctypes.c_int, "relax": ctypes.c_int}
    for name, arguments in signatures.items():
        function = getattr(entries, f"omegamax_structures_{name}")
        function.argtypes, function.restype = arguments, results.get(name)
    return entries


class PackedSet(ActiveSet):
    """An active set that keeps its structures as lists of their ones.

    Tensors of 0 and 1 are far larger; they are made when somebody asks for ``unary`` or ``additional``. A search that
    starts from here, and whoever is content with what the methods below compute, does without.

    The lists are numpy's: tensors that are made, or only looked at, inside a transform of torch.func belong to that.
    """

    def __init__(self, family: tuple, sizes: tuple[int, int], lists: list[np.ndarray], rest: list[Tensor]):
        self.family, self.sizes = family, sizes  # kind, its sizes and graph; n and m
        self.ones, self.ones_count, self.extras, self.extras_count = lists
        self.weights, self.count, self.iterations, self.residual = rest[:4]
        self.marginals, self.additional_marginals = rest[4:]  # [B, n], [B, m]; NaN in rows whose scores were
        self.cut: tuple | None = None  # the problem, where there were too many structures to find all that tie

    def span_face(self) -> PackedSet:
        if self.cut is None:
            return self
        scores, additional, kind, sizes, graph, tol, max_iter = self.cut
        limits = tol, max_iter, sum(self.sizes) + 2
        with DisableTransforms():  # memory is what the search works on, not what a transform makes of it
            return active_set(scores, additional, kind, sizes, graph, self, *limits)

    @functools.cached_property
    def unary(self) -> Tensor:  # type: ignore[override]
        return _expand(self.ones, self.ones_count, self.sizes[0])

    @functools.cached_property
    def additional(self) -> Tensor:  # type: ignore[override]
        return _expand(self.extras, self.extras_count, self.sizes[1])

    @functools.cached_property
    def overlaps(self) -> Tensor:
        """Count the ones that two structures share: ``M^T M [B, A, A]``."""
        rows, width = self.weights.shape
        out = np.empty((rows, width, width))
        lists = (self.ones, self.ones_count, _begins(self.ones_count))
        pointers, sizes = (a.ctypes.data for a in lists), (rows, width, self.sizes[0])
        if not load_entries().omegamax_structures_overlaps(*pointers, *sizes, out.ctypes.data, get_num_threads()):
            raise MemoryError(f"active_set: no memory for the overlaps of {rows} rows of {width} structures")
        return torch.from_numpy(out)

    def face_basis(self) -> Tensor:
        rows, width = self.weights.shape
        out = self.weights.new_zeros(rows, max(width - 1, 0), sum(self.sizes))
        lists = [
            (a, count, _begins(count)) for a, count in ((self.ones, self.ones_count), (self.extras, self.extras_count))
        ]
        pointers = [a.ctypes.data for given in lists for a in given]
        if out.numel() and not load_entries().omegamax_structures_basis(
            *pointers, self.count.data_ptr(), rows, width, *self.sizes, out.data_ptr(), get_num_threads()
        ):
            raise MemoryError(f"active_set: no memory for the faces of {rows} rows of {width} structures")
        return out

    def totals(self, scores: Tensor, additional: Tensor | None = None) -> Tensor:
        """Compute what each structure scores, ``M^T scores + N^T additional [B, A]``. Differentiable."""
        out = self.weights.new_zeros(self.weights.numel())
        for which, given in enumerate((scores, additional)):
            if given is not None:
                slots, positions = self._positions[which]
                out = out.index_add(0, slots, given.reshape(-1)[positions])
        return out.view(self.weights.shape)

    def mixture(self, weights: Tensor) -> tuple[Tensor, Tensor]:
        """Compute ``M weights [B, n]`` and ``N weights [B, m]``. Differentiable."""
        rows, flat = len(self.weights), weights.reshape(-1)
        unary, additional = (
            flat.new_zeros(rows * size).index_add(0, positions, flat[slots]).view(rows, size)
            for size, (slots, positions) in zip(self.sizes, self._positions, strict=True)
        )
        return unary, additional

    @functools.cached_property
    def _positions(self) -> tuple[tuple[Tensor, Tensor], tuple[Tensor, Tensor]]:
        """Return for each one, unary and additional, its structure in [B, A] and its position in its row, both flat."""
        n, m = self.sizes
        return _positions(self.ones, self.ones_count, n), _positions(self.extras, self.extras_count, m)


def active_set(
    scores: Tensor,
    additional: Tensor,
    kind: str,
    sizes: tuple[int, ...],
    graph: Tensor | None,
    start: ActiveSet | None,
    tol: float,
    max_iter: int,
    max_tied: int = MAX_TIED,  # only derivatives need more structures: see PackedSet.span_face
) -> PackedSet:
    """Search like :func:`omegamax.kernels.structures.reference.active_set`."""
    scores, additional = make_dense(scores), make_dense(additional)
    edges = None if graph is None else make_dense(graph)
    (rows, n), m = scores.shape, additional.shape[1]
    if scores.dtype != torch.float64 or additional.dtype != torch.float64 or len(additional) != rows:
        raise ValueError(
            f"active_set: scores and additional must be float64 and as many rows, got {scores.dtype} "
            f"{tuple(scores.shape)} and {additional.dtype} {tuple(additional.shape)}"
        )
    _check_sizes(kind, sizes, n, m, edges)
    family = (kind, sizes, None if edges is None else edges.numpy().tobytes())
    marginals = torch.empty_like(scores), torch.empty_like(additional)
    begin, held = _pack(start, family, rows, n)
    entries, threads = load_entries(), get_num_threads()
    handle = entries.omegamax_structures_solve(
        KINDS.index(kind),
        *(scores.data_ptr(), additional.data_ptr(), rows, n, m),
        *((ctypes.c_int64 * 3)(*sizes), None if edges is None else edges.data_ptr()),
        *(None if begin is None else ctypes.byref(begin), tol, max_iter, max_tied),
        *(marginals[0].data_ptr(), marginals[1].data_ptr(), threads),
    )
    del held  # until here, what `begin` points to
    if handle is None:
        raise MemoryError(f"active_set: no memory for the structures of {rows} rows of {kind}, sizes {sizes}")
    try:
        room = (ctypes.c_int64 * 3)()
        entries.omegamax_structures_measure(handle, room)
        width, ones, extras = room
        lists = [np.empty(s, np.int32) for s in (ones, (rows, width), extras, (rows, width))]
        count, iterations = (torch.empty(rows, dtype=torch.int64) for _ in range(2))
        rest = [scores.new_empty(rows, width), count, iterations, scores.new_empty(rows)]
        pointers = [*(a.ctypes.data for a in lists), *(t.data_ptr() for t in rest)]
        entries.omegamax_structures_write(handle, width, *pointers)
    finally:
        entries.omegamax_structures_release(handle)
    found = PackedSet(family, (n, m), lists, [*rest, *marginals])
    if rows and int(count.max()) >= max_tied:
        found.cut = (scores, additional, kind, sizes, graph, tol, max_iter)
    return found


def _pack(start: ActiveSet | None, family: tuple, rows: int, n: int) -> tuple[_Start | None, tuple]:
    """Return a start as the library takes it, and what it points to, which must outlive it."""
    if start is None:
        return None, ()
    if isinstance(start, PackedSet) and start.sizes[0] == n and len(start.count) == rows:
        ones, ones_count, trusted = start.ones, start.ones_count, start.family == family
    else:
        if start.unary.shape != (rows, start.weights.shape[1], n) or start.count.shape != (rows,):
            raise ValueError(
                f"active_set: start has structures of shape {tuple(start.unary.shape)}, which do not fit scores "
                f"of shape {(rows, n)}"
            )
        there = start.unary.numpy() != 0
        ones, ones_count, trusted = there.nonzero()[2].astype(np.int32), there.sum(-1, dtype=np.int32), False
    lists, tensors = (ones, ones_count, _begins(ones_count)), (make_dense(start.weights), make_dense(start.count))
    one, count, begin = (a.ctypes.data for a in lists)
    begins = _Start(one, count, *(t.data_ptr() for t in tensors), begin, start.weights.shape[1], trusted)
    return begins, (*lists, *tensors)


def _begins(ones_count: np.ndarray) -> np.ndarray:
    """Return where the ones of each row begin in the list of all."""
    of_row = ones_count.sum(-1, dtype=np.int64)
    return of_row.cumsum() - of_row


def _positions(ones: np.ndarray, ones_count: np.ndarray, n: int) -> tuple[Tensor, Tensor]:
    """Return for each one its structure in ``[B, A]`` and its position in ``[B, n]``, both flat."""
    slots = np.arange(ones_count.size).repeat(ones_count.reshape(-1))
    return torch.from_numpy(slots), torch.from_numpy(slots // max(ones_count.shape[1], 1) * n + ones)


def _expand(ones: np.ndarray, ones_count: np.ndarray, n: int) -> Tensor:
    """Write lists of ones out as 0/1 ``[B, A, n]``."""
    out = np.zeros((*ones_count.shape, n))
    out.reshape(-1)[np.arange(ones_count.size).repeat(ones_count.reshape(-1)) * n + ones] = 1
    return torch.from_numpy(out)


def _check_sizes(kind: str, sizes: tuple[int, ...], n: int, m: int, edges: Tensor | None) -> None:
    """Check that the sizes agree: memory is read by them."""
    size, *rest = sizes
    extra, sound = 0, len(rest) == 1
    if kind in ("k_subsets", "sequential_k_subsets"):
        sound = n == size and len(rest) == 2 and rest[0] >= 0
        extra = max(n - 1, 0) if kind == "sequential_k_subsets" else 0
    elif kind == "sequence":
        sound = sound and n == size * rest[0]
        extra = (2 + (size - 1) * rest[0]) * rest[0] if sound else 0
    elif kind in ("arborescence", "projective"):
        sound = sound and n == size * size
    elif kind == "spanning_tree":
        sound = edges is not None and edges.shape == (2, n) and edges.dtype == torch.int64
        if edges is not None and sound and n:
            sound = 0 <= int(edges.min()) and int(edges.max()) < size
    else:
        raise ValueError(f"active_set: kind must be one of {', '.join(KINDS)}, got {kind!r}")
    if not sound or m not in (0, extra):
        shape = None if edges is None else tuple(edges.shape)
        raise ValueError(
            f"active_set: {n} scores, {m} additional and a graph of shape {shape} are not {kind} of {sizes}"
        )
