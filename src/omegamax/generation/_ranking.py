"""The best of each row of a batch, where rows have any number of entries, and what is known of the rest."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from omegamax.generation._sequences import Beams

_NARROW = 64  # tokens that are taken of a sequence without asking how many there are


def cut(row: Tensor, value: Tensor, limit: int) -> tuple[Tensor, Tensor]:
    """Return indices of the ``limit`` largest values of each row, by row and falling, ties in order.

    The second result is the indices of the others.
    """
    order = value.argsort(descending=True, stable=True)
    order = order[row[order].argsort(stable=True)]
    rank = ranks(row[order])
    return order[rank < limit], order[rank >= limit]


def ranks(row: Tensor) -> Tensor:
    """Return the index of each entry within its row; rows are sorted."""
    return torch.arange(len(row), device=row.device) - torch.searchsorted(row, row)


def expansions(log_p: Tensor, beam: int) -> tuple[Tensor, Tensor, Tensor]:
    """Return the ``beam`` likeliest tokens of each sequence, as (sequence, token), and the best of all others, ``[N]``.

    Of equal tokens the first count. What has no probability is not among them.
    """
    count = min(beam, log_p.shape[1])
    if count > _NARROW:
        count = max(1, min(count, int((log_p > -math.inf).sum(-1).amax())))
    values, tokens = log_p.topk(min(count + 1, log_p.shape[1]))
    rest = values[:, count] if values.shape[1] > count else torch.full_like(values[:, 0], -math.inf)
    least = values[:, count - 1]
    if bool(((rest == least) & (rest > -math.inf)).any()):
        # Some row has a tie where it is cut, which topk breaks as it likes.
        above, level = log_p > least[:, None], log_p == least[:, None]
        room = count - above.sum(-1, keepdim=True)
        chosen = (above | (level & (level.cumsum(-1) <= room))) & (log_p > -math.inf)
        sequence, token = chosen.nonzero(as_tuple=True)
        return sequence, token, rest
    tokens = tokens[:, :count].sort(-1).values
    sequence, slot = (log_p.gather(1, tokens) > -math.inf).nonzero(as_tuple=True)
    return sequence, tokens[sequence, slot], rest


@dataclass
class Entries:
    """Sequences of a batch in one list: which row, how likely, which tokens ``[M, T]``."""

    row: Tensor
    log_prob: Tensor
    tokens: Tensor

    def __len__(self) -> int:
        return len(self.row)

    def __getitem__(self, index: Tensor) -> Entries:
        return Entries(self.row[index], self.log_prob[index], self.tokens[index])


class FinishedSequences:
    """Sequences that ended, the best ``limit`` of each row, and a bound for all that are not among them.

    Args:
        batch: number of rows.
        limit: sequences of each to keep.
        start: entries from which the search begins, for their kind of tensors.
        fill: padding.
        penalty: power of the length by which log-probabilities are divided.
        max_length: the largest length.
    """

    def __init__(self, batch: int, limit: int, start: Entries, fill: int, penalty: float, max_length: int):
        self.limit, self.fill, self.penalty, self.max_length = limit, fill, penalty, max_length
        self.entries = start[torch.zeros(0, dtype=torch.long, device=start.row.device)]
        self.entries.tokens = self.entries.tokens[:, :0]
        self.length = self.entries.row
        self.finished = self.entries.row.bool()
        self.bound = torch.full((batch,), -math.inf, dtype=start.log_prob.dtype, device=start.row.device)

    def leave(self, row: Tensor, log_prob: Tensor) -> None:
        """Take note of sequences, or beginnings of some, that are not followed."""
        self.bound.scatter_reduce_(0, row, log_prob, "amax")

    def add(self, new: Entries, finished: Tensor) -> None:
        """Keep the best of the old and of the new, which have one length, the largest so far."""
        old, width = self.entries, new.tokens.shape[1]
        padded = torch.nn.functional.pad(old.tokens, (0, width - old.tokens.shape[1]), value=self.fill)
        both = Entries(
            torch.cat([old.row, new.row]),
            torch.cat([old.log_prob, new.log_prob]),
            torch.cat([padded, new.tokens]),
        )
        length = torch.cat([self.length, torch.full_like(new.row, width)])
        kept, left = cut(both.row, self.score(both.log_prob, length), self.limit)
        self.leave(both.row[left], both.log_prob[left])
        self.entries, self.length = both[kept], length[kept]
        self.finished = torch.cat([self.finished, finished])[kept]

    def score(self, log_prob: Tensor, length: Tensor) -> Tensor:
        """Return the score by which sequences are ranked."""
        return log_prob / length.to(log_prob.dtype) ** self.penalty if self.penalty else log_prob

    def hopeful(self, live: Entries) -> Tensor:
        """Tell whether a beginning may still lead to a sequence that enters; no continuation is likelier than it."""
        ceiling = live.log_prob / self.max_length**self.penalty
        # The worst of each full row; a row with room admits all.
        last = ranks(self.entries.row) == self.limit - 1
        worst = torch.full_like(self.bound, -math.inf)
        worst[self.entries.row[last]] = self.score(self.entries.log_prob, self.length)[last]
        return ceiling > worst[live.row]

    def beams(self) -> Beams:
        """Return all of it, in rows."""
        row, slot = self.entries.row, ranks(self.entries.row)
        batch, width = len(self.bound), int(slot.max()) + 1 if len(slot) else 0
        longest = int(self.length.max()) if len(slot) else 0

        def rows(values: Tensor, fill: float) -> Tensor:
            table = values.new_full((batch, width, *values.shape[1:]), fill)
            table[row, slot] = values
            return table

        scores = rows(self.score(self.entries.log_prob, self.length), -math.inf)
        log_probs = rows(self.entries.log_prob, -math.inf)
        there = log_probs > -math.inf
        if self.penalty:
            # The bound says nothing about scores; but where nothing is outside, nothing outside is better.
            sure = there & (self.bound == -math.inf)[:, None]
        else:
            sure = there & (log_probs >= self.bound[:, None])
        return Beams(
            tokens=rows(self.entries.tokens[:, :longest], self.fill),
            log_probs=log_probs,
            lengths=rows(self.length, 0),
            finished=rows(self.finished, False),
            scores=scores,
            bound=self.bound,
            proven=sure.sum(-1),
        )
