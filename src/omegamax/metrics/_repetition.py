"""How much text repeats itself."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer
from omegamax._checks import check_integers

WINDOWS = (16, 32, 128, 512)


def rep(
    predictions: Tensor,
    targets: Tensor | None = None,
    window: int | tuple[int, ...] = WINDOWS,
    *,
    lengths: Tensor | None = None,
) -> Tensor:
    r"""Return the share of predictions that occur among the last ``window`` true tokens; in [0, 1].

    .. math:: \frac1n \sum_t \bigl[\hat x_t \in \{x_{t - \ell}, \dots, x_{t - 1}\}\bigr]

    Args:
        predictions: of each token from the true ones before it, ``[*, T]``: the likeliest (Welleck et al.) or drawn
            (Martins et al.).
        targets: true tokens ``[*, T]``; without them, predictions are a text of its own that repeats itself.
        window: l; or several, for one result each. Those of the papers by default, who report the mean over them.
        lengths: tokens of each sequence ``[*]``; all T by default.

    Returns:
        float64, a scalar, or one number for each window; over all tokens of all sequences. NaN without any.

        >>> text = torch.tensor([4, 7, 4, 4, 2, 7])
        >>> rep(text, window=(1, 2, 4))
        tensor([0.1667, 0.3333, 0.5000], dtype=torch.float64)

    References: Welleck et al., "Neural text generation with unlikelihood training" (ICLR 2020); Martins, Marinho &
    Martins, "Sparse text generation" (EMNLP 2020).
    """
    return _rep("rep", predictions, targets, window, lengths, wrong=False)


def wrep(
    predictions: Tensor,
    targets: Tensor,
    window: int | tuple[int, ...] = WINDOWS,
    *,
    lengths: Tensor | None = None,
) -> Tensor:
    r"""Count as :func:`~omegamax.metrics.rep` does, but wrong predictions only: the text's repetitions are none.

    .. math:: \frac1n \sum_t \bigl[\hat x_t \in \{x_{t - \ell}, \dots, x_{t - 1}\} \wedge \hat x_t \ne x_t\bigr]

    Args:
        predictions, targets, window, lengths: as there.

        >>> text = torch.tensor([4, 7, 4, 4, 2, 7])
        >>> wrep(torch.tensor([4, 4, 4, 7, 4, 4]), text, window=2), rep(torch.tensor([4, 4, 4, 7, 4, 4]), text, 2)
        (tensor(0.6667, dtype=torch.float64), tensor(0.8333, dtype=torch.float64))
    """
    return _rep("wrep", predictions, targets, window, lengths, wrong=True)


def ngram_repetition(tokens: Tensor, n: int = 4, *, lengths: Tensor | None = None) -> Tensor:
    r"""Return the share of a sequence's n-grams that it had before (seq-rep-n), in [0, 1]; ``[*, T] -> [*]``.

    .. math:: 1 - \frac{|\text{distinct n-grams}|}{|\text{n-grams}|}

    Args:
        tokens: sequences ``[*, T]``.
        n: tokens in an n-gram.
        lengths: tokens of each sequence ``[*]``. One shorter than n has no n-gram, and NaN.

        >>> ngram_repetition(torch.tensor([[1, 2, 1, 2, 1], [1, 2, 3, 4, 5]]), n=2)
        tensor([0.5000, 0.0000], dtype=torch.float64)

    Reference: Welleck et al., "Neural text generation with unlikelihood training" (ICLR 2020).
    """
    grams, row, shape = find_ngrams("ngram_repetition", tokens, n, lengths)
    own = torch.cat([row[:, None], grams], 1).unique(dim=0)[:, 0] if len(grams) else row
    count = math.prod(shape)
    share = own.bincount(minlength=count).double() / row.bincount(minlength=count)
    return (1 - share).reshape(shape)


def distinct(tokens: Tensor, n: int = 1, *, lengths: Tensor | None = None, per: str = "ngrams") -> Tensor:
    r"""Return how many of the n-grams of a whole set of sequences are distinct (distinct-n), in [0, 1]; a scalar.

    Unlike in :func:`~omegamax.metrics.ngram_repetition`, sequences that repeat each other count as well.

    Args:
        tokens: sequences ``[*, T]``.
        n: tokens in an n-gram.
        lengths: tokens of each sequence ``[*]``; all T by default.
        per: what their number is divided by: that of all ``"ngrams"``, or of ``"tokens"`` (Li et al.).

        >>> tokens = torch.tensor([[1, 2, 3, 2], [1, 2, 3, 4]])
        >>> distinct(tokens, 2), distinct(tokens, 2, per="tokens")
        (tensor(0.6667, dtype=torch.float64), tensor(0.5000, dtype=torch.float64))

    Reference: Li et al., "A diversity-promoting objective function for neural conversation models" (NAACL 2016).
    """
    name = "distinct"
    check_choice(name, "per", per, ("ngrams", "tokens"))
    grams, *_ = find_ngrams(name, tokens, n, lengths)
    found = len(grams.unique(dim=0)) if len(grams) else 0
    if per == "ngrams":
        total = len(grams)
    else:
        total = tokens.numel() if lengths is None else int(lengths.sum())
    return torch.tensor(found / total if total else math.nan, dtype=torch.float64, device=tokens.device)


def _rep(
    name: str,
    predictions: Tensor,
    targets: Tensor | None,
    window: int | tuple[int, ...],
    lengths: Tensor | None,
    wrong: bool,
) -> Tensor:
    several = isinstance(window, tuple | list)
    counts, total = count_repeated(name, predictions, targets, tuple(window) if several else (window,), lengths, wrong)  # type: ignore[arg-type]
    shares = counts / total.double()
    return shares if several else shares[0]


def count_repeated(
    name: str,
    predictions: Tensor,
    targets: Tensor | None,
    windows: tuple[int, ...],
    lengths: Tensor | None,
    wrong: bool,
) -> tuple[Tensor, Tensor]:
    """Return how many predictions occur among the true tokens of each window, ``[windows]``, and how many there are."""
    if not windows:
        raise ValueError(f"{name}: window must name at least one length, got none")
    for size in windows:
        check_integer(name, "window", size, 1)
    _check_tokens(name, "predictions", predictions)
    targets = predictions if targets is None else targets
    _check_tokens(name, "targets", targets)
    if targets.shape != predictions.shape:
        wanted = f"targets of the predictions' shape {tuple(predictions.shape)}"
        raise ValueError(f"{name}: wanted {wanted}, got {tuple(targets.shape)}")
    inside = _inside(name, predictions, lengths)
    counted = inside & (predictions != targets) if wrong else inside
    steps = predictions.shape[-1]
    # How many tokens back a prediction is seen first; padding stands behind, and is never looked back at.
    back = torch.full_like(predictions, steps, dtype=torch.long)
    for offset in range(min(max(windows), steps - 1), 0, -1):
        back[..., offset:][predictions[..., offset:] == targets[..., :-offset]] = offset
    return torch.stack([(counted & (back <= min(size, steps - 1))).sum() for size in windows]), inside.sum()


def find_ngrams(name: str, tokens: Tensor, n: int, lengths: Tensor | None) -> tuple[Tensor, Tensor, torch.Size]:
    """Return all n-grams ``[M, n]``, which sequence each is of, ``[M]``, and the shape of the sequences."""
    _check_tokens(name, "tokens", tokens)
    check_integer(name, "n", n, 1)
    inside = _inside(name, tokens, lengths)
    rows, inside = (t.flatten(0, -2) if t.dim() > 1 else t[None] for t in (tokens, inside))
    if rows.shape[1] < n:
        return rows.new_zeros(0, n), rows.new_zeros(0, dtype=torch.long), tokens.shape[:-1]
    row, at = inside[:, n - 1 :].nonzero(as_tuple=True)  # an n-gram counts if its last token does
    return rows.unfold(1, n, 1)[row, at], row, tokens.shape[:-1]


def _inside(name: str, tokens: Tensor, lengths: Tensor | None) -> Tensor:
    """Return which tokens belong to a sequence, ``[*, T]``."""
    if lengths is None:
        return torch.ones_like(tokens, dtype=torch.bool)
    check_integers(name, "lengths", lengths)
    if lengths.shape != tokens.shape[:-1]:
        wanted = f"shape {tuple(tokens.shape[:-1])}"
        raise ValueError(f"{name}: lengths must have {wanted}, got {tuple(lengths.shape)}")
    if lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= tokens.shape[-1]:
        raise ValueError(f"{name}: lengths must lie in [0, {tokens.shape[-1]}], the tokens of a row")
    return torch.arange(tokens.shape[-1], device=tokens.device) < lengths[..., None]


def _check_tokens(name: str, argument: str, tokens: Tensor) -> None:
    check_integers(name, argument, tokens, "a tensor of tokens")
    if tokens.dim() == 0:
        raise ValueError(f"{name}: {argument} must have shape [*, T], got a scalar")
