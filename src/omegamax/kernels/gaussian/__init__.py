"""Expectations of Gaussian functions over the line and the plane, with all first derivatives, and the way back."""

_LINE = ("gaussian_on_line", "parabola_on_line", "line_vjp")
_PLANE = ("gaussian_in_plane", "plane_vjp")
OPS = {"reference": (*_LINE, *_PLANE), "triton": (*_LINE, *_PLANE)}
