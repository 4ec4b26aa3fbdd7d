"""Distributions of a symbol, by name: from scores of the words to a distribution on their simplex."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from inspect import signature

from torch import Tensor
from torch.distributions import Distribution

from omegamax._arguments import check_choice, check_number
from omegamax.mixed import GaussianSparsemax, GumbelSoftmax, HardConcrete, LogisticNormal

SymbolDistribution = Callable[[Tensor], Distribution]

# Values are not checked: it would hold up a GPU in every step.


def _gumbel_softmax(scores: Tensor, temperature: float = 1.0) -> Distribution:
    return GumbelSoftmax(temperature, logits=scores, validate_args=False)


def _gumbel_softmax_st(scores: Tensor, temperature: float = 1.0) -> Distribution:
    return GumbelSoftmax(temperature, logits=scores, hard=True, validate_args=False)


def _hard_concrete(scores: Tensor, temperature: float = 1.0, stretch: float = 1.1) -> Distribution:
    return HardConcrete(temperature, logits=scores, stretch=stretch, validate_args=False)


def _gaussian_sparsemax(scores: Tensor, scale: float = 1.0) -> Distribution:
    return GaussianSparsemax(scores, scale=scale, validate_args=False)


def _logistic_normal(scores: Tensor, scale: float = 1.0) -> Distribution:
    return LogisticNormal(scores, scale=scale, validate_args=False)


DISTRIBUTIONS: dict[str, Callable[..., Distribution]] = {
    "gumbel_softmax": _gumbel_softmax,
    "gumbel_softmax_st": _gumbel_softmax_st,
    "hard_concrete": _hard_concrete,
    "gaussian_sparsemax": _gaussian_sparsemax,
    "logistic_normal": _logistic_normal,
}
"""Distributions by name."""


def symbol_distribution(distribution: str | SymbolDistribution, **options: float) -> SymbolDistribution:
    """Resolve a distribution by name and options; a function from scores ``[*, K]`` to a distribution stays as it is.

    ====================== =========================================== ==============================
    name                   distribution                                         options
    ====================== =========================================== ==============================
    ``gumbel_softmax``     :class:`~omegamax.mixed.GumbelSoftmax`      ``temperature=1``
    ``gumbel_softmax_st``  the same, straight-through: one word        ``temperature=1``
    ``hard_concrete``      :class:`~omegamax.mixed.HardConcrete`       ``temperature=1, stretch=1.1``
    ``gaussian_sparsemax`` :class:`~omegamax.mixed.GaussianSparsemax`  ``scale=1``
    ``logistic_normal``    :class:`~omegamax.mixed.LogisticNormal`     ``scale=1``
    ====================== =========================================== ==============================

    What is returned can be pickled. The distribution must have ``rsample``, or the sender would learn nothing.

        >>> import torch
        >>> symbol_distribution("hard_concrete", temperature=0.5)(torch.zeros(2, 8)).rsample().shape
        torch.Size([2, 8])
        >>> symbol_distribution("words")
        Traceback (most recent call last):
            ...
        ValueError: symbol_distribution: distribution must be one of 'gumbel_softmax', 'gumbel_softmax_st', \
'hard_concrete', 'gaussian_sparsemax', 'logistic_normal', got 'words'
    """
    if not isinstance(distribution, str):
        if options:
            raise ValueError(
                f"symbol_distribution: options go with the name of a distribution, got {distribution!r} and {options}"
            )
        return distribution
    check_choice("symbol_distribution", "distribution", distribution, tuple(DISTRIBUTIONS))
    known = tuple(signature(DISTRIBUTIONS[distribution]).parameters)[1:]
    for name, value in options.items():
        check_choice("symbol_distribution", f"an option of {distribution}", name, known)
        least, above = (1.0, None) if name == "stretch" else (None, 0.0)
        check_number("symbol_distribution", name, value, least=least, above=above)
    return partial(DISTRIBUTIONS[distribution], **options)
