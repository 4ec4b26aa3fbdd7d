"""How well someone who reads explanations alone can tell what a network has decided."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_integers
from omegamax.metrics._rationales import REDUCTIONS


@torch.no_grad()
def communication_success(guessed: Tensor, decided: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Return how often a layperson guesses, from the explanations, what the classifier decided; float64.

    .. math:: \frac1B \sum_b [\tilde y_b = \hat y_b]

    The communication success rate. What the classes of the texts really are does not
    matter: a layperson who repeats a mistake of the classifier has understood it.

    Args:
        guessed: classes :math:`\tilde y` that the layperson says, integers ``[*]``.
        decided: classes :math:`\hat y` of the classifier, likewise.
        reduction: ``"mean"`` over texts, NaN without any; or ``"none"``, ``[*]``, of 0 and 1.

        >>> communication_success(torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]))
        tensor(0.7500, dtype=torch.float64)

    Reference: Treviso and Martins, "The explanation game: towards prediction explainability through sparse
    communication" (BlackboxNLP 2020).
    """
    return _reduce("communication_success", _compare("communication_success", "guessed", guessed, decided), reduction)


@torch.no_grad()
def simulatability(guessed: Tensor, decided: Tensor, alone: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    r"""Return how much better students simulate a classifier who were taught with its explanations; float64.

    .. math:: \frac1B \sum_b [\tilde y_b = \hat y_b] - [\bar y_b = \hat y_b]

    Students are asked without explanations, which they had while they learnt.

    Args:
        guessed: classes :math:`\tilde y` that a student says who was taught with explanations, integers ``[*]``.
        decided: classes :math:`\hat y` of the classifier, likewise.
        alone: classes :math:`\bar y` that a student says who was taught without, likewise; None: nothing is taken off.
        reduction: ``"mean"`` over texts, NaN without any; or ``"none"``, ``[*]``.

        >>> guessed, decided, alone = torch.tensor([0, 1, 1, 2]), torch.tensor([0, 1, 2, 2]), torch.tensor([0, 1, 1, 1])
        >>> simulatability(guessed, decided), simulatability(guessed, decided, alone)
        (tensor(0.7500, dtype=torch.float64), tensor(0.2500, dtype=torch.float64))

    References: Pruthi et al., "Evaluating explanations: how much do explanations from the teacher aid students?" (TACL
    2022); Fernandes et al., "Learning to scaffold" (NeurIPS 2022), who report it without taking off.
    """
    name = "simulatability"
    gain = _compare(name, "guessed", guessed, decided)
    return _reduce(name, gain if alone is None else gain - _compare(name, "alone", alone, decided), reduction)


def _compare(name: str, argument: str, guessed: Tensor, decided: Tensor) -> Tensor:
    """Return 1 where the guess is the decision, and 0 elsewhere."""
    check_integers(name, argument, guessed)
    check_integers(name, "decided", decided)
    if guessed.shape != decided.shape:
        shapes = f"{tuple(guessed.shape)} and {tuple(decided.shape)}"
        raise ValueError(f"{name}: {argument} and decided must have one shape, got {shapes}")
    return (guessed == decided).double()


def _reduce(name: str, values: Tensor, reduction: str) -> Tensor:
    check_choice(name, "reduction", reduction, REDUCTIONS)
    return values if reduction == "none" else values.mean()
