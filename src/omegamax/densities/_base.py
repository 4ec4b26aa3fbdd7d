"""What every density has: a ``torch.distributions.Distribution`` that attention can use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from omegamax.basis import Basis


class Density(torch.distributions.Distribution):
    r"""A density over :math:`\mathbb{R}^n` that solves a regularised prediction problem.

    .. math:: \arg\max_p \; E_p[f(t)] - \Omega_\alpha(p), \qquad
              \Omega_\alpha(p) = \frac{1}{\alpha(\alpha - 1)} \Bigl(\int p^\alpha - 1\Bigr)

    Values are points ``t`` of shape ``sample + batch + [n]``: the event is a vector, also in one dimension.
    A subclass gives ``log_prob``, ``rsample``, ``mean``, ``covariance_matrix``, ``entropy``, ``tsallis_entropy``,
    ``support_contains`` and ``expand``.

    Reference: Martins et al. (NeurIPS 2020), Def. 1 and Prop. 1.
    """

    has_rsample = True

    @property
    def covariance_matrix(self) -> Tensor:
        """``[*, n, n]``"""
        raise NotImplementedError

    @property
    def variance(self) -> Tensor:
        """Of each coordinate, ``[*, n]``."""
        return self.covariance_matrix.diagonal(dim1=-2, dim2=-1)

    def prob(self, value: Tensor) -> Tensor:
        """The density itself at points ``[*, n]``; exactly 0 outside the support."""
        return self.log_prob(value).exp()

    def tsallis_entropy(self) -> Tensor:
        r""":math:`-\Omega_\alpha(p)` with the alpha of the density, ``[*]``; Shannon's at alpha = 1."""
        raise NotImplementedError

    def support_contains(self, value: Tensor) -> Tensor:
        """Whether points ``[*, n]`` lie where the density is positive; bool."""
        raise NotImplementedError

    def expect(self, basis: Basis) -> Tensor:
        r""":math:`E_p[\psi(t)]`, ``[*, J]`` for J basis functions; differentiable in every parameter of the density."""
        from omegamax.expectations import expect  # the rules know the densities, not the other way round

        return expect(self, basis)
