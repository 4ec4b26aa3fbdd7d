"""The numbers of a density: where it is, how wide, and of how many components."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.densities import Density, Mixture

PLACE = 6  # numbers of any density over an image


def count_numbers(components: int | None) -> int:
    """Return how many numbers :func:`density_numbers` gives; ``components`` is the most of a mixture, None for none."""
    return PLACE if components is None else PLACE + 1 + components


def density_numbers(density: Density, components: int | None = None) -> Tensor:
    r"""Return what there is to know of densities over images, of batch ``[B]``, as numbers ``[B, F]``.

    .. math:: \mu_x, \; \mu_y, \; \log \sigma_x, \; \log \sigma_y, \; \rho, \;
              \log\bigl(\pi \sigma_x \sigma_y \sqrt{1 - \rho^2}\bigr)

    with mean, standard deviations and correlation :math:`\rho`; the last is the logarithm of the area of the ellipse
    of one standard deviation, which differs from that of the support, where there is one, by a constant. Of a mixture
    they are followed by the number of components and the mixing weights, the largest first, up to ``components``. An
    average of features does not tell how many things it is of; these may.

    Differentiable; the number of components has no gradient.

        >>> from omegamax.densities import Gaussian
        >>> density_numbers(Gaussian(torch.tensor([[0.5, 0.25]]), torch.tensor([[[0.04, 0.0], [0.0, 0.01]]])))
        tensor([[ 0.5000,  0.2500, -1.6094, -2.3026,  0.0000, -2.7673]])
    """
    mean, covariance = density.mean, density.covariance_matrix
    dtype = working_dtype(mean)
    mean, covariance = mean.to(dtype), covariance.to(dtype)
    least = torch.finfo(dtype).tiny ** 0.5
    xx, yy = (covariance[..., i, i].clamp(min=least) for i in (0, 1))
    correlation = covariance[..., 0, 1] / (xx * yy).sqrt()
    # A line of no width would have the area 0; rounding tells it from none only so far.
    flat = (1 - correlation.square()).clamp(min=torch.finfo(dtype).eps)
    area = math.log(math.pi) + (xx.log() + yy.log() + flat.log()) / 2
    numbers = [mean, torch.stack([xx.log() / 2, yy.log() / 2, correlation, area], -1)]
    if components is not None:
        if not isinstance(density, Mixture):
            raise TypeError(f"density_numbers: density must be a Mixture of components, got {type(density).__name__}")
        weights = density.weights.to(dtype).sort(-1, descending=True).values
        if weights.shape[-1] > components:
            given = weights.shape[-1]
            raise ValueError(f"density_numbers: density must have at most {components} components, got {given}")
        weights = F.pad(weights, (0, components - weights.shape[-1]))
        numbers += [density.component_count.unsqueeze(-1).to(dtype), weights]
    return torch.cat(numbers, -1)
