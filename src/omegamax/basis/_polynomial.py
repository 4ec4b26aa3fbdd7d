"""Monomials as basis functions."""

from __future__ import annotations

from itertools import product

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax._checks import check_points, is_plain
from omegamax._numerics import working_dtype
from omegamax.basis._base import Basis, check_matrix


class Polynomial(Basis):
    r"""J monomials, :math:`\psi_j(t) = \prod_i t_i^{e_{ji}}`.

    Args:
        exponents: ``[J, n]``, integers >= 0.

        >>> Polynomial(torch.tensor([[0, 0], [1, 0], [2, 1]]))(torch.tensor([2.0, 3.0]))
        tensor([ 1.,  2., 12.])
    """

    exponents: Tensor

    def __init__(self, exponents: Tensor):
        super().__init__()
        exponents = check_matrix("Polynomial", "exponents", exponents)
        if exponents.is_floating_point() or exponents.is_complex() or exponents.dtype == torch.bool:
            raise TypeError(f"Polynomial: exponents must be an integer tensor, got dtype {exponents.dtype}")
        if is_plain(exponents) and not bool((exponents >= 0).all()):
            raise ValueError(f"Polynomial: exponents must be >= 0, got a minimum of {int(exponents.min())}")
        self.dimension = exponents.shape[1]
        self.degree = int(exponents.max())  # along any one axis
        self._hold("exponents", exponents.long())

    @classmethod
    def total_degree(cls, degree: int, n: int, *, device: torch.device | str | None = None) -> Polynomial:
        r"""Return all monomials in n variables with exponents that sum to at most ``degree``, the lower sums first.

        >>> Polynomial.total_degree(2, 2).exponents.tolist()
        [[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [0, 2]]
        """
        degree = check_integer("Polynomial.total_degree", "degree", degree, least=0)
        n = check_integer("Polynomial.total_degree", "n", n, least=1)
        found = [e for e in product(range(degree, -1, -1), repeat=n) if sum(e) <= degree]
        return cls(torch.tensor(sorted(found, key=sum), device=device))

    def __len__(self) -> int:
        return len(self.exponents)

    def forward(self, t: Tensor) -> Tensor:
        check_points(type(self).__name__, "t", t, self.dimension)
        t = t.to(working_dtype(t))
        # Products only: pow has no second derivative at zero.
        powers = [torch.ones_like(t)]
        for _ in range(self.degree):
            powers.append(powers[-1] * t)
        table = torch.stack(powers, -1)  # [*, n, degree + 1]
        value = table[..., 0, :].index_select(-1, self.exponents[:, 0])
        for i in range(1, self.dimension):
            value = value * table[..., i, :].index_select(-1, self.exponents[:, i])
        return value

    def extra_repr(self) -> str:
        return f"J={len(self)}, n={self.dimension}, degree={self.degree}"
