"""Triton kernels of the maps of rows, and the functions that launch them."""
