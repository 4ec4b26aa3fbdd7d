"""Isotonic regression, and the pooling of equal scores that it makes of OSCAR's penalty."""

from omegamax.kernels.isotonic.reference import isotonic as isotonic
from omegamax.kernels.isotonic.reference import pool_mean as pool_mean
from omegamax.kernels.isotonic.reference import pool_rank as pool_rank

OPS = {"reference": ("oscar",), "cpu": ("oscar",), "triton": ("oscar",)}
