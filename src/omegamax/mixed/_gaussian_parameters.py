"""Location and covariance of a Gaussian vector, in every form in which they are given."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import check_floating, check_scale, check_vectors
from omegamax._numerics import working_dtype

# Axes of each parameter that are not of the batch.
TAILS = {"loc": 1, "scale": 1, "cov": 2, "scale_tril": 2, "cov_factor": 2, "cov_diag": 1}


def as_vector(who: str, loc: Tensor) -> Tensor:
    """Refuse what is not a floating tensor ``[*, K]``."""
    return check_vectors(who, "loc", loc, "K")


def broadcast(who: str, loc: Tensor, given: dict[str, Any]) -> dict[str, Tensor]:
    """Return the parameters in one dtype and with one batch shape."""
    size = loc.shape[-1]
    tensors: dict[str, Tensor] = {"loc": loc}
    for name, value in given.items():
        if name == "scale" and is_number(value):
            value = loc.new_full((1,), check_scale(who, "scale", value, loc))
        check_floating(who, name, value)
        if name == "scale" and value.dim() == 0:
            value = value.unsqueeze(0)
        tail = TAILS[name]
        wanted = {"cov_factor": (size, None), "cov": (size, size), "scale_tril": (size, size)}.get(name, (size,))
        fits = value.dim() >= tail and all(
            w is None or n in ((w,) if tail == 2 else (1, w)) for n, w in zip(value.shape[-tail:], wanted, strict=True)
        )
        if not fits:
            shape = ", ".join("r" if w is None else str(w) for w in wanted)
            raise ValueError(f"{who}: {name} must have shape [*, {shape}], got {tuple(value.shape)}")
        if tail == 1:
            value = value.expand(*value.shape[:-1], size)
        tensors[name] = value
    dtype = working_dtype(loc)
    for value in tensors.values():
        dtype = torch.promote_types(dtype, value.dtype)
    try:
        batch = torch.broadcast_shapes(*(v.shape[: -TAILS[n]] for n, v in tensors.items()))
    except RuntimeError:
        shapes = ", ".join(f"{n} {tuple(v.shape)}" for n, v in tensors.items())
        raise ValueError(f"{who}: the batch shapes must broadcast, got {shapes}") from None
    return {n: v.to(dtype).expand(batch + v.shape[-TAILS[n] :]) for n, v in tensors.items()}
