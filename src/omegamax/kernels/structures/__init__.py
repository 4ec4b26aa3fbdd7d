"""SparseMAP: sparse distributions over structures, found by an active set or, for matchings, by Newton's method."""

from omegamax.kernels.structures._hull import cholesky as cholesky
from omegamax.kernels.structures._hull import overlaps as overlaps
from omegamax.kernels.structures.reference import TOLERANCE as TOLERANCE
from omegamax.kernels.structures.reference import ActiveSet as ActiveSet
from omegamax.kernels.structures.reference import iteration_limit as iteration_limit
from omegamax.kernels.structures.reference import search as search

OPS = {"reference": ("active_set",), "cpu": ("active_set",)}
