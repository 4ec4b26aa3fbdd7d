"""Attention from dense scores."""

from __future__ import annotations

from omegamax.compat.adasplash._attention import entmax_attention as entmax_attention
