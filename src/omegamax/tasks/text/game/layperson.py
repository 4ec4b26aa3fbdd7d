"""Someone who sees messages alone, and learns from them what the classifier decides."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_number
from omegamax.metrics import communication_success
from omegamax.tasks.text.game.messages import Messages

PENALTIES = (1e-2, 1e-3, 1e-4, 1e-5)
_STEPS = 300  # of L-BFGS, most


class Layperson(torch.nn.Module):
    r"""A linear model of bags of words: ``forward(messages)`` returns logits ``[N, C]``, of each message m

    .. math:: z = b + \sum_{w \in m} W_w

    Args:
        words: of the vocabulary.
        classes: number of them.
    """

    def __init__(self, words: int, classes: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(words, classes, dtype=torch.float64))
        self.bias = torch.nn.Parameter(torch.zeros(classes, dtype=torch.float64))

    def forward(self, messages: Messages) -> Tensor:
        return F.embedding_bag(messages.words, self.weight, messages.starts, mode="sum") + self.bias

    @torch.no_grad()
    def guess(self, messages: Messages) -> Tensor:
        """Return the classes that the layperson takes the classifier to have decided for, ``[N]``."""
        return self(messages).argmax(-1)


def teach(messages: Messages, words: int, classes: int, penalty: float = 1e-3) -> Layperson:
    r"""Return the layperson who has learnt from messages what the classifier decided.

    .. math:: \min_{W, b} \frac1N \sum_n -\log \mathrm{softmax}(z_n)_{\hat y_n}
              + \frac\lambda2 (\|W\|^2 + \|b\|^2)

    is convex, and has one solution, found by L-BFGS from zero: nothing is drawn at random.

    Args:
        messages: to learn from; their true classes are not looked at.
        words, classes: as for :class:`Layperson`.
        penalty: :math:`\lambda > 0`.
    """
    check_number("teach", "penalty", penalty, above=0)
    layperson = Layperson(words, classes)
    parameters = list(layperson.parameters())
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=_STEPS, tolerance_grad=1e-7, tolerance_change=1e-12, line_search_fn="strong_wolfe"
    )

    def compute_loss() -> Tensor:
        optimiser.zero_grad()
        norms = torch.stack([p.square().sum() for p in parameters]).sum()
        loss = F.cross_entropy(layperson(messages), messages.decided) + penalty / 2 * norms
        loss.backward()
        return loss

    optimiser.step(compute_loss)  # type: ignore[no-untyped-call]
    return layperson


def choose_layperson(
    train: Messages, val: Messages, words: int, classes: int, penalties: Sequence[float] = PENALTIES
) -> tuple[Layperson, float]:
    """Return the layperson who understands the messages for validation best, and the penalty of the training.

    Of several who do so equally well, the one with the highest penalty.
    """
    tried = [(teach(train, words, classes, penalty), penalty) for penalty in sorted(penalties, reverse=True)]
    return max(tried, key=lambda each: float(communication_success(each[0].guess(val), val.decided)))
