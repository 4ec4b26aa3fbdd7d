"""An explainer that learns, together with a layperson, which words to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax.models.text import TextClassifier, WordsConfig

Epoch = Callable[[int], Iterable[Mapping[str, Any]]]
_RATE = 1e-2  # of Adam


def train_explainer(
    classifier: TextClassifier, epoch: Epoch, *, epochs: int = 5, faithful: float = 0.0, seed: int = 0
) -> TextClassifier:
    r"""Return a network whose attention, 1.5-entmax, says which words to tell a layperson of a classifier's decision.

    Explainer and layperson are trained together, the classifier stays as it is:

    .. math:: \min \frac1B \sum_b -\log \mathrm{softmax}\Big(b + \sum_l p_{bl} W_{w_{bl}}\Big)_{\hat y_b}
              + \lambda \frac1{BD} \|\tilde h_b - h_b\|^2

    While they train, a message is a bag of words in which each counts by its weight p. The explainer sees the text and
    not the decision; since it may infer that one, the two can still agree on words that merely stand for a class.

    Args:
        classifier: in evaluation mode.
        epoch: from the index of an epoch to its batches with ``words [B, L]``.
        epochs: how many.
        faithful: :math:`\lambda`, how much the explainer must also guess the state h that the classifier decided by,
            ``[B, D]``, which is what it returns as logits.
        seed: of what it starts from.

    Reference: Treviso and Martins (BlackboxNLP 2020), joint training of explainer and layperson.
    """
    check_integer("train_explainer", "epochs", epochs, least=1)
    check_number("train_explainer", "faithful", faithful, least=0)
    config, weight = classifier.config, classifier.classify.weight
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        explainer = TextClassifier(
            config.replace(classes=config.state_dim, dropout=0.0, attention=WordsConfig("entmax"))
        )
    explainer.to(weight)
    told = torch.zeros(config.words, config.classes, device=weight.device, dtype=weight.dtype, requires_grad=True)
    bias = torch.zeros_like(told[0], requires_grad=True)
    optimiser = torch.optim.Adam([*explainer.parameters(), told, bias], _RATE)
    for index in range(epochs):
        for batch in epoch(index):
            words = batch["words"].to(weight.device)
            decided, h = read_state(classifier, words)
            answer = explainer({"words": words})
            guess = bias + torch.einsum("bl,blc->bc", answer.attention.weights, F.embedding(words, told))
            loss = F.cross_entropy(guess, decided) + faithful * F.mse_loss(answer.logits, h)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return explainer.eval()


@torch.no_grad()
def read_state(classifier: TextClassifier, words: Tensor) -> tuple[Tensor, Tensor]:
    """Return the decisions ``[B]`` of a classifier, and the states ``[B, D]`` that it took them by."""
    states: list[Tensor] = []
    hook = classifier.classify.register_forward_pre_hook(lambda module, inputs: states.append(inputs[0]))
    try:
        logits = classifier({"words": words}).logits
    finally:
        hook.remove()
    return logits.argmax(-1), states[0]
