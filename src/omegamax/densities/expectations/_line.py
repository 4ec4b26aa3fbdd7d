"""Gaussian basis functions over the line in one operation: value and first derivatives come out of the same sums.

Autograd would record some sixty operations here, and as many on the way back: this is one kernel on a GPU, and one on
the way back; in torch it is some thirty, and three. Second derivatives are those of the plain form.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._checks import is_plain
from omegamax._first_order import FirstOrder
from omegamax.densities.expectations._windows import gauss_legendre

_COUNT = 48  # nodes from one end of a basis function to the other

# From location, scale and the basis functions to expectations and their derivatives, [*, 3, J].
Expect = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]


def expect_under_gaussian(loc: Tensor, scale: Tensor, centers: Tensor, variance: Tensor) -> Tensor:
    """Return the expectation under the Gaussian, and its derivatives in location and scale Sigma, ``[*, 3, J]``."""
    return kernels.solve("gaussian_on_line", loc, scale, centers, variance)


def expect_under_parabola(loc: Tensor, root: Tensor, centers: Tensor, variance: Tensor) -> Tensor:
    """Return the expectation under the truncated parabola, of scale Sigma = ``root ** 2``, and the same derivatives."""
    return kernels.solve("parabola_on_line", loc, root, centers, variance, *_nodes(loc.device))


@cache
def _nodes(device: torch.device) -> tuple[Tensor, Tensor]:
    """Return nodes and weights over (0, 1), ``[2, Q]``, and -1 and 1, the ends of the support.

    They are kept on each device: a copy would wait for all that a GPU has to do.
    """
    with torch.inference_mode(False):
        nodes = torch.stack(gauss_legendre(_COUNT))
        return nodes.to(device), torch.tensor([-1.0, 1.0], dtype=nodes.dtype).to(device)


def expect_on_line(
    expect: Expect,
    plainly: Callable[[Tensor, Tensor], Tensor],
    loc: Tensor,
    scale: Tensor,
    centers: Tensor,
    variance: Tensor,
) -> Tensor:
    """Return ``E_p[psi_j]``, ``[*, J]``, as one operation.

    Args:
        expect: one of the two above.
        plainly: the same of location and scale, in operations that autograd differentiates.
        loc, scale: ``[*, 1]``.
        centers, variance: of the basis functions, ``[J]``, without gradients.
    """
    if loc.shape != scale.shape:
        loc, scale = torch.broadcast_tensors(loc, scale)
    return FirstOrder.apply(partial(_compute, expect, centers, variance), _pull_back, plainly, loc, scale)


def _compute(
    expect: Expect, centers: Tensor, variance: Tensor, loc: Tensor, scale: Tensor
) -> tuple[tuple[Tensor], tuple[Tensor, Tensor]]:
    both = expect(loc, scale, centers, variance)
    # A copy, which a user may change in place: of the rest the way back is made.
    return (both[..., 0, :].clone(),), (both, scale)


def _pull_back(both: Tensor, scale: Tensor, g: Tensor) -> tuple[Tensor, Tensor]:
    # Batched gradients have no memory that a kernel could read.
    pull_back: Any = partial(kernels.solve, "line_vjp") if is_plain(g) else kernels.load("line_vjp", "reference")
    of_loc, of_scale = pull_back(both, g)
    return of_loc, of_scale.to(scale.dtype)
