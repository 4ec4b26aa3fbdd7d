"""What becomes of an answer when the words it is said to hang on are taken away, or left alone."""

from __future__ import annotations

from torch import Tensor

from omegamax._arguments import check_choice
from omegamax._checks import check_floating
from omegamax._numerics import working_dtype
from omegamax.metrics._rationales import REDUCTIONS


def comprehensiveness(full: Tensor, without: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Return by how much the predicted class falls when the words of an explanation are taken away; higher is better.

    .. math:: \frac1B \sum_b p(\hat y_b \mid x_b) - p(\hat y_b \mid x_b \setminus r_b), \qquad
              \hat y_b = \arg\max_y p(y \mid x_b)

    Args:
        full: probabilities ``[*, C]`` of the classes of whole texts. Half precision is computed, and returned, in
            float32.
        without: those of the texts without the words.
        reduction: ``"mean"`` over texts, or ``"none"``, ``[*]``.

        >>> import torch
        >>> comprehensiveness(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([[0.4, 0.6], [0.3, 0.7]]))
        tensor(0.3000)

    Reference: DeYoung et al., "ERASER: a benchmark to evaluate rationalized NLP models" (ACL 2020), Eq. 1.
    """
    return _fall("comprehensiveness", full, "without", without, reduction)


def sufficiency(full: Tensor, only: Tensor, *, reduction: str = "mean") -> Tensor:
    r"""Return by how much the predicted class falls when the words of an explanation are left alone; lower is better.

    .. math:: \frac1B \sum_b p(\hat y_b \mid x_b) - p(\hat y_b \mid r_b)

    Args:
        full, reduction: as for :func:`comprehensiveness`.
        only: probabilities of the classes of these words alone.

        >>> import torch
        >>> sufficiency(torch.tensor([[0.9, 0.1], [0.2, 0.8]]), torch.tensor([[0.8, 0.2], [0.2, 0.8]]))
        tensor(0.0500)

    Reference: DeYoung et al. (ACL 2020), Eq. 2.
    """
    return _fall("sufficiency", full, "only", only, reduction)


def _fall(name: str, full: Tensor, argument: str, other: Tensor, reduction: str) -> Tensor:
    check_floating(name, "full", full)
    check_floating(name, argument, other)
    if full.dim() == 0 or full.shape != other.shape or full.shape[-1] == 0:
        shapes = f"{tuple(full.shape)} and {tuple(other.shape)}"
        raise ValueError(f"{name}: full and {argument} must be [*, C] of one shape, got {shapes}")
    check_choice(name, "reduction", reduction, REDUCTIONS)
    full, other = full.to(working_dtype(full)), other.to(working_dtype(other))
    predicted = full.argmax(-1, keepdim=True)
    fall = (full.gather(-1, predicted) - other.gather(-1, predicted)).squeeze(-1)
    return fall if reduction == "none" else fall.mean()
