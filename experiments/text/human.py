"""Attention beside the words that people marked in Yelp-HAT, and answers without the words that were looked at."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from sets import Part
from torch import Tensor
from training import Loop, long_batches, take

from omegamax.metrics import comprehensiveness, jensen_shannon, rank_correlation, roc_auc, sufficiency

SHARES = (0.01, 0.05, 0.1, 0.2, 0.5)  # of the words of a text, as in ERASER; measures are means over these
MEASURES = ("accuracy", "js", "auc", "rank", "comprehensiveness", "sufficiency")
BESIDE = ("js_equal", "comprehensiveness_random", "sufficiency_random")  # equal weights; words drawn at random
HUMAN_KEYS = ("subset", "kind", "seed")
HUMAN_COLUMNS = (*HUMAN_KEYS, "texts", *MEASURES, *BESIDE)


@torch.no_grad()
def agree(loop: Loop, part: Part, job: Mapping[str, Any]) -> dict[str, Any]:
    """Return the measures of a network on the reviews of a part, means over those for which each is known."""
    loop.task.eval()
    assert part.marks is not None
    found: dict[str, list[Tensor]] = {name: [] for name in (*MEASURES, *BESIDE)}
    draws = torch.Generator().manual_seed(0)
    for rows in long_batches(part):
        batch = take(part, rows)
        words, marks, label = batch["words"], batch["marks"], batch["label"]
        with loop.precision():
            answer = loop.task.classifier(batch)
        full, mask = answer.logits.float().softmax(-1), answer.attention.mask
        weights = answer.attention.weights.float()
        found["accuracy"].append((full.argmax(-1) == label).double())
        marked = marks.sum(-1) > 0  # of others there is no map
        found["js"].append(jensen_shannon(weights[marked], marks[marked], mask=mask[marked]).double())
        found["js_equal"].append(jensen_shannon(mask[marked].float(), marks[marked], mask=mask[marked]).double())
        found["auc"].append(roc_auc(weights, marks >= 0.5, mask, reduction="none"))
        found["rank"].append(rank_correlation(weights, marks, mask=mask).double())
        random = torch.rand(words.shape, generator=draws).to(words.device)
        for scores, end in ((weights, ""), (random, "_random")):
            without, only = erase(loop, words, scores, full)
            found[f"comprehensiveness{end}"].append(without)
            found[f"sufficiency{end}"].append(only)
    means = {name: round(torch.cat(values).nanmean().item(), 6) for name, values in found.items()}
    return {"kind": job["kind"], "seed": job["seed"], "texts": len(part), **means}


def erase(loop: Loop, words: Tensor, scores: Tensor, full: Tensor) -> tuple[Tensor, Tensor]:
    """Return comprehensiveness and sufficiency of each text, ``[B]``, means over the shares of words."""
    mask = words != 0
    order = scores.masked_fill(~mask, -torch.inf).argsort(dim=-1, descending=True, stable=True)
    rank = order.argsort(dim=-1)
    lengths = mask.sum(-1, keepdim=True)
    falls: list[tuple[Tensor, Tensor]] = []
    for share in SHARES:
        chosen = mask & (rank < (lengths * share).ceil())
        without = probabilities(loop, keep(words, mask & ~chosen))
        only = probabilities(loop, keep(words, chosen))
        falls.append((comprehensiveness(full, without, reduction="none"), sufficiency(full, only, reduction="none")))
    without, only = (torch.stack(each).mean(0).double() for each in zip(*falls, strict=True))
    return without, only


def keep(words: Tensor, kept: Tensor) -> Tensor:
    """Return texts of some of their words, side by side; one without any has an unknown word.

    >>> keep(torch.tensor([[4, 5, 6], [7, 8, 0]]), torch.tensor([[True, False, True], [False, False, False]]))
    tensor([[4, 6],
            [1, 0]])
    """
    order = (~kept).to(torch.int8).argsort(dim=-1, stable=True)
    longest = max(1, int(kept.sum(-1).max()))
    shorter = (words * kept).gather(1, order)[:, :longest].clone()
    shorter[:, 0] = torch.where(kept.any(-1), shorter[:, 0], 1)
    return shorter


def probabilities(loop: Loop, words: Tensor) -> Tensor:
    """Return the probabilities of the classes of texts."""
    with loop.precision():
        return loop.task.classifier({"words": words}).logits.float().softmax(-1)
