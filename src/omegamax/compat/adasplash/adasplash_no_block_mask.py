"""Attention by the first kernel's interface."""

from __future__ import annotations

from omegamax.compat.adasplash._attention import adasplash_v1 as sparse_attn
from omegamax.compat.adasplash._callable import make_callable

make_callable(__name__, sparse_attn)
