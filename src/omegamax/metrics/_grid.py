"""A density seen on the cells of a grid."""

from __future__ import annotations

from torch import Tensor
from torch.distributions import Distribution

from omegamax import functional
from omegamax._arguments import check_sizes, check_type
from omegamax.basis import grid_positions


def on_grid(density: Distribution, size: int | tuple[int, ...], *, samples: int = 1) -> Tensor:
    r"""Return the map of a density: its share of each cell of a regular grid over :math:`[0, 1]^n`; ``[*, H, W]``.

    .. math:: P_c = \frac{\sum_{t \in T_c} p(t)}{\sum_{c'} \sum_{t \in T_{c'}} p(t)}

    With one sample :math:`T_c` is the centre of the cell, :func:`~omegamax.basis.grid_positions`; with s samples the
    centres of its :math:`s^n` parts, so that the sum approaches the integral over the cell and a density narrower than
    a cell is seen wherever it lies. Logarithms are compared, not densities: a narrow Gaussian does not underflow, its
    share goes to the nearest point. What lies outside the unit cube is not counted. A density with a compact support
    that holds none of the points has a map of zeros: take more samples.

    Differentiable in the parameters of the density; where it is zero, no gradient comes back.

    Args:
        density: any of :mod:`omegamax.densities`, a mixture, or a distribution of torch over vectors; batch ``[*]``.
        size: cells along each axis, ``(H, W)``; an int counts for every axis.
        samples: points for each cell along each axis.

        >>> import torch
        >>> from omegamax.densities import TruncatedParaboloid
        >>> density = TruncatedParaboloid(torch.tensor([0.7, 0.5]), 0.002)
        >>> on_grid(density, (3, 4))
        tensor([[0.0000, 0.0000, 0.0000, 0.0000],
                [0.0000, 0.0000, 0.6933, 0.3067],
                [0.0000, 0.0000, 0.0000, 0.0000]])
        >>> on_grid(density, (3, 4), samples=8)
        tensor([[0.0000, 0.0000, 0.0206, 0.0055],
                [0.0000, 0.0023, 0.6409, 0.3045],
                [0.0000, 0.0000, 0.0206, 0.0055]])
    """
    name = "on_grid"
    check_type(name, "density", density, Distribution, "a density over vectors")
    if type(samples) is not int:
        raise TypeError(f"{name}: samples must be an int, got {samples!r}")
    if samples < 1:
        raise ValueError(f"{name}: samples must be at least 1, got {samples}")
    n = dimension(name, density)
    sizes = check_sizes(name, "size", size, n)
    mean = density.mean  # has the dtype and the device
    points = grid_positions(tuple(k * samples for k in sizes), dtype=mean.dtype, device=mean.device)
    points = points.reshape(-1, *(1 for _ in density.batch_shape), n)
    p = functional.softmax(density.log_prob(points).movedim(0, -1), -1)
    p = p.unflatten(-1, [part for k in sizes for part in (k, samples)])
    return p.sum(tuple(range(-2 * n + 1, 0, 2)))


def dimension(name: str, density: Distribution) -> int:
    """Return n of a density over n-vectors."""
    if len(density.event_shape) != 1:
        raise ValueError(f"{name}: densities must be over vectors, got event shape {tuple(density.event_shape)}")
    return density.event_shape[0]
