"""Triton kernels of the maps with bounds, and the functions that launch them."""
