r"""Gaussian quadrature for the radius of a beta-Gaussian, differentiable in alpha and smooth through alpha = 1.

Half the squared distance from the centre, ``R``, has a density proportional to :math:`R^a (1 - eR)_+^{1/e}` with
``a = n/2 - 1`` and ``e = alpha - 1``: Jacobi's weight above alpha = 1, Laguerre's at it. Scaled in this way, one
three-term recurrence serves both, and its coefficients are rational functions of ``e`` without a pole at 0.

The nodes are the eigenvalues of the matrix of that recurrence, the weights the squares of the first entries of its
eigenvectors. A rule of N nodes is exact for polynomials of degree 2N - 1 *at every alpha*, and therefore so are its
derivatives in alpha; nodes held fixed while their weights follow alpha would meet a logarithm at the end of the range.

Reference: Golub and Welsch (Math. Comp. 1969).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

import torch
from torch import Tensor

from omegamax._checks import is_plain

Scalar = float | Tensor
Function = TypeVar("Function", bound=Callable)


def trace_as_constant(function: Function) -> Function:
    """Mark a function as :func:`torch.compiler.assume_constant_result` does, without loading the compiler.

    Loading it takes a second.
    """
    function._dynamo_marked_constant = True  # type: ignore[attr-defined]
    return function


def gauss_jacobi(order: int, a: Scalar, b: Scalar) -> tuple[Tensor, Tensor]:
    r"""Return nodes in (-1, 1) and weights for :math:`(1 - x)^a (1 + x)^b`, ``a, b > -1``; the weights sum to one.

    Float exponents give ``[order]``, from a cache; tensors ``[*, order]``, differentiable. All in float64.

    >>> x, w = gauss_jacobi(2, 0.0, 0.0)
    >>> 3 * x**2, w
    (tensor([1., 1.], dtype=torch.float64), tensor([0.5000, 0.5000], dtype=torch.float64))
    """
    nodes, weights = gauss_tsallis(order, b, 1.0, a)
    return 2 * nodes - 1, weights


def gauss_laguerre(order: int, a: Scalar) -> tuple[Tensor, Tensor]:
    r"""Return nodes > 0 and weights for :math:`x^a e^{-x}`, ``a > -1``; the weights sum to one. Shapes as in Jacobi's.

    >>> x, w = gauss_laguerre(2, 0.0)
    >>> (w * x**3).sum().round(decimals=9)
    tensor(6., dtype=torch.float64)
    """
    return gauss_tsallis(order, a, 0.0, 1.0)


def gauss_tsallis(order: int, a: Scalar, e: Scalar, rate: Scalar = 1.0) -> tuple[Tensor, Tensor]:
    r"""Return nodes and weights for :math:`x^a (1 - ex)^{\text{rate}/e}`, at e = 0 :math:`x^a e^{-\text{rate}\,x}`.

    For e > 0 the range is (0, 1/e), and Jacobi's exponent ``rate / e > -1``. For e < 0 the range is the half-line, on
    which ``order`` nodes exist only for ``-e`` well below ``rate / (2 order)``.

    Returns:
        ``[order]`` for floats, otherwise ``[*, order]``, in ascending order; float64.
    """
    if order < 1:
        raise ValueError(f"gauss_tsallis: order must be at least 1, got {order}")
    floats = [v for v in (a, e, rate) if not isinstance(v, Tensor)]
    if len(floats) == 3 and is_plain():
        return _make_cached_rule(order, *map(float, floats))
    device = next((v.device for v in (a, e, rate) if isinstance(v, Tensor)), None)
    return _make_rule(order, *(torch.as_tensor(v, dtype=torch.float64, device=device) for v in (a, e, rate)))


@lru_cache(maxsize=256)
def _make_cached_rule(order: int, a: float, e: float, rate: float) -> tuple[Tensor, Tensor]:
    # A cache that is filled while gradients or inference mode are on must be of use when they are not.
    with torch.inference_mode(False), torch.no_grad():
        return _make_rule(order, *(torch.tensor(v, dtype=torch.float64, device="cpu") for v in (a, e, rate)))


def _make_rule(order: int, a: Tensor, e: Tensor, rate: Tensor) -> tuple[Tensor, Tensor]:
    a, e, rate = (t.unsqueeze(-1) for t in torch.broadcast_tensors(a, e, rate))
    k = torch.arange(1, order, dtype=torch.float64, device=a.device)
    total = rate + e * a
    # The matrix is B B' with B bidiagonal, diag(B)^2 = up and subdiag(B)^2 = down: sums of positive terms only.
    rest = (k + a + 1) * ((k + 1) * e + total) / (((2 * k + 1) * e + total) * ((2 * k + 2) * e + total))
    up = torch.cat([(a + 1) / (2 * e + total), rest], -1)
    down = k * (k * e + rate) / ((2 * k * e + total) * ((2 * k + 1) * e + total))
    diagonal = up + torch.nn.functional.pad(down, (1, 0))
    side = (up[..., :-1] * down).sqrt()
    matrix = torch.diag_embed(diagonal) + torch.diag_embed(side, 1) + torch.diag_embed(side, -1)
    nodes, vectors = torch.linalg.eigh(matrix)
    return nodes, vectors[..., 0, :].square()


def radial_nodes(order: int, n: int, e: Scalar) -> tuple[Tensor, Tensor]:
    r"""Return radii and weights of the standard beta-Gaussian in n dimensions.

    Its density is :math:`(1 - e |z|^2 / 2)_+^{1/e}`.

    ``E[f(|z|)] = sum_i w_i f(r_i)``, exact for e >= 0 if f is a polynomial of degree ``2 order - 1`` in the square.
    For e < 0, Student's t, the rule is Jacobi's in :math:`x = R / (1 - eR)`, which is in (0, -1/e).

    Args:
        e: alpha - 1 > -2/n; a float gives ``[order]``, a tensor ``[*, order]``.

    >>> r, w = radial_nodes(4, 3, 0.0)
    >>> (w * r**4).sum().round(decimals=9)  # of a Gaussian: n (n + 2)
    tensor(15., dtype=torch.float64)
    """
    a = n / 2 - 1
    if isinstance(e, Tensor):
        e = e.double()
        heavy = e < 0
        size = torch.where(heavy, -e, e)
        x, w = gauss_tsallis(order, a, size, torch.where(heavy, 1 - (a + 2) * size, 1.0))
        half = torch.where(heavy.unsqueeze(-1), x / (1 - size.unsqueeze(-1) * x), x)
    else:
        x, w = gauss_tsallis(order, a, abs(e), 1.0 if e >= 0 else 1 + (a + 2) * e)
        half = x if e >= 0 else x / (1 + e * x)
    return (2 * half).sqrt(), w
