"""From weights of points in the plane to expectations of Gaussian functions, and back, in one launch each.

Moments are those of :mod:`omegamax.kernels.moments`, expectations under a density with these moments those of
:mod:`omegamax.kernels.gaussian` and :mod:`omegamax.kernels.contour`. Of a row that is lost they are 0, or NaN where a
weight is not finite: its density is that of equal weights, but there is nothing to be expected under it.
"""

OPS = {"triton": ("gaussian_of_weights", "contour_of_weights", "weights_vjp")}
