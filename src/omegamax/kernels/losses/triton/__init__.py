"""Triton kernels of the entmax losses, and the functions that launch them."""
