"""What the distributions that start from a Gaussian vector share: its covariance in every form, and its draws."""

from __future__ import annotations

from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.distributions import constraints
from torch.distributions.utils import lazy_property

from omegamax._checks import check_symmetric
from omegamax._constraints import (
    finite,
    finite_lower_cholesky,
    finite_positive_definite,
    finite_positive_vector,
    finite_vector,
)
from omegamax._torch_internals import new_instance
from omegamax.mixed._base import Mixed
from omegamax.mixed._gaussian_parameters import TAILS, as_vector, broadcast


class GaussianMixed(Mixed):
    """A distribution of a function of a Gaussian vector, whose covariance is given in one of four forms.

    Args:
        loc: its location, ``[*, K]``.
        scale: deviations of independent entries, ``[*, K]``, or a number.
        cov: covariance matrix, ``[*, K, K]``.
        scale_tril: lower triangular root of the covariance, ``[*, K, K]``.
        cov_factor, cov_diag: ``W [*, K, r]`` and a positive diagonal ``[*, K]`` of the covariance ``W W' + D``.
    """

    arg_constraints = {  # noqa: RUF012
        "loc": finite_vector,
        "scale": finite_positive_vector,
        "cov": finite_positive_definite,
        "scale_tril": finite_lower_cholesky,
        "cov_factor": constraints.independent(finite, 2),
        "cov_diag": finite_positive_vector,
    }
    has_rsample = True
    loc: Tensor
    _form: str
    _options: ClassVar[tuple[str, ...]] = ("_form",)  # attributes that an expanded copy takes over

    def __init__(
        self,
        loc: Tensor,
        scale: Tensor | float | None = None,
        *,
        cov: Tensor | None = None,
        scale_tril: Tensor | None = None,
        cov_factor: Tensor | None = None,
        cov_diag: Tensor | None = None,
        validate_args: bool | None = None,
    ) -> None:
        who = type(self).__name__
        loc = as_vector(who, loc)
        given = {"scale": scale, "cov": cov, "scale_tril": scale_tril, "cov_factor": cov_factor, "cov_diag": cov_diag}
        given = {name: value for name, value in given.items() if value is not None}
        if set(given) not in ({"scale"}, {"cov"}, {"scale_tril"}, {"cov_factor", "cov_diag"}):
            raise ValueError(
                f"{who}: needs exactly one of scale, cov, scale_tril, or cov_factor with cov_diag; "
                f"got {', '.join(given) or 'none of them'}"
            )
        parameters = broadcast(who, loc, given)
        for name, value in parameters.items():
            setattr(self, name, value)
        if cov is not None:
            if self._validate_args if validate_args is None else validate_args:
                check_symmetric(who, "cov", self.cov)
            self.cov = (self.cov + self.cov.mT) / 2
        super().__init__(self.loc.shape[:-1], self.loc.shape[-1:], validate_args=validate_args)
        self._form = {"scale": "diagonal", "cov_factor": "low rank"}.get(next(iter(given)), "full")
        if cov is not None:
            self.scale_tril = torch.linalg.cholesky(self.cov)

    def expand(self, batch_shape: Any, _instance: Any = None) -> Any:
        new = new_instance(self, type(self), _instance)
        batch = torch.Size(batch_shape)
        for name, tail in TAILS.items():
            if name in self.__dict__:
                value = self.__dict__[name]
                setattr(new, name, value.expand(batch + value.shape[-tail:]))
        for name in self._options:
            setattr(new, name, getattr(self, name))
        Mixed.__init__(new, batch, self._event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    # --- The covariance, in every form that exists

    @lazy_property
    def cov(self) -> Tensor:
        """Return the covariance of the Gaussian vector (not of what it is mapped to), ``[*, K, K]``."""
        if self._diagonal:
            return torch.diag_embed(self.scale.square())
        if self._low_rank:
            return self.cov_factor @ self.cov_factor.mT + torch.diag_embed(self.cov_diag)
        return self.scale_tril @ self.scale_tril.mT

    @lazy_property
    def scale_tril(self) -> Tensor:
        """Lower triangular root of the covariance, ``[*, K, K]``."""
        return torch.diag_embed(self.scale) if self._diagonal else torch.linalg.cholesky(self.cov)

    @lazy_property
    def scale(self) -> Tensor:
        """Return the deviations of the entries of the Gaussian vector, ``[*, K]``."""
        if self._low_rank:
            return (self.cov_factor.square().sum(-1) + self.cov_diag).sqrt()
        return self.scale_tril.square().sum(-1).sqrt()

    @lazy_property
    def cov_factor(self) -> Tensor:
        """Return ``W`` of the covariance ``W W' + D``, if it was given so."""
        raise AttributeError(f"{type(self).__name__}: no cov_factor, the covariance was given in another form")

    @lazy_property
    def cov_diag(self) -> Tensor:
        """Return the diagonal D of the covariance ``W W' + D``, if it was given so."""
        raise AttributeError(f"{type(self).__name__}: no cov_diag, the covariance was given in another form")

    @property
    def _low_rank(self) -> bool:
        return self._form == "low rank"

    @property
    def _diagonal(self) -> bool:
        return self._form == "diagonal"

    @property
    def _device(self) -> torch.device:
        return self.loc.device

    def rsample_scores(self, sample_shape: Any = torch.Size()) -> Tensor:  # noqa: B008
        """Return the Gaussian vectors themselves, before they are mapped to the simplex."""
        shape = self._extended_shape(sample_shape)
        noise = torch.randn(shape, dtype=self.loc.dtype, device=self.loc.device)
        if self._diagonal:
            return self.loc + self.scale * noise
        if self._low_rank:
            few = torch.randn(*shape[:-1], self.cov_factor.shape[-1], dtype=noise.dtype, device=noise.device)
            moved = (self.cov_factor @ few.unsqueeze(-1)).squeeze(-1)
            return self.loc + moved + self.cov_diag.sqrt() * noise
        return self.loc + (self.scale_tril @ noise.unsqueeze(-1)).squeeze(-1)

    def _root(self) -> Tensor:
        """Return a root of the covariance, ``[*, K, m]``: with more columns than rows if it has a low rank besides."""
        if self._diagonal:
            return torch.diag_embed(self.scale)
        if self._low_rank:
            return torch.cat([self.cov_factor, torch.diag_embed(self.cov_diag.sqrt())], -1)
        return self.scale_tril

    @property
    def _contrast(self) -> tuple[Tensor, Tensor]:
        """Mean and deviation of the first of two entries less the second, both ``[*]``."""
        if self._diagonal:
            variance = self.scale.square().sum(-1)
        elif self._low_rank:
            factor = self.cov_factor
            variance = (factor[..., 0, :] - factor[..., 1, :]).square().sum(-1) + self.cov_diag.sum(-1)
        else:
            variance = (self.scale_tril[..., 0, :] - self.scale_tril[..., 1, :]).square().sum(-1)
        return self.loc[..., 0] - self.loc[..., 1], variance.sqrt()
