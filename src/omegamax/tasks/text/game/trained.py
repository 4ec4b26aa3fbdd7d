"""An explainer that learns, together with a layperson, which words to tell."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax.models.text import EntailmentClassifier, TextClassifier, WordsConfig
from omegamax.tasks.text.game.explainers import Batch, Classifier, read_attention, take_words
from omegamax.tasks.text.game.messages import count_numbers, number_words

Epoch = Callable[[int], Iterable[Batch]]
RATE = 3e-4  # of Adam
# What an explainer starts from: all that it has in common with the classifier but for the last layers.
_SHARED = ("embedding.", "encoder.", "attention.score.", "compare.")


def train_explainer(
    classifier: Classifier,
    epoch: Epoch,
    *,
    epochs: int = 5,
    faithful: float = 0.0,
    rate: float = RATE,
    seed: int = 0,
) -> Classifier:
    r"""Return a network whose attention, 1.5-entmax, says which words to tell a layperson of a classifier's decision.

    Explainer and layperson are trained together, the classifier stays as it is:

    .. math:: \min \frac1B \sum_b -\log \mathrm{softmax}\Big(b + \sum_l p_{bl} W_{w_{bl}}\Big)_{\hat y_b}
              + \lambda \frac1{BD} \|\tilde h_b - h_b\|^2

    While they train, a message is a bag of words in which each counts by its weight p. The explainer sees the text and
    not the decision; since it may infer that one, the two can still agree on words that merely stand for a class. Of
    pairs it reads both sentences, aligned by 1.5-entmax; the layperson has the mean W of the second sentence besides.

    Args:
        classifier: in evaluation mode.
        epoch: from the index of an epoch to its batches with ``words [B, L]``, and ``second [B, M]`` for pairs.
        epochs: how many.
        faithful: :math:`\lambda`, how much the explainer must also guess the state h that the classifier decided by,
            ``[B, D]``, which is what it returns as logits.
        rate: of Adam for the explainer. The layperson, a linear model that starts from 0, learns ten times as fast.
        seed: of what is not taken from the classifier, see :func:`make_explainer`.

    Reference: Treviso and Martins (BlackboxNLP 2020), joint training of explainer and layperson.
    """
    check_integer("train_explainer", "epochs", epochs, least=1)
    check_number("train_explainer", "faithful", faithful, least=0)
    check_number("train_explainer", "rate", rate, above=0)
    weight = classifier.embedding.weight
    explainer = make_explainer(classifier, seed)
    told = torch.zeros(count_numbers(classifier), classifier.config.classes).to(weight).requires_grad_()
    bias = torch.zeros_like(told[0], requires_grad=True)
    groups: list[dict[str, Any]] = [{"params": list(explainer.parameters())}, {"params": [told, bias], "lr": 10 * rate}]
    optimiser = torch.optim.Adam(groups, rate)
    for index in range(epochs):
        for given in epoch(index):
            batch = take_words(given, weight.device)
            decided, h = read_state(classifier, batch)
            answer = explainer(batch)
            first, second = number_words(batch, classifier.config.words)
            guess = bias + torch.einsum("bl,blc->bc", read_attention(answer), F.embedding(first, told))
            guess = guess if second is None else guess + average_words(second, told)
            loss = F.cross_entropy(guess, decided) + faithful * F.mse_loss(answer.logits, h)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
    return explainer.eval()


def make_explainer(classifier: Classifier, seed: int) -> Classifier:
    """Return a network like a classifier, with 1.5-entmax, which returns a state in place of logits.

    Of pairs its alignment is by 1.5-entmax. It reads as the classifier does: embedding, encoder and what scores words
    start from the classifier's; the rest is drawn from a seed.
    """
    config = classifier.config.replace(dropout=0.0, rationale=None, attention=WordsConfig("entmax"))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        explainer: Classifier
        if isinstance(classifier, EntailmentClassifier):
            explainer = EntailmentClassifier(config.replace(classes=4 * config.score_dim, alignment="entmax15"))
        else:
            explainer = TextClassifier(config.replace(classes=config.state_dim))
    own = explainer.state_dict()
    known = {name: value for name, value in classifier.state_dict().items() if name.startswith(_SHARED) and name in own}
    explainer.load_state_dict(known, strict=False)
    return explainer.to(classifier.embedding.weight)


def average_words(numbers: Tensor, table: Tensor) -> Tensor:
    """Return the mean of the rows ``[B, C]`` of a table that words ``[B, M]`` have, 0 being padding."""
    there = (numbers != 0).to(table.dtype).unsqueeze(-1)
    return (F.embedding(numbers, table) * there).sum(1) / there.sum(1).clamp(min=1)


@torch.no_grad()
def read_state(classifier: Classifier, batch: Batch) -> tuple[Tensor, Tensor]:
    """Return the decisions ``[B]`` of a classifier, and the states ``[B, D]`` that it took them by."""
    states: list[Tensor] = []
    hook = classifier.classify.register_forward_pre_hook(lambda module, inputs: states.append(inputs[0]))
    try:
        logits = classifier(batch).logits
    finally:
        hook.remove()
    return logits.argmax(-1), states[0]
