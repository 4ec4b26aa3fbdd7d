"""Which words a decision hangs on: scores of the words of a text by attention, by gradients, by taking words away.

Each takes a classifier in evaluation mode and a batch with ``words [B, L]``, 0 for padding, and returns scores ``[B,
L]``: the higher, the sooner a word is told. A score of ``-inf`` is that of a word that is never told; padding has it.

Of pairs of sentences the words of the first are scored, and the batch has the others as ``second [B, M]``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_integer
from omegamax.models.text import EntailmentAnswer, EntailmentClassifier, TextAnswer, TextClassifier

Classifier = TextClassifier | EntailmentClassifier
Batch = Mapping[str, Any]
# Words read at once where many texts are made of one: some 150 MB of embeddings of size 300, and 600 MB.
_WORDS = {"cpu": 1 << 17, "cuda": 1 << 19}


def compute_log_odds(logits: Tensor, decided: Tensor) -> Tensor:
    r"""Return the log-odds of a class ``[B]`` from logits ``[B, C]``, :math:`z_y - \log \sum_{c \ne y} \exp z_c`.

    Under softmax they rise with the probability p of the class, as log p / (1 - p), and do not saturate where p rounds
    to 1: words are ranked by the one as by the other.

        >>> compute_log_odds(torch.tensor([[2.0, 0.5]]), torch.tensor([0]))
        tensor([1.5000])
    """
    own = torch.zeros_like(logits, dtype=torch.bool).scatter(-1, decided.unsqueeze(-1), True)
    return logits.gather(-1, decided.unsqueeze(-1)).squeeze(-1) - logits.masked_fill(own, -torch.inf).logsumexp(-1)


@torch.no_grad()
def decide(model: Classifier, batch: Batch) -> Tensor:
    """Return the classes that a classifier gives to texts, ``[B]``."""
    return model(batch).logits.argmax(-1)


def read_attention(answer: TextAnswer | EntailmentAnswer) -> Tensor:
    r"""Return the attention that each word was paid, ``[B, L]``, summing to one where there is any.

    Of two sentences it is the share of the alignment that each word of the first has, as the words of the second see
    it: :math:`\sum_j B_{ji} / \sum_{ji} B_{ji}` with the way back B.
    """
    if isinstance(answer, TextAnswer):
        return answer.attention.weights
    mass = answer.attention.back.sum(1)
    total = mass.sum(-1, keepdim=True)
    return mass / torch.where(total == 0, 1.0, total)


@torch.no_grad()
def score_by_attention(model: Classifier, batch: Batch) -> Tensor:
    """Return the attention that each word was paid; words with exactly none are never told.

    >>> from omegamax.models.text import TextConfig
    >>> model = TextClassifier(TextConfig.small(words=9, classes=2)).eval()
    >>> score_by_attention(model, {"words": torch.tensor([[4, 0]])})
    tensor([[1., -inf]])
    """
    answer = model(batch)
    weights = read_attention(answer)
    empty = answer.attention.empty() if isinstance(answer, TextAnswer) else weights == 0
    return weights.masked_fill(empty, -torch.inf)


def score_by_gradient(model: Classifier, batch: Batch) -> Tensor:
    r"""Return the magnitude of gradient times input, :math:`|\langle \partial s / \partial x_l, x_l \rangle|`.

    Here :math:`x_l` is the embedding of a word, and s the log-odds of the class that the classifier decides for.
    """
    words = batch["words"]
    mask = words != 0
    x = model.embedding(words).detach().requires_grad_()
    with torch.enable_grad(), _differentiable(model):
        if isinstance(model, EntailmentClassifier):
            logits = model.read(x, mask, model.embedding(batch["second"]).detach(), batch["second"] != 0).logits
        else:
            logits = model.read(x, mask).logits
        (gradient,) = torch.autograd.grad(compute_log_odds(logits, logits.argmax(-1)).sum(), x)
    return (gradient * x.detach()).sum(-1).abs().masked_fill(~mask, -torch.inf)


@contextmanager
def _differentiable(model: Classifier) -> Iterator[None]:
    """Let recurrent layers have gradients, for which cuDNN wants training: the same, unless they drop something out."""
    layers = [each for each in model.modules() if isinstance(each, torch.nn.RNNBase) and not each.training]
    if any(each.dropout for each in layers):
        with torch.backends.cudnn.flags(enabled=False):
            yield
        return
    try:
        for each in layers:
            each.training = True
        yield
    finally:
        for each in layers:
            each.training = False


@torch.no_grad()
def score_by_leaving_out(model: Classifier, batch: Batch, decided: Tensor | None = None) -> Tensor:
    r"""Return by how much the log-odds of the decision fall when a word is taken out of the text.

    .. math:: s(x) - s(x_1, \dots, x_{l - 1}, x_{l + 1}, \dots, x_L)

    The only word of a text has the score 0: nothing is left to be read without it.

    Args:
        model, batch: as above.
        decided: classes whose odds are meant, ``[B]``; None: those that the classifier decides for.
    """

    def compare(whole: Tensor, without: Tensor, texts: Tensor) -> Tensor:
        best = whole.argmax(-1) if decided is None else decided[texts]
        return compute_log_odds(whole, best) - compute_log_odds(without, best)

    return _leave_out(model, batch, compare)


@torch.no_grad()
def score_by_variation(model: Classifier, batch: Batch) -> Tensor:
    r"""Return how far the probabilities of the classes move, in any direction, when a word is taken out of the text.

    .. math:: \tfrac12 \sum_c |p_c(x) - p_c(x_1, \dots, x_{l - 1}, x_{l + 1}, \dots, x_L)|

    The total variation distance: a word that speaks against the decision counts as much as one that speaks for it. The
    only word of a text has the score 0.
    """
    return _leave_out(
        model, batch, lambda whole, without, _: (whole.softmax(-1) - without.softmax(-1)).abs().sum(-1) / 2
    )


def _leave_out(model: Classifier, batch: Batch, compare: Callable[[Tensor, Tensor, Tensor], Tensor]) -> Tensor:
    """Return for each word what compares the logits ``[N, C]`` with it, those without it, and the rows of texts."""
    words = batch["words"]
    mask = words != 0
    scores = torch.full(words.shape, -torch.inf, dtype=model.embedding.weight.dtype, device=words.device)
    scores[mask] = 0.0
    text, place = (mask & (mask.sum(-1, keepdim=True) > 1)).nonzero(as_tuple=True)
    if not len(text):
        return scores
    rows, row = text.unique(return_inverse=True)
    whole = model(_take_rows(batch, rows)).logits
    at_once = max(1, _WORDS.get(words.device.type, _WORDS["cpu"]) // words.shape[1])
    parts = zip(*(each.split(at_once) for each in (text, row, place)), strict=True)
    found = [
        compare(whole[r], model({**_take_rows(batch, b), "words": remove_word(words[b], i)}).logits, b)
        for b, r, i in parts
    ]
    scores[text, place] = torch.cat(found)
    return scores


@torch.no_grad()
def score_by_erasing(model: Classifier, batch: Batch, k: int) -> Tensor:
    """Return k for the word without which the decision loses most, k - 1 for the next once this one is gone, and so on.

    Greedy erasure: :func:`score_by_leaving_out`, k times, each time of the text that is left. Other words are never
    told.
    """
    check_integer("score_by_erasing", "k", k, least=1)
    decided, words = decide(model, batch), batch["words"]
    scores = torch.full(words.shape, -torch.inf, device=words.device)
    places = torch.arange(words.shape[1], device=words.device).expand(words.shape)
    for rank in range(k, 0, -1):
        texts = (words != 0).any(-1).nonzero().squeeze(-1)
        if not len(texts):
            break
        worst = score_by_leaving_out(model, {**batch, "words": words}, decided).argmax(-1)
        scores[texts, places[texts, worst[texts]]] = float(rank)
        words, places = remove_word(words, worst), remove_word(places, worst)
        if not words.shape[1]:
            break
    return scores


def score_at_random(batch: Batch, generator: torch.Generator) -> Tensor:
    """Return scores that know nothing of the text."""
    words = batch["words"]
    return torch.rand(words.shape, generator=generator).to(words.device).masked_fill(words == 0, -torch.inf)


def remove_word(words: Tensor, place: Tensor) -> Tensor:
    """Return each row ``[B, L]`` without one of its entries, ``[B, L - 1]``.

    >>> remove_word(torch.tensor([[5, 6, 7], [5, 6, 7]]), torch.tensor([0, 2]))
    tensor([[6, 7],
            [5, 6]])
    """
    index = torch.arange(words.shape[1] - 1, device=words.device)
    return words.gather(1, index + (index >= place.unsqueeze(-1)))


def take_words(batch: Batch, device: torch.device) -> dict[str, Tensor]:
    """Return what a classifier reads of a batch, on its device."""
    names: tuple[str, ...] = ("words", "second")
    return {key: batch[key].to(device) for key in names if key in batch}


def _take_rows(batch: Batch, rows: Tensor) -> dict[str, Tensor]:
    """Return what a classifier reads of some of the texts."""
    return {key: each[rows] for key, each in take_words(batch, rows.device).items()}
