"""How well someone who reads explanations alone can tell what a network has decided."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_integers
from omegamax.metrics._rationales import REDUCTIONS

_NAME = "communication_success"


@torch.no_grad()
def communication_success(guessed: Tensor, decided: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Return how often a layperson guesses, from the explanations, what the classifier decided; float64.

    .. math:: \frac1B \sum_b [\tilde y_b = \hat y_b]

    The communication success rate, also called simulatability. What the classes of the texts really are does not
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
    check_integers(_NAME, "guessed", guessed)
    check_integers(_NAME, "decided", decided)
    check_choice(_NAME, "reduction", reduction, REDUCTIONS)
    if guessed.shape != decided.shape:
        shapes = f"{tuple(guessed.shape)} and {tuple(decided.shape)}"
        raise ValueError(f"{_NAME}: guessed and decided must have one shape, got {shapes}")
    same = (guessed == decided).double()
    return same if reduction == "none" else same.mean()
