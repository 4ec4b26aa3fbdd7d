"""What densities over the line with a location and a scale share."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.distributions import constraints

from omegamax._arguments import is_number
from omegamax._checks import check_above, check_floating, is_plain
from omegamax._constraints import finite_positive_vector, finite_vector
from omegamax._numerics import working_dtype
from omegamax._torch_internals import new_instance
from omegamax.densities._base import Density


class LineDensity(Density):
    r"""A density over :math:`\mathbb{R}`, symmetric about ``loc [*, 1]`` and stretched by ``scale [*, 1]``.

    A subclass gives ``support_radius`` and ``_at``, from which quantiles and samples follow, besides what every density
    has.
    """

    loc: Tensor
    scale: Tensor
    alpha: float | Tensor
    arg_constraints = {  # noqa: RUF012
        "loc": finite_vector,
        "scale": finite_positive_vector,
    }
    # The density is defined, and zero, outside its interval too: see support_contains.
    support = constraints.real_vector

    def __init__(self, loc: Tensor, scale: float | Tensor, alpha: float | Tensor, validate_args: bool | None = None):
        name = type(self).__name__
        loc, scale = _as_floating(name, "loc", loc), _as_floating(name, "scale", scale, loc)
        for argument, value in (("loc", loc), ("scale", scale)):
            if value.shape[-1:] != (1,):
                raise ValueError(f"{name}: {argument} must have shape [*, 1], got {tuple(value.shape)}")
        alpha = check_above(name, "alpha", alpha, 0.0)
        dtype = torch.promote_types(working_dtype(loc), scale.dtype)
        shapes = [loc.shape[:-1], scale.shape[:-1]]
        if isinstance(alpha, Tensor):
            alpha = _as_floating(name, "alpha", alpha).to(dtype)
            shapes.append(alpha.shape)
        elif alpha == math.inf:  # not isinf, which dynamo cannot trace for a float that changes
            raise ValueError(f"{name}: alpha must be finite, got inf")
        try:
            batch = torch.broadcast_shapes(*shapes)
        except RuntimeError:
            listed = ", ".join(str(tuple(shape)) for shape in shapes)
            raise ValueError(f"{name}: batch shapes of loc, scale and alpha do not broadcast, got {listed}") from None
        self.loc, self.scale = loc.to(dtype).expand(*batch, 1), scale.to(dtype).expand(*batch, 1)
        self.alpha = alpha.expand(batch) if isinstance(alpha, Tensor) else alpha
        if validate_args is None and not is_plain(loc, scale):
            validate_args = False  # values cannot be looked at while they are traced or mapped over
        super().__init__(batch, torch.Size([1]), validate_args=validate_args)

    def expand(self, batch_shape, _instance=None):
        new = new_instance(self, type(self), _instance)
        shape = torch.Size(batch_shape)
        new.loc, new.scale = self.loc.expand(*shape, 1), self.scale.expand(*shape, 1)
        new.alpha = self.alpha.expand(shape) if isinstance(self.alpha, Tensor) else self.alpha
        Density.__init__(new, shape, self.event_shape, validate_args=False)
        new._validate_args = self._validate_args
        return new

    @property
    def mode(self) -> Tensor:
        return self.loc

    @property
    def support_radius(self) -> Tensor:
        """Return half the width of the support, ``[*]``; infinite for alpha <= 1."""
        raise NotImplementedError

    def support_contains(self, value: Tensor) -> Tensor:
        return (value - self.loc).abs().squeeze(-1) < self.support_radius

    def icdf(self, value: Tensor) -> Tensor:
        """Return points ``[*, 1]`` with the mass ``value`` in [0, 1], ``[*]``, to their left."""
        q = value.unsqueeze(-1)
        right = q > 0.5
        return self._at(2 * torch.where(right, 1 - q, q), torch.where(right, 1.0, -1.0))

    def rsample(self, sample_shape=torch.Size()) -> Tensor:  # noqa: B008 (the signature of torch)
        shape = self._extended_shape(sample_shape)
        tail = 1 - torch.rand(shape, dtype=self.loc.dtype, device=self.loc.device)
        return self._at(tail, torch.randint(2, shape, device=self.loc.device) * 2 - 1)

    def __repr__(self) -> str:
        alpha = f"tensor of shape {tuple(self.alpha.shape)}" if isinstance(self.alpha, Tensor) else f"{self.alpha:g}"
        return f"{type(self).__name__}(batch_shape={tuple(self.batch_shape)}, alpha={alpha})"

    def _at(self, tail: Tensor, sign: Tensor) -> Tensor:
        """Return the point on the side ``sign`` beyond which lies the fraction ``tail`` of that side."""
        raise NotImplementedError

    def _check(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)


def _as_floating(name: str, argument: str, value: float | Tensor, like: Tensor | None = None) -> Tensor:
    """Return a floating tensor as it is; beside ``like`` a number or 0-d tensor as ``[1]``."""
    if like is not None and is_number(value):
        return like.new_tensor([value])
    given = check_floating(name, argument, value)
    return given.unsqueeze(0) if like is not None and given.dim() == 0 else given
