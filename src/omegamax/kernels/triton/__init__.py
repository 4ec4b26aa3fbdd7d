"""Kernels for GPUs, written in Triton: imported when a tensor on a GPU first needs one, never on other machines."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable

BOUNDS = ("k_subsets", "k_subsets_vjp", "box_simplex", "box_simplex_vjp", "capped_softmax", "capped_softmax_vjp")
OPS = ("entmax", "normmax", "entmax_vjp", "normmax_vjp", "alpha_vjp", "entmax_loss", "entmax_loss_vjp", *BOUNDS)
_FOUND = importlib.util.find_spec("triton") is not None  # known before anything is traced: compilers look for nothing


def available() -> bool:
    """Whether Triton is installed; torch for CUDA brings it."""
    return _FOUND


def load(op: str) -> Callable:
    """The kernel of this name."""
    from omegamax.kernels.triton import bounds, loss, rows

    return getattr(bounds if op in BOUNDS else loss if "_loss" in op else rows, op)
