"""Checks of tensors given as arguments; each names the function, the argument, what is wanted and what was given."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, strided
from torch.compiler import is_compiling
from torch.nn import Parameter

from omegamax._arguments import is_number
from omegamax._numerics import working_dtype
from omegamax._torch_internals import dispatch_mode_count, in_jit_trace, in_transform, is_legacy_batched

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_scores(name: str, z: Tensor, dim: int) -> int:
    """Refuse what is not a floating tensor with at least one entry along ``dim``; return ``dim`` >= 0."""
    # check_floating first of all, written out: this runs in every call of a map.
    if not isinstance(z, Tensor) or z.dtype not in FLOATS or z.layout is not strided or z.is_nested:
        check_floating(name, "z", z)
    return check_dim(name, z, dim)


def check_floating(name: str, argument: str, value: Any, wanted: str | None = None) -> Tensor:
    """Refuse what is not a dense floating-point tensor of a dtype that torch computes with; return it.

    ``wanted`` says in words what it should be, where that is more than a floating-point tensor.
    """
    # What is as it should be first: this runs in every call.
    if isinstance(value, Tensor) and value.dtype in FLOATS and value.layout is strided and not value.is_nested:
        return value
    if wanted is not None and not (isinstance(value, Tensor) and value.is_floating_point()):
        raise TypeError(f"{name}: {argument} must be {wanted}, got {_dtype_or_type(value)}")
    if not isinstance(value, Tensor):
        raise TypeError(f"{name}: {argument} must be a torch.Tensor, got {type(value).__name__}")
    if value.dtype not in FLOATS and not value.is_floating_point():
        raise TypeError(f"{name}: {argument} must be a floating-point tensor, got dtype {value.dtype}")
    if value.is_nested:
        raise TypeError(
            f"{name}: {argument} must be a dense tensor, got a nested one; pad it (torch.nested.to_padded_tensor with "
            "-inf for scores) or go through its parts"
        )
    if value.layout is not torch.strided:
        raise TypeError(f"{name}: {argument} must be a dense tensor, got layout {value.layout}; see Tensor.to_dense")
    wanted = ", ".join(str(dtype).removeprefix("torch.") for dtype in FLOATS)
    raise TypeError(f"{name}: {argument} must have one of the dtypes {wanted}, got {value.dtype}")


def check_integers(name: str, argument: str, value: Any, wanted: str = "a tensor of integers") -> Tensor:
    """Refuse what is not a tensor of integers, in words ``wanted``; return it."""
    if not isinstance(value, Tensor) or value.is_floating_point() or value.is_complex() or value.dtype == torch.bool:
        raise TypeError(f"{name}: {argument} must be {wanted}, got {_dtype_or_type(value)}")
    return value


def check_bools(name: str, argument: str, value: Any, meaning: str) -> Tensor:
    """Refuse what is not a bool tensor, True of which has this ``meaning``; return it."""
    if not isinstance(value, Tensor) or value.dtype != torch.bool:
        raise TypeError(f"{name}: {argument} must be a bool tensor ({meaning}), got {_dtype_or_type(value)}")
    return value


def check_shape(name: str, argument: str, value: Tensor, *sizes: int | str, meaning: str = "") -> Tensor:
    """Refuse a tensor of another shape; return it.

    Args:
        sizes: of the axes: an int, or a letter for any size of at least one; a ``"*"`` in front is any batch.
        meaning: what the axes are, behind a comma.

    >>> check_shape("GridCNN", "image", torch.ones(2, 4, 5, 5), "B", 3, "H", "W")
    Traceback (most recent call last):
    ValueError: GridCNN: image must be [B, 3, H, W], got shape (2, 4, 5, 5)
    """
    own = sizes[1:] if sizes[:1] == ("*",) else sizes
    given = value.shape
    fits = len(given) >= len(own) if len(own) < len(sizes) else len(given) == len(own)
    if fits:
        for size, k in zip(own, given[len(given) - len(own) :], strict=True):
            if k == 0 if isinstance(size, str) else k != size:
                fits = False
    if not fits:
        listed = f"[{', '.join(map(str, sizes))}]{meaning and ', ' + meaning}"
        raise ValueError(f"{name}: {argument} must be {listed}, got shape {tuple(given)}")
    return value


def check_dense(name: str, argument: str, value: Tensor) -> None:
    """Refuse a parameter, of whatever numbers, that is sparse, nested or of a dtype that torch only stores."""
    if value.layout is not torch.strided or value.is_nested or value.is_floating_point():
        check_floating(name, argument, value)


def check_dim(name: str, z: Tensor, dim: int) -> int:
    """Refuse an axis that ``z`` does not have, or that is empty; return it counted from the front."""
    if not isinstance(dim, int):
        raise TypeError(f"{name}: dim must be an int, got {type(dim).__name__}")
    shape = z.shape or (1,)  # a scalar is a row of one
    rank = len(shape)
    if not -rank <= dim < rank:
        raise IndexError(f"{name}: dim={dim} is out of range for scores of shape {tuple(z.shape)}")
    if shape[dim] == 0:
        raise ValueError(f"{name}: z needs at least one entry along dim={dim % rank}, got shape {tuple(z.shape)}")
    return dim % rank


def check_mask(name: str, z: Tensor, mask: Tensor) -> None:
    """Refuse a mask that is not boolean or does not broadcast to ``z``."""
    check_bools(name, "mask", mask, "True keeps an entry")
    if mask.layout is not torch.strided or mask.is_nested:
        kind = "a nested one" if mask.is_nested else f"layout {mask.layout}"
        raise TypeError(f"{name}: mask must be a dense tensor, got {kind}")
    if not broadcasts(mask.shape, z.shape):
        raise ValueError(
            f"{name}: mask of shape {tuple(mask.shape)} does not broadcast to scores of shape {tuple(z.shape)}"
        )


def check_presence(name: str, argument: str, mask: Tensor, width: int) -> None:
    """Refuse what is not a bool tensor ``[*, width]``."""
    check_shape(name, argument, check_bools(name, argument, mask, "True keeps a value"), "*", width)


def check_points(name: str, argument: str, value: Tensor, n: int) -> None:
    """Refuse what is not a floating-point tensor ``[*, n]``."""
    check_floating(name, argument, value)
    if value.dim() == 0 or value.shape[-1] != n:  # asked first here: this runs wherever a function is evaluated
        check_shape(name, argument, value, "*", n)


def check_vectors(name: str, argument: str, value: Any, letter: str = "n") -> Tensor:
    """Refuse what is not a floating-point tensor ``[*, n]`` with n >= 1; return it."""
    check_floating(name, argument, value)
    if value.dim() == 0 or value.shape[-1] == 0:
        wanted = f"[*, {letter}] with {letter} >= 1"
        raise ValueError(f"{name}: {argument} must have shape {wanted}, got {tuple(value.shape)}")
    return value


def check_predictions(name: str, p: Any) -> None:
    """Refuse what are not probabilities ``[*, V]``."""
    check_vectors(name, "p", p, "V")
    if readable(p) and p.numel():
        low, high = p.min(), p.max()
        if not (bool(low >= 0) and bool(high <= 1 + 1e-2)):  # bfloat16 rounds by as much
            wanted = "probabilities, not scores or logarithms"
            raise ValueError(f"{name}: p must hold {wanted}, got values from {low.item():g} to {high.item():g}")


def check_matrices(name: str, argument: str, value: Tensor, wanted: str, rows: int | None = None) -> None:
    """Refuse what is not a floating-point tensor with two axes or more, ``rows`` long along the last but one."""
    check_floating(name, argument, value)
    if value.dim() < 2 or (rows is not None and value.shape[-2] != rows):
        raise ValueError(f"{name}: {argument} must be {wanted}, got shape {tuple(value.shape)}")


def check_batches(name: str, shapes: Mapping[str, Sequence[int]]) -> None:
    """Refuse batches, by the names of their arguments, that do not broadcast."""
    given = [tuple(s) for s in shapes.values() if len(s)]
    # Nearly always; what follows takes torch a tenth of a millisecond. A set would fix sizes that a compiler has left
    # open: it needs their values.
    if all(s == given[0] for s in given[1:]):
        return
    try:
        torch.broadcast_shapes(*given)
    except RuntimeError:
        listed = ", ".join(f"{k} {tuple(s)}" for k, s in shapes.items())
        raise ValueError(f"{name}: batches must broadcast, got {listed}") from None


def apply_mask(name: str, z: Tensor, mask: Tensor | None) -> Tensor:
    """Return the scores with ``-inf`` wherever ``mask`` is False."""
    if mask is None:
        return z
    check_mask(name, z, mask)
    return z.masked_fill(~mask, -math.inf)


def check_above(name: str, argument: str, value: float | Tensor, low: float) -> float | Tensor:
    """Refuse a parameter that is not > ``low``; return a tensor as it is, a number as a float.

    Reads a tensor's values only where that costs no device sync.
    """
    if type(value) is not float and isinstance(value, Tensor):
        check_dense(name, argument, value)
        if readable(value) and not bool((value > low).all()):
            least = value.min().item()
            raise ValueError(f"{name}: {argument} must be > {low:g} everywhere, got a minimum of {least:g}")
        return value
    if type(value) is not float and not is_number(value):
        raise TypeError(f"{name}: {argument} must be a float or a tensor, got {type(value).__name__}")
    if not value > low:
        raise ValueError(f"{name}: {argument} must be > {low:g}, got {value:g}")
    return float(value)


def check_scale(name: str, argument: str, value: float, like: Tensor) -> float:
    """Refuse a number that is not positive and finite in the dtype of ``like``; return it as a float."""
    bounds = torch.finfo(working_dtype(like))
    if not bounds.smallest_normal <= value <= bounds.max:
        given = f"{value:g}" if math.isinf(value) or not value > 0 else f"{value:g}, which {like.dtype} cannot hold"
        raise ValueError(f"{name}: {argument} must be > 0 and finite, got {given}")
    return float(value)


def check_symmetric(name: str, argument: str, matrix: Tensor) -> None:
    """Refuse matrices ``[*, n, n]`` that differ from their transposes by more than rounding, or a gradient check, does.

    Entries are measured by the roots of the diagonal entries beside them, so that the unit of a coordinate does not
    count; the tolerance of 1e-5 is that of torch's constraint. What is not finite is left to the checks of values.
    """
    if matrix.shape[-1] == 1 or not matrix.numel() or not is_plain(matrix):
        return
    matrix = matrix.detach()
    unit = matrix.diagonal(dim1=-2, dim2=-1).abs().sqrt()
    size = (unit.unsqueeze(-1) * unit.unsqueeze(-2)).maximum(matrix.abs())
    bad = (matrix - matrix.mT).abs() > 1e-5 * size
    if bool(bad.any()):
        row, column = bad.nonzero()[0, -2:].tolist()
        where = bad[..., row, column]
        here, there = matrix[..., row, column][where], matrix[..., column, row][where]
        raise ValueError(
            f"{name}: {argument} must be symmetric matrices [*, n, n], got {here[0].item():g} at [{row}, {column}] and "
            f"{there[0].item():g} at [{column}, {row}]"
        )


def readable(t: Tensor) -> bool:
    """Tell whether values can be read here and now: on the CPU, not traced, not mapped over."""
    return t.is_cpu and is_plain(t)


# Types that are no tensor's: asking isinstance takes longer.
SCALARS = frozenset({float, int, bool, type(None)})


def is_plain(*tensors: Tensor | float | None) -> bool:
    """Tell whether these are ordinary tensors with memory, outside any tracing or vmap; scalars count as such.

    Runs in every call of a map: half a microsecond.
    """
    if is_compiling() or in_transform() or dispatch_mode_count() or in_jit_trace():
        return False
    for t in tensors:
        kind = type(t)
        # Batched gradients (is_grads_batched) wrap by torch's older vmap, which functorch does not know of.
        if kind is Tensor or kind is Parameter:
            if t.is_meta or is_legacy_batched(t):  # type: ignore[union-attr, arg-type]
                return False
        elif kind not in SCALARS and isinstance(t, Tensor):
            return False
    return True


def _dtype_or_type(value: Any) -> str:
    """Say what was given in place of some kind of tensor."""
    return str(value.dtype) if isinstance(value, Tensor) else type(value).__name__


def broadcast_batches(*shapes: Sequence[int]) -> torch.Size:
    """Return what :func:`torch.broadcast_shapes` does, which takes a tenth of a millisecond, or the one there is.

    >>> broadcast_batches((2, 3), (), (2, 3)), broadcast_batches((2, 1), (3,))
    (torch.Size([2, 3]), torch.Size([2, 3]))
    """
    longest: Sequence[int] = ()
    for shape in shapes:
        if len(longest) == 0:
            longest = shape
        elif len(shape) and shape != longest:
            return torch.broadcast_shapes(*shapes)
    return torch.Size(longest)


def broadcasts(shape: torch.Size, target: torch.Size) -> bool:
    """Tell whether ``shape`` expands to ``target`` (which itself stays as it is)."""
    if len(shape) > len(target):
        return False
    ahead = len(target) - len(shape)
    return all(size in (1, target[ahead + i]) for i, size in enumerate(shape))
