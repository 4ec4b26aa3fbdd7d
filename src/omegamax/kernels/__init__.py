"""Solvers and their vector-Jacobian products: plain torch everywhere, compiled C++ on the CPU, Triton on GPUs.

Kernels take contiguous or strided scores, parameters with the rank of the scores, and the axis; they know nothing of
gradients or masks, and of half precision only where :func:`takes_half` says so.
"""

from omegamax.kernels._dispatch import backend as backend
from omegamax.kernels._dispatch import compiled as compiled
from omegamax.kernels._dispatch import solve as solve
from omegamax.kernels._dispatch import takes_half as takes_half
from omegamax.kernels._dispatch import wanted as wanted
