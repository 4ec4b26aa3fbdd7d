"""Expectations of Gaussian functions under Gaussians over the plane, with all first derivatives."""

OPS = {"reference": ("gaussian_in_plane",), "triton": ("gaussian_in_plane",)}
