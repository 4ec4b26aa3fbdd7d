"""Maps of rows onto the simplex, entmax and normmax, their derivatives, and the Tsallis entropy."""

from omegamax.kernels.rows.entmax_jacobian import alpha_vjp as alpha_vjp
from omegamax.kernels.rows.entmax_jacobian import entmax_in_alpha as entmax_in_alpha
from omegamax.kernels.rows.entmax_jacobian import entmax_vjp as entmax_vjp
from omegamax.kernels.rows.normmax_jacobian import norm as norm
from omegamax.kernels.rows.normmax_jacobian import normmax_in_alpha as normmax_in_alpha
from omegamax.kernels.rows.normmax_jacobian import normmax_vjp as normmax_vjp
from omegamax.kernels.rows.reference import MAX_STEPS as MAX_STEPS
from omegamax.kernels.rows.reference import deformed_exp as deformed_exp
from omegamax.kernels.rows.tsallis import power_sum as power_sum
from omegamax.kernels.rows.tsallis import squeeze_last as squeeze_last
from omegamax.kernels.rows.tsallis import tsallis as tsallis
from omegamax.kernels.rows.tsallis import tsallis_in_alpha as tsallis_in_alpha

_SUMS = ("power_sum", "tsallis", "tsallis_in_alpha")

OPS = {
    "reference": ("entmax", "normmax", "entmax_vjp", "normmax_vjp", "alpha_vjp", *_SUMS),
    "cpu": ("entmax", "normmax", "entmax_vjp", "normmax_vjp", "alpha_vjp", *_SUMS),
    "triton": ("entmax", "normmax", "entmax_vjp", "normmax_vjp", "alpha_vjp"),
}
