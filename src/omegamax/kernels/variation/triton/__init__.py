"""Triton kernels of total variation on chains, and the functions that launch them."""
