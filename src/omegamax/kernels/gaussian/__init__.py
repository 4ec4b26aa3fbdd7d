"""Expectations of Gaussian functions under Gaussians over the plane, with all first derivatives, and the way back."""

OPS = {"reference": ("gaussian_in_plane", "plane_vjp"), "triton": ("gaussian_in_plane", "plane_vjp")}
