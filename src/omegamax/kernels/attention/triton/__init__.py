"""Triton kernels of the fused attention, and the functions that launch them."""
