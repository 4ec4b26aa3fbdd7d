r"""All iterations of expectation-maximisation at once, for Gaussians on a line or in the plane, and their gradient.

With the features ``f_l = (1, x_l, x_l x_l')`` of a point, one iteration takes K components to sums over the points and
these to K components again:

.. math:: s_{lk} = \theta_k \cdot f_l = \log \pi_k + \log N(x_l; \mu_k, C_k), \qquad
          \gamma_{lk} = \frac{e^{s_{lk}}}{\sum_j e^{s_{lj}}}, \qquad
          S_k = \sum_l w_l \gamma_{lk} f_l \;\mapsto\; (\pi_k, \mu_k, C_k)

and the gradient goes back from ``S`` to the weights and to the components before by

.. math:: h_{lk} = \bar S_k \cdot f_l, \qquad \bar w_l \mathrel{+}= \sum_k \gamma_{lk} h_{lk}, \qquad
          \bar\theta_k = \sum_l w_l \gamma_{lk} \Bigl( h_{lk} - \sum_j \gamma_{lj} h_{lj} \Bigr) f_l

What is in between belongs to one component alone: its moments, held at the floor, and the coefficients of its score.
Covariances are lower triangles, row by row, and all is float64. A state ``[K, F]`` is a weight, a mean and a covariance
for each component, F = 1 + n + n (n + 1) / 2. :mod:`omegamax.mixtures` is the same in plain torch, for any number of
dimensions and any other components and responsibilities.
"""

OPS = {"cpu": ("em", "em_vjp"), "triton": ("fit_mixtures", "fit_mixtures_vjp", "choose_start")}
