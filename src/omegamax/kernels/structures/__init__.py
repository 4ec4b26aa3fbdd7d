"""SparseMAP: sparse distributions over structures, found by an active set or, for matchings, by Newton's method."""

from omegamax.kernels.structures.active_set_jacobian import ActiveSetJacobian as ActiveSetJacobian
from omegamax.kernels.structures.gaps import close_gaps as close_gaps
from omegamax.kernels.structures.matching import TransportPlan as TransportPlan
from omegamax.kernels.structures.matching_jacobian import MatchingJacobian as MatchingJacobian
from omegamax.kernels.structures.reference import TOLERANCE as TOLERANCE
from omegamax.kernels.structures.reference import ActiveSet as ActiveSet
from omegamax.kernels.structures.reference import iteration_limit as iteration_limit
from omegamax.kernels.structures.reference import search as search
from omegamax.kernels.structures.reference import warn_unless_converged as warn_unless_converged
from omegamax.kernels.structures.relaxation import solve_relaxation as solve_relaxation

_OPERATIONS = ("active_set", "matching", "matching_vjp")
OPS = {"reference": _OPERATIONS, "cpu": _OPERATIONS}
