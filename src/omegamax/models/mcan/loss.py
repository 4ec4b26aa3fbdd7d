"""What a wrong answer costs."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_choice
from omegamax.losses import fenchel_young_loss
from omegamax.maps import get

LOSSES = ("bce", "softmax", "sparsemax", "entmax15", "entmax", "normmax")


class AnswerLoss(torch.nn.Module):
    r"""The loss of logits ``[B, A]`` against soft scores ``[B, A]`` in [0, 1], averaged over the batch.

    ``"bce"`` takes each answer by itself, and sums over the answers:

    .. math:: \sum_a -t_a \log \sigma(s_a) - (1 - t_a) \log(1 - \sigma(s_a))

    Any other name is that of a map, and the loss is its Fenchel-Young loss, with the scores made to sum to one:

    .. math:: \Omega(y) + \Omega^*(s) - \langle y, s \rangle, \qquad y = t / \textstyle\sum_a t_a

    An example that no known answer fits, t = 0, then has no target, and costs nothing.

    Args:
        name: one of ``LOSSES``.
        options: parameters of the map: ``alpha`` of entmax (1.5 by default) and normmax (2).

    :meth:`probabilities` are those the loss has in mind: a sigmoid of each logit, or the map.

        >>> loss = AnswerLoss("sparsemax")
        >>> logits, scores = torch.tensor([[1.0, 0.5, -1.0], [2.0, 0.0, 0.0]]), torch.eye(2, 3)
        >>> loss(logits, scores), loss.probabilities(logits)[0]
        (tensor(1.0312), tensor([0.7500, 0.2500, 0.0000]))
        >>> AnswerLoss("bce")(logits, scores)
        tensor(2.5569)

    References: binary cross-entropy with soft scores, Yu et al. (CVPR 2019); the losses of maps, Blondel,
    Martins & Niculae (JMLR 2020), Def. 2.
    """

    def __init__(self, name: str = "bce", **options: Any):
        super().__init__()
        check_choice("AnswerLoss", "name", name, LOSSES)
        if name == "bce" and options:
            raise ValueError(f"AnswerLoss: 'bce' takes no options, got {', '.join(options)}")
        self.name = name
        self.omega = None if name == "bce" else get(name, **options)

    def forward(self, logits: Tensor, scores: Tensor) -> Tensor:
        if logits.dim() != 2 or logits.shape != scores.shape:
            raise ValueError(
                f"AnswerLoss: logits and scores must both be [B, A], got {tuple(logits.shape)} and "
                f"{tuple(scores.shape)}"
            )
        count = max(len(logits), 1)
        if self.omega is None:
            return F.binary_cross_entropy_with_logits(logits, scores.to(logits.dtype), reduction="sum") / count
        total = scores.sum(-1, keepdim=True)
        known = total > 0
        # Where nothing is known, any point of the simplex will do: it is not counted.
        target = torch.where(known, scores / torch.where(known, total, 1.0), 1.0 / scores.shape[-1])
        each = fenchel_young_loss(logits, target, self.omega, reduction="none")
        return torch.where(known.squeeze(-1), each, 0.0).sum() / count

    def probabilities(self, logits: Tensor) -> Tensor:
        """Return ``[B, A]``; each in [0, 1], and summing to one unless the loss is ``"bce"``."""
        return logits.sigmoid() if self.omega is None else self.omega.argmax(logits)

    def extra_repr(self) -> str:
        return repr(self.name) if self.omega is None else f"{self.name!r}, {self.omega!r}"
