"""Accuracy of answers on which people differ: visual question answering."""

from __future__ import annotations

import torch
from torch import Tensor


def vqa_accuracy(matches: Tensor | int, people: int = 10) -> Tensor:
    r"""Return the VQA accuracy of an answer that ``matches`` of the people gave too, float64 ``[*]``.

    .. math:: \frac1n \sum_{i=1}^n \min\Bigl(\frac{\#\{j \ne i : a_j = a\}}{3}, 1\Bigr)
              = \frac{m \min(\frac{m-1}3, 1) + (n - m) \min(\frac m3, 1)}{n}

    The mean over all ways to leave one person out, so that an answer is compared with as many people as a person's own
    could be: 0, 0.3, 0.6, 0.9 for m = 0, 1, 2, 3 of n = 10, and 1 from there on. These are also the soft scores with
    which models are trained.

    Args:
        matches: m, integers, ``[*]``.
        people: n, how many answered; 10 in VQA. One person leaves no subset: the accuracy is then m itself.

        >>> vqa_accuracy(torch.arange(6))
        tensor([0.0000, 0.3000, 0.6000, 0.9000, 1.0000, 1.0000], dtype=torch.float64)

    Reference: Antol et al. (ICCV 2015), section 3; the subsets: the evaluation code that its authors distribute.
    """
    name = "vqa_accuracy"
    if type(people) is not int or people < 1:
        raise ValueError(f"{name}: people must be an int >= 1, got {people!r}")
    m = torch.as_tensor(matches)
    if m.is_floating_point() or m.is_complex() or m.dtype == torch.bool:
        raise TypeError(f"{name}: matches must be integers, got dtype {m.dtype}")
    if m.numel() and not 0 <= int(m.min()) <= int(m.max()) <= people:
        raise ValueError(f"{name}: matches must lie in [0, {people}], the number of people")
    m = m.to(torch.float64)
    if people == 1:
        return m
    # Integers until the one division: 0.9 comes out as 0.9.
    thirds = m * (m - 1).clamp(0, 3) + (people - m) * m.clamp(max=3)
    return thirds / (3 * people)
