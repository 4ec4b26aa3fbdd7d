"""Solvers and their vector-Jacobian products: plain torch everywhere, compiled C++ on the CPU, Triton on GPUs.

Each package holds an operation, with a module for each backend that implements it. Kernels take contiguous or strided
scores, parameters with the rank of the scores, and the axis; they know nothing of gradients or masks, and of half
precision only where :func:`takes_half` says so.
"""

from omegamax.kernels._dispatch import TABLE as TABLE
from omegamax.kernels._dispatch import backend as backend
from omegamax.kernels._dispatch import current_backend as current_backend
from omegamax.kernels._dispatch import is_compiled as is_compiled
from omegamax.kernels._dispatch import is_solved_on_host as is_solved_on_host
from omegamax.kernels._dispatch import load as load
from omegamax.kernels._dispatch import solve as solve
from omegamax.kernels._dispatch import solve_where_compiled as solve_where_compiled
from omegamax.kernels._dispatch import takes_half as takes_half
from omegamax.kernels._library import name_build as name_build
from omegamax.kernels.triton import kept_launches as kept_launches
