"""How many things there are, read from the context alone: does what was seen tell a count?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from omegamax._arguments import check_integer, check_number
from omegamax._checks import check_matrices
from omegamax.data import KINDS, DataError
from omegamax.tasks.vqa.task import VQATask

NAME = "probe_counts"
Counted = tuple[Tensor, Tensor]  # contexts [N, D] and counts [N]


@dataclass(frozen=True)
class CountProbe:
    """What a probe found.

    Args:
        accuracy: share of the test contexts whose count it names.
        baseline: the same for the count that is most frequent in training.
        error: mean distance between the count it names and the true one.
        questions: how many test contexts there were.
    """

    accuracy: float
    baseline: float
    error: float
    questions: int


@torch.no_grad()
def collect_counts(task: VQATask, batches: Iterable[dict[str, Any]]) -> Counted:
    """Return the contexts ``[N, D]`` of all questions whose answer is a number, and these numbers ``[N]``.

    The network is asked in evaluation mode, and is left in the mode it was in. A question is left out if its best
    answer is no integer.
    """
    numbers = [int(answer) if answer.isdecimal() else -1 for answer in task.vocabulary.answers]
    of_answer = torch.tensor(numbers)
    contexts, counts = [], []
    training = task.training
    task.eval()
    try:
        for batch in batches:
            best, choice = batch["answers"].max(-1)
            count = torch.where(best > 0, of_answer.to(choice.device)[choice], -1)
            asked = (batch["kind"] == KINDS.index("number")) & (count >= 0)
            contexts.append(task(batch).context[asked].double().cpu())
            counts.append(count[asked].cpu())
    finally:
        task.train(training)
    if not contexts or not sum(map(len, counts)):
        raise DataError("collect_counts: no question has a number for an answer; give batches of a set that counts")
    return torch.cat(contexts), torch.cat(counts)


def probe_counts(train: Counted, test: Counted, *, hidden: int = 0, penalty: float = 1e-3, seed: int = 0) -> CountProbe:
    r"""Train a classifier of counts on frozen contexts, and measure it on others.

    .. math:: \min_\theta \; -\frac1N \sum_n \log \mathrm{softmax}\bigl(f_\theta(c_n)\bigr)_{y_n}
              + \frac{\lambda}{2} \|\theta\|^2

    f is linear, or has one layer of ``hidden`` units (tanh) between; contexts are standardised by mean and deviation of
    the training part. Solved by L-BFGS over all examples in double precision: the same numbers give the same probe. A
    count that training does not have is never named.

    Args:
        train, test: contexts ``[N, D]`` and counts ``[N]``, as :func:`collect_counts` gives them.
        hidden: units; 0: linear.
        penalty: :math:`\lambda`, of weights without biases.
        seed: of the first weights of hidden units.

        >>> counts = torch.arange(40) % 4
        >>> sums = counts[:, None] * torch.tensor([[1.0, -2.0]])
        >>> probe_counts((sums, counts), (sums, counts))
        CountProbe(accuracy=1.0, baseline=0.25, error=0.0, questions=40)
    """
    hidden = check_integer(NAME, "hidden", hidden, least=0)
    penalty = check_number(NAME, "penalty", penalty, above=0)
    (x, y), (x_test, y_test) = _check("train", train), _check("test", test)
    if x.shape[1] != x_test.shape[1]:
        given = f"{x.shape[1]} and {x_test.shape[1]}"
        raise ValueError(f"{NAME}: train and test must have contexts with as many features, got {given}")
    mean, deviation = x.mean(0), x.std(0, correction=0)
    deviation = torch.where(deviation > 0, deviation, 1.0)
    x, x_test = (x - mean) / deviation, (x_test - mean) / deviation
    classes, labels = y.unique(return_inverse=True)
    sizes = [x.shape[1], *([hidden] if hidden else []), len(classes)]
    generator = torch.Generator().manual_seed(seed)
    layers = []
    for inputs, outputs in pairwise(sizes):
        first = torch.randn(outputs, inputs, generator=generator, dtype=torch.float64) / inputs**0.5
        # A linear probe has one optimum, and starts from nothing.
        layers.append((first if hidden else torch.zeros_like(first), torch.zeros(outputs, dtype=torch.float64)))
    _minimise(layers, x, labels, penalty)
    with torch.no_grad():
        said = classes[_logits(layers, x_test).argmax(-1)]
        usual = classes[labels.bincount().argmax()]
    return CountProbe(
        accuracy=float((said == y_test).double().mean()),
        baseline=float((usual == y_test).double().mean()),
        error=float((said - y_test).abs().double().mean()),
        questions=len(y_test),
    )


def _minimise(layers: list[tuple[Tensor, Tensor]], x: Tensor, labels: Tensor, penalty: float) -> None:
    parameters = [p.requires_grad_() for layer in layers for p in layer]
    optimiser = torch.optim.LBFGS(
        parameters, max_iter=500, tolerance_grad=1e-9, tolerance_change=0.0, line_search_fn="strong_wolfe"
    )

    def loss() -> Tensor:
        optimiser.zero_grad()
        decay = sum(weight.square().sum() for weight, _ in layers)
        value = F.cross_entropy(_logits(layers, x), labels) + penalty / 2 * decay
        value.backward()
        return value

    optimiser.step(loss)


def _logits(layers: list[tuple[Tensor, Tensor]], x: Tensor) -> Tensor:
    *inner, last = layers
    for weight, bias in inner:
        x = F.linear(x, weight, bias).tanh()
    return F.linear(x, *last)


def _check(argument: str, given: Counted) -> Counted:
    x, y = given
    check_matrices(NAME, f"contexts of {argument}", x, "[N, D]")
    if x.dim() != 2 or y.shape != x.shape[:1] or not len(y) or y.is_floating_point():
        shapes = f"{tuple(x.shape)} and {tuple(y.shape)} of {y.dtype}"
        raise ValueError(f"{NAME}: {argument} must be contexts [N, D] and N counts, integers, N >= 1, got {shapes}")
    return x.detach().cpu().double(), y.cpu().long()
