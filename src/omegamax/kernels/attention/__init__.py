"""Fused entmax attention."""
