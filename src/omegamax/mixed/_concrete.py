"""What the distributions that start from Gumbel noise share."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.distributions import RelaxedOneHotCategorical

from omegamax._arguments import is_number
from omegamax._checks import check_floating, check_vectors
from omegamax._numerics import working_dtype
from omegamax.mixed._base import Mixed


class ConcreteMixed(Mixed):
    """A distribution made of Concrete points, of ``logits [*, K]`` and ``temperature [*]``."""

    has_rsample = True
    logits: Tensor
    temperature: Tensor

    @property
    def probs(self) -> Tensor:
        """Return the probabilities of the vertices that the Concrete point is nearest to, ``[*, K]``."""
        return self.logits.softmax(-1)

    @property
    def _device(self) -> torch.device:
        return self.logits.device


def concrete_parameters(
    name: str, probs: Tensor | None, logits: Tensor | None, **scalars: Tensor | float
) -> tuple[Tensor, list[Tensor]]:
    """Return normalised logits ``[*, K]`` and each of ``scalars`` as ``[*]``, in one dtype and with one batch shape."""
    if (probs is None) == (logits is None):
        raise ValueError(f"{name}: needs exactly one of probs and logits, got {'none' if probs is None else 'both'}")
    argument = "logits" if probs is None else "probs"
    given = check_vectors(name, argument, logits if probs is None else probs, "K")
    dtype = working_dtype(given)
    scores = given.to(dtype)
    if probs is not None:
        if bool((scores < 0).any()) or not bool((scores.sum(-1) > 0).all()):
            raise ValueError(f"{name}: probs must be >= 0 with a positive sum in every row")
        scores = (scores / scores.sum(-1, keepdim=True)).clamp(min=torch.finfo(dtype).tiny).log()
    else:
        scores = scores - scores.logsumexp(-1, keepdim=True)
    tensors = []
    for key, value in scalars.items():
        if is_number(value):
            value = scores.new_full((), float(value))  # type: ignore[arg-type]
        tensors.append(check_floating(name, key, value, "a number or a floating-point tensor").to(dtype))
    try:
        batch = torch.broadcast_shapes(scores.shape[:-1], *(t.shape for t in tensors))
    except RuntimeError:
        shapes = ", ".join(f"{key} {tuple(t.shape)}" for key, t in zip(scalars, tensors, strict=True))
        raise ValueError(
            f"{name}: must broadcast with the batch shape {tuple(scores.shape[:-1])} of {argument}: {shapes}"
        ) from None
    return scores.expand(*batch, scores.shape[-1]), [t.expand(batch) for t in tensors]


def concrete_sample(logits: Tensor, temperature: Tensor, sample_shape: Any) -> Tensor:
    """Return points ``sample_shape + [*, K]`` of torch's ``RelaxedOneHotCategorical``, with gradients."""
    if not logits.numel():  # torch's checks of vectors fail on a batch of none
        return logits.new_empty((*sample_shape, *logits.shape))
    base = RelaxedOneHotCategorical(temperature.unsqueeze(-1), logits=logits, validate_args=False)
    return base.rsample(torch.Size(sample_shape))
