"""Triton kernels of total variation on chains and images, and the functions that launch them."""
