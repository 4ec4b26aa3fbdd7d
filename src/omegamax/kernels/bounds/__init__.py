"""Maps of rows onto the simplex cut by bounds: k-subsets, constrained sparsemax and constrained softmax."""

from omegamax.kernels.bounds.jacobians import box_simplex_vjp as box_simplex_vjp
from omegamax.kernels.bounds.jacobians import capped_softmax_vjp as capped_softmax_vjp
from omegamax.kernels.bounds.jacobians import centre as centre
from omegamax.kernels.bounds.jacobians import is_free as is_free
from omegamax.kernels.bounds.jacobians import k_subsets_vjp as k_subsets_vjp

_ALL = ("k_subsets", "k_subsets_vjp", "box_simplex", "box_simplex_vjp", "capped_softmax", "capped_softmax_vjp")
OPS = {"reference": _ALL, "cpu": _ALL, "triton": _ALL}
