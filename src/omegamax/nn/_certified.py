"""Which pages of a cache have to be read, and the proof that the rest of them do not matter."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from omegamax._numerics import working_dtype
from omegamax.functional import entmax
from omegamax.nn.paged_cache import PagedCache

_ROOM = 1 << 24  # entries of keys that are gathered at a time
_MANY = 0.25  # share of the pages from which on it is quicker to read all, without gathering them


class Certificate(NamedTuple):
    r"""The proof that attention to a part of a :class:`~omegamax.nn.PagedCache` is attention to all of it.

    Entmax gives weight to the scores above a threshold only, and keys that are added can only raise it: at the old one
    the sum of weights would be one at least. So where ``bound <= threshold``, no key that was not read has any weight,
    or any influence on the weights of the others. All are ``[*, H, L]``.
    """

    pages_read: Tensor
    """How many pages were read."""
    pages: Tensor
    """How many there were to be seen."""
    bound: Tensor
    """What no unread score exceeds; -inf if all pages were read."""
    threshold: Tensor
    """Scores up to here have no weight; less what rounding may make of it."""

    @property
    def holds(self) -> Tensor:
        """Return where the result is proven to be that of all keys: everywhere, but for NaN."""
        return self.bound <= self.threshold

    @property
    def share(self) -> Tensor:
        """Return the share of pages that were read; 0 where there were none."""
        return self.pages_read / self.pages.clamp(min=1)


class PageReader:
    """Queries ``[R, D]`` on their way through the pages, each with the keys that may still have weight.

    ``scores`` and ``index`` are ``[R, W]``: W is the largest number of such keys, and rows with fewer have -inf.
    """

    def __init__(self, q: Tensor, cache: PagedCache, groups: int, limits: Tensor, alpha: float | Tensor):
        *lead, heads, count, features = q.shape
        grouped = q.reshape(*lead, groups, heads // groups * count, features)
        self.q = q.reshape(-1, features)
        rows = len(self.q)
        self.page, self.keys = cache.page, cache.keys.flatten(0, -3)
        self.text = torch.arange(len(self.keys), device=q.device).repeat_interleave(grouped.shape[-2])
        self.limits = limits.expand(*lead, heads, count).reshape(-1)
        self.alpha = (
            alpha.double().expand(*lead, heads, count, 1).reshape(rows, 1) if isinstance(alpha, Tensor) else alpha
        )
        reach = 1 / (self.alpha - 1)
        seen = self.limits.reshape(grouped.shape[:-1])
        bounds = cache.bound_pages(grouped, seen, reach.reshape(seen.shape) if isinstance(reach, Tensor) else reach)
        upper, least, rounding = (t.reshape(rows, cache.pages) for t in bounds)
        self.bounds, self.order = upper.sort(dim=-1, descending=True, stable=True)
        self.rounding = rounding.gather(-1, self.order)
        self.off = q.new_zeros(rows)  # the most by which a score that was read may be off
        self.scores = q.new_full((rows, 1), -math.inf)
        self.index = torch.zeros(rows, 1, dtype=torch.long, device=q.device)
        # Keys with the least scores that there can be have a threshold that is no higher than that of the keys.
        self.threshold = self._find_threshold(least, self.alpha, self.off[:, None]).squeeze(-1)
        self.pages_read = torch.zeros(rows, dtype=torch.long, device=q.device)

    def read(self) -> None:
        """Read pages in the order of their bounds, until none that is left can matter."""
        seen = self.bounds > -math.inf
        needed = seen & ~(self.bounds <= self.threshold[:, None])
        if needed.sum() > _MANY * seen.sum():
            self._read_all(seen)
            return
        start, total = 0, self.bounds.shape[-1]
        active = self._find_active(start)
        while len(active):
            needed = self.bounds[active, start:] > self.threshold[active, None]
            room = _ROOM // (len(active) * self.page * self.q.shape[-1])
            end = min(start + max(1, min(int(needed.sum(-1).amax()), room)), total)
            self._read_pages(active, start, end)
            start = end
            active = self._find_active(start)

    def certify(self, shape: tuple[int, ...]) -> Certificate:
        """Return what was read and what was left out, in this shape."""
        seen = self.bounds > -math.inf
        left = torch.arange(self.bounds.shape[-1], device=self.bounds.device) >= self.pages_read[:, None]
        bound = self.bounds.masked_fill(~left, -math.inf).amax(-1)
        found = (self.pages_read, seen.sum(-1), bound, self.threshold.to(bound.dtype))
        return Certificate(*(t.reshape(shape) for t in found))

    def _find_active(self, start: int) -> Tensor:
        """Return the rows for which the next page may matter; one without a threshold, NaN, reads on."""
        if start >= self.bounds.shape[-1]:
            return self.text[:0]
        ahead = self.bounds[:, start]
        return ((ahead > -math.inf) & ~(ahead <= self.threshold)).nonzero().squeeze(-1)

    def _read_all(self, seen: Tensor) -> None:
        """Read all keys at once, for all queries that share them."""
        self.pages_read = seen.sum(-1)
        self.off = self.rounding.masked_fill(~seen, 0.0).amax(-1)
        by_text = self.q.reshape(len(self.keys), -1, self.q.shape[-1])
        z = (by_text @ self.keys.to(self.q.dtype).mT).flatten(0, 1)
        index = torch.arange(z.shape[-1], device=z.device)
        rows = torch.arange(len(z), device=z.device)
        self._merge(rows, z.masked_fill(index >= self.limits[:, None], -math.inf), index.expand_as(z))

    def _read_pages(self, rows: Tensor, start: int, end: int) -> None:
        """Read pages ``start`` to ``end`` in the order of each row, those of them that may matter."""
        bounds, pages = self.bounds[rows, start:end], self.order[rows, start:end]
        needed = (bounds > -math.inf) & ~(bounds <= self.threshold[rows, None])
        self.pages_read[rows] += needed.sum(-1)
        off = self.rounding[rows, start:end].masked_fill(~needed, 0.0).amax(-1)
        self.off[rows] = torch.maximum(self.off[rows], off)
        index = (pages.unsqueeze(-1) * self.page + torch.arange(self.page, device=pages.device)).flatten(-2)
        there = needed.repeat_interleave(self.page, -1) & (index < self.limits[rows, None])
        index = torch.where(there, index, 0)
        k = take_rows(self.keys, self.text[rows], index).to(self.q.dtype)
        z = (k @ self.q[rows].unsqueeze(-1)).squeeze(-1).masked_fill(~there, -math.inf)
        self._merge(rows, torch.cat([self.scores[rows], z], -1), torch.cat([self.index[rows], index], -1))

    @staticmethod
    def _find_threshold(z: Tensor, alpha: float | Tensor, off: Tensor) -> Tensor:
        """Return what no threshold of scores ``[r, W]`` that are off by so much is below, ``[r, 1]`` in float64."""
        p = entmax(z.double(), alpha)
        largest = z.double().amax(-1, keepdim=True)
        e = alpha - 1
        # p = (e (z - t))^(1/e) at the largest score; none has weight at t.
        t = largest - p.amax(-1, keepdim=True) ** e / e
        # No threshold moves further than the scores that it is made of, nor p^e than e times what p is off by, which
        # for a large alpha is more than the last digit of p^e / e.
        slack = 8 * torch.finfo(z.dtype).eps * (largest.abs() + 1 + 1 / e) + off
        return torch.where(largest == -math.inf, largest, t - slack)

    def _merge(self, rows: Tensor, z: Tensor, index: Tensor) -> None:
        """Find the thresholds of scores ``[r, W]``, and keep the keys above them: others never come back."""
        alpha = self.alpha[rows] if isinstance(self.alpha, Tensor) else self.alpha
        t = self._find_threshold(z, alpha, self.off[rows, None])
        t = torch.maximum(t, self.threshold[rows, None])
        self.threshold[rows] = t.squeeze(-1)
        z = z.masked_fill(z.double() <= t, -math.inf)
        count = int((z != -math.inf).sum(-1).amax())
        width = max(count, self.scores.shape[-1])
        z, order = z.topk(count, sorted=False)
        self.scores, self.index = (
            torch.nn.functional.pad(old, (0, width - old.shape[-1]), value=empty)
            for old, empty in ((self.scores, -math.inf), (self.index, 0))
        )
        self.scores[rows], self.index[rows] = -math.inf, 0
        self.scores[rows, :count], self.index[rows, :count] = z, index.gather(-1, order)


def certify_all(out: Tensor, limits: Tensor, page: int) -> Certificate:
    """Certify attention to all keys ``[*, H, L, Dv]``: nothing was left out. NaN is not certified."""
    pages = (-(-limits // page)).expand(out.shape[:-1])
    nothing = torch.full(pages.shape, -math.inf, dtype=working_dtype(out), device=out.device)
    threshold = torch.where(out.isnan().any(-1), math.nan, nothing)
    return Certificate(pages, pages, nothing, threshold)


def take_rows(x: Tensor, text: Tensor, index: Tensor) -> Tensor:
    """Return the rows ``[R, K, D]`` of ``x [T, S, D]`` at indices ``[R, K]`` of the texts ``[R]``."""
    texts, size, features = x.shape
    if not texts:
        return x.new_empty(*index.shape, features)
    apart = x.stride(0) // max(x.stride(1), 1)  # a cache has room for more keys behind those of a text
    lines = x.as_strided(((texts - 1) * apart + size, features), (x.stride(1), x.stride(2)))
    found = lines.index_select(0, (text[:, None] * apart + index).flatten())
    return found.reshape(*index.shape, features)
