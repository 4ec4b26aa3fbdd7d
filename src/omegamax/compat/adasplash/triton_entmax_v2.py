"""Rows by the second kernel's interface."""

from __future__ import annotations

from omegamax.compat.adasplash._callable import make_callable
from omegamax.compat.adasplash._rows import triton_entmax as triton_entmax
from omegamax.compat.adasplash._rows import triton_entmax15 as triton_entmax15
from omegamax.compat.adasplash._rows import triton_sparsemax as triton_sparsemax

make_callable(__name__, triton_entmax)
