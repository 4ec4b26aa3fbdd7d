"""Fused entmax attention, and bounds of the scores in a cache in pages."""

from omegamax.kernels.attention.reference import PageBounds as PageBounds
from omegamax.kernels.attention.reference import encode_pages as encode_pages
from omegamax.kernels.attention.reference import find_floor as find_floor

OPS = {"reference": ("page_bounds",), "cpu": ("page_bounds",)}
