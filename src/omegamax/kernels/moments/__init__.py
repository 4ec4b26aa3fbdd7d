r"""Rows of weights made to sum to one, and the mean and the covariance of points under them, in one launch.

With :math:`c_l = x_l - m` what is written, and its gradient in the weights, are

.. math:: p_l = \frac{w_l}{W}, \quad m = \sum_l p_l x_l, \quad C = \sum_l p_l \, c_l c_l' + \mathrm{diag}(v), \qquad
          \bar w_l = \frac{h_l - \sum_k p_k h_k}{W}, \quad h_l = \bar p_l + \bar m \cdot c_l + c_l' \bar C c_l

A row whose sum W is 0, subnormal, infinite or NaN is lost: its weights are equal, and their gradient is 0.
:mod:`omegamax.nn` is the same in plain torch, for any number of dimensions and points that have a gradient.
"""

OPS = {"triton": ("moments", "moments_vjp")}
MOST_AXES = 4  # of the points: a tile holds the products of any two coordinates
