"""The contour integral behind expectations of Gaussians under compact densities."""

from omegamax.kernels.contour.plane import Form as Form
from omegamax.kernels.contour.reference import count_results as count_results
from omegamax.kernels.contour.reference import log_gamma_scale as log_gamma_scale
from omegamax.kernels.contour.reference import log_one_plus as log_one_plus
from omegamax.kernels.contour.reference import place_nodes as place_nodes
from omegamax.kernels.contour.reference import stirling as stirling

OPS = {
    "reference": ("contour", "contour_in_plane"),
    "cpu": ("contour", "contour_in_plane"),
    "triton": ("contour_in_plane",),
}
