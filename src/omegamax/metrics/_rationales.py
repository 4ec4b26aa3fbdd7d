"""Words that were chosen, or scored, against the words that people marked."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_number, check_type
from omegamax.metrics._rank_correlation import centre_ranks

REDUCTIONS = ("mean", "none")


@torch.no_grad()
def token_f1(chosen: Tensor, marked: Tensor, mask: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    r"""Return the F1 score of chosen words against marked ones, mean over the texts with something marked; float64.

    .. math:: F_1 = \frac{2 |C \cap M|}{|C| + |M|}

    Args:
        chosen: ``[*, L]``, bool, or 0 and 1.
        marked: likewise.
        mask: bool ``[*, L]``, True where there is a word; None: everywhere.
        reduction: ``"mean"``, NaN if nothing is marked anywhere; or ``"none"``, ``[*]``, NaN where nothing is.

        >>> chosen, marked = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 1]]), torch.tensor([[1, 0, 1, 0], [0, 0, 0, 1]])
        >>> token_f1(chosen, marked, reduction="none")
        tensor([0.5000, 1.0000], dtype=torch.float64)

    Reference: DeYoung et al., "ERASER: a benchmark to evaluate rationalized NLP models" (ACL 2020), Sec. 4.1.
    """
    c, m, _ = _read("token_f1", chosen, marked, mask, hard=True)
    both, total = (c & m).sum(-1), c.sum(-1) + m.sum(-1)
    return _reduce("token_f1", 2 * both.double() / total, has_marks(m), reduction)


@torch.no_grad()
def auprc(scores: Tensor, marked: Tensor, mask: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    """Return the area under the curve of precision over recall, mean over the texts with something marked; float64.

    The curve joins by straight lines the points that each score gives, taken as a threshold, and begins at recall 0
    and precision 1; words of equal score are chosen together.

    Args:
        scores: ``[*, L]``, the higher the likelier to be marked; a NaN spoils its own text.
        marked: ``[*, L]``, bool, or 0 and 1.
        mask, reduction: as for :func:`token_f1`.

        >>> auprc(torch.tensor([[0.7, 0.2, 0.1]]), torch.tensor([[1, 0, 1]]))
        tensor(0.7917, dtype=torch.float64)

    Reference: DeYoung et al. (ACL 2020), Sec. 4.1, computed as their code does.
    """
    z, m, there = _read("auprc", scores, marked, mask)
    order = torch.where(there, z, -math.inf).argsort(dim=-1, descending=True, stable=True)
    order = order.gather(
        -1, (~there).gather(-1, order).to(torch.int8).argsort(dim=-1, stable=True)
    )  # words, then the rest
    z, there, hits = z.gather(-1, order), there.gather(-1, order), m.gather(-1, order)
    index = torch.arange(z.shape[-1], device=z.device).expand(z.shape)
    ends = torch.ones_like(there)
    ends[..., :-1] = (z[..., 1:] != z[..., :-1]) | (there[..., 1:] != there[..., :-1])
    # Each word stands where the last one of its score does.
    last = torch.where(ends, index, z.shape[-1]).flip(-1).cummin(-1).values.flip(-1)
    true = hits.cumsum(-1).gather(-1, last).double()
    precision, recall = true / (last + 1), true / m.sum(-1, keepdim=True)
    first = torch.ones_like(precision[..., :1])
    precision, recall = torch.cat([first, precision], -1), torch.cat([0 * first, recall], -1)
    area = torch.trapezoid(precision, recall, dim=-1)
    area = torch.where((z.isnan() & there).any(-1), math.nan, area)
    return _reduce("auprc", area, has_marks(m), reduction)


@torch.no_grad()
def roc_auc(scores: Tensor, marked: Tensor, mask: Tensor | None = None, *, reduction: str = "mean") -> Tensor:
    """Return how often a marked word scores more than another of its text; ties count half; float64.

    The mean is over texts with words of both kinds: the similarity of attention to people's marks.

    Args:
        scores, marked, mask, reduction: as for :func:`auprc`.

        >>> roc_auc(torch.tensor([[0.7, 0.2, 0.2]]), torch.tensor([[1, 0, 1]]))
        tensor(0.7500, dtype=torch.float64)

    Reference: Sen et al., "Human attention maps for text classification" (ACL 2020), Sec. 4, behavioural similarity.
    """
    z, m, there = _read("roc_auc", scores, marked, mask)
    ranks = centre_ranks(z, there)
    yes, no = m.sum(-1), (there & ~m).sum(-1)
    share = torch.where(m, ranks, 0 * ranks).sum(-1) / (yes * no) + 0.5
    return _reduce("roc_auc", share, has_marks(m, there, both=True), reduction)


def iou_f1(chosen: Tensor, marked: Tensor, mask: Tensor | None = None, *, threshold: float = 0.5) -> Tensor:
    """Return the F1 score of chosen spans of words: one counts if it agrees with a marked one well enough; float64.

    A span is words in a row. Two agree by the number of words that are in both over that of words in either. The
    precision is the mean over texts of the share of chosen spans that count, the recall that of their number to the
    number of marked ones; texts with nothing chosen, or nothing marked, are left out of the one or the other.

    Args:
        chosen, marked, mask: as for :func:`token_f1`.
        threshold: how well they must agree, in (0, 1].

        >>> iou_f1(torch.tensor([[1, 1, 0, 1, 0]]), torch.tensor([[1, 1, 1, 0, 0]]))
        tensor(0.6667, dtype=torch.float64)

    Reference: DeYoung et al. (ACL 2020), Sec. 4.1, averaged as their code does.
    """
    precision, recall = match_spans(chosen, marked, mask, threshold)
    return harmonic_mean(precision.nanmean(), recall.nanmean())


@torch.no_grad()
def match_spans(
    chosen: Tensor, marked: Tensor, mask: Tensor | None = None, threshold: float = 0.5
) -> tuple[Tensor, Tensor]:
    """Return precision and recall of the spans of each text, ``[N]``; NaN where there are none to divide by."""
    check_number("iou_f1", "threshold", threshold, above=0, most=1)
    c, m, _ = _read("iou_f1", chosen, marked, mask, hard=True)
    pairs = []
    for picked, wanted in zip(c.reshape(-1, c.shape[-1]).tolist(), m.reshape(-1, m.shape[-1]).tolist(), strict=True):
        ours, theirs = _find_spans(picked), _find_spans(wanted)
        count = sum(any(_agree(a, b) >= threshold for b in theirs) for a in ours)
        pairs.append((count / len(ours) if ours else math.nan, count / len(theirs) if theirs else math.nan))
    found = torch.tensor(pairs, dtype=torch.float64, device=c.device).reshape(-1, 2)
    return found[:, 0], found[:, 1]


def harmonic_mean(precision: Tensor, recall: Tensor) -> Tensor:
    """Return the F1 score of a precision and a recall; 0 where both are, NaN where there was none."""
    total = precision + recall
    return torch.where(total == 0, total, 2 * precision * recall / total)


def has_marks(marked: Tensor, mask: Tensor | None = None, both: bool = False) -> Tensor:
    """Tell which texts ``[*]`` have a marked word, and with ``both`` also one that is not; those without do not count.

    >>> has_marks(torch.tensor([[1, 0], [1, 1], [0, 0]]), both=True)
    tensor([ True, False, False])
    """
    there = torch.ones_like(marked, dtype=torch.bool) if mask is None else mask
    marks = marked.bool() & there
    return marks.any(-1) & (there & ~marks).any(-1) if both else marks.any(-1)


def _find_spans(row: list[bool]) -> list[tuple[int, int]]:
    """Return first index and end of each run of True."""
    edges = [i for i in range(len(row) + 1) if (i > 0 and row[i - 1]) != (i < len(row) and row[i])]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _agree(a: tuple[int, int], b: tuple[int, int]) -> float:
    both = max(0, min(a[1], b[1]) - max(a[0], b[0]))
    return both / (a[1] - a[0] + b[1] - b[0] - both)


def _read(
    name: str, values: Tensor, marked: Tensor, mask: Tensor | None, hard: bool = False
) -> tuple[Tensor, Tensor, Tensor]:
    """Return values, marks and mask ``[*, L]``, what is masked being neither chosen nor marked."""
    given = {"chosen" if hard else "scores": values, "marked": marked, **({} if mask is None else {"mask": mask})}
    for argument, value in given.items():
        check_type(name, argument, value, Tensor, "a torch.Tensor")
    if values.dim() == 0 or values.shape != marked.shape or values.shape[-1] == 0:
        shapes = f"{tuple(values.shape)} and {tuple(marked.shape)}"
        raise ValueError(f"{name}: both must be [*, L] of one shape with L >= 1, got {shapes}")
    if mask is not None and (mask.dtype != torch.bool or mask.shape != values.shape):
        raise ValueError(f"{name}: mask must be bool {tuple(values.shape)}, got {mask.dtype} {tuple(mask.shape)}")
    there = torch.ones_like(values, dtype=torch.bool) if mask is None else mask
    marks = _as_bool(name, "marked", marked, there)
    if hard:
        return _as_bool(name, "chosen", values, there), marks, there
    return values.double() if not values.is_floating_point() else values, marks, there


def _as_bool(name: str, argument: str, given: Tensor, there: Tensor) -> Tensor:
    if given.dtype != torch.bool and not bool(((given == 0) | (given == 1) | ~there).all()):
        raise ValueError(f"{name}: {argument} must be bool, or 0 and 1, got other values")
    return given.bool() & there


def _reduce(name: str, values: Tensor, known: Tensor, reduction: str) -> Tensor:
    check_choice(name, "reduction", reduction, REDUCTIONS)
    values = torch.where(known, values, math.nan)
    return values if reduction == "none" else values[known].mean()
