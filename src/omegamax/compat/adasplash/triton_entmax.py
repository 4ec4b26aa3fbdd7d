"""Rows by the first kernel's interface; called as a module, by the second's."""

from __future__ import annotations

from omegamax.compat.adasplash._callable import make_callable
from omegamax.compat.adasplash._rows import triton_entmax_v1 as triton_entmax
from omegamax.compat.adasplash._rows import triton_entmax_v2

__all__ = ["triton_entmax"]

make_callable(__name__, triton_entmax_v2)
