"""Solvers and their vector-Jacobian products: plain torch everywhere, compiled C++ on the CPU.

Kernels take contiguous or strided scores, parameters with the rank of the scores, and the axis; they know nothing of
gradients, masks or half precision.
"""

from omegamax.kernels._dispatch import backend as backend
from omegamax.kernels._dispatch import compiled as compiled
from omegamax.kernels._dispatch import solve as solve
