"""Keys and values of the past in pages, of which it is known how large a score can be."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from omegamax import kernels
from omegamax._arguments import check_count
from omegamax._checks import check_floating
from omegamax._numerics import disable_autocast, working_dtype
from omegamax.kernels.attention import PageBounds, encode_pages, find_floor

NAME = "PagedCache"


class PagedCache:
    r"""Keys ``[*, G, S, D]`` and values ``[*, G, S, Dv]`` that grow, page by page, with bounds of the scores in each.

    Of every page the coordinate-wise extremes :math:`l \le k \le u` of its keys are kept, and of every key a code in
    bytes between them, :math:`k = l + s \odot c + \epsilon` with :math:`s = (u - l) / 255` and
    :math:`|\epsilon_d| \le s_d / 2`. No key of the page has a score above

    .. math:: \langle q, k \rangle \le \min\Bigl( \sum_d \max(q_d l_d,\, q_d u_d),\;
              \langle q, l \rangle + \max_c \langle q, s \odot c \rangle + \tfrac12 \langle |q|, s \rangle \Bigr),

    and one of them has no less than the second bound without twice its last term.
    :func:`omegamax.attention` with ``cache=`` reads the pages in the order of their bounds, and stops when no other can
    matter. Keys and values enter without their gradients: this is for decoding.

    Args:
        page: keys in a page.

        >>> cache = PagedCache(page=4)
        >>> cache.append(torch.randn(2, 10, 8), torch.randn(2, 10, 8))
        >>> len(cache), cache.pages, cache.keys.shape
        (10, 3, torch.Size([2, 10, 8]))
    """

    def __init__(self, page: int = 64):
        self.page = check_count(NAME, "page", page)
        self._length = 0
        self._keys: Tensor | None = None  # [*, G, capacity, D]
        self._values: Tensor | None = None
        self._low: Tensor | None = None  # [*, G, capacity / page, D]
        self._high: Tensor | None = None
        self._codes: Tensor | None = None  # [*, G, capacity / page, D * page] in bytes

    def __len__(self) -> int:
        """Return the number S of keys."""
        return self._length

    @property
    def pages(self) -> int:
        """Return the number of pages, of which the last may be part full."""
        return -(-self._length // self.page)

    @property
    def keys(self) -> Tensor:
        """Return the keys, ``[*, G, S, D]``."""
        return self._part(self._keys, self._length)

    @property
    def values(self) -> Tensor:
        """Return the values, ``[*, G, S, Dv]``."""
        return self._part(self._values, self._length)

    @property
    def extremes(self) -> tuple[Tensor, Tensor]:
        """Return l and u of each page, ``[*, G, pages, D]``, in the working dtype."""
        return self._part(self._low, self.pages), self._part(self._high, self.pages)

    @property
    def codes(self) -> Tensor:
        """Return the codes c, ``[*, G, pages, D, page]`` in bytes; those behind the last key mean nothing."""
        return self._part(self._codes, self.pages).unflatten(-1, (-1, self.page))

    @torch.no_grad()
    def append(self, k: Tensor, v: Tensor) -> None:
        """Put keys ``[*, G, L, D]`` and values ``[*, G, L, Dv]`` behind those that are there."""
        self.check(k, v)
        first, self._length = self._length, self._length + k.shape[-2]
        self._keys = self._write(self._keys, k, first)
        self._values = self._write(self._values, v, first)
        if k.shape[-2]:
            self._measure(first // self.page)

    @torch.no_grad()
    def select(self, index: Tensor) -> PagedCache:
        """Return a cache with the examples ``index [M]`` of the first axis, such as the sequences that go on.

        >>> cache = PagedCache(page=4)
        >>> cache.append(torch.randn(3, 2, 10, 8), torch.randn(3, 2, 10, 8))
        >>> cache.select(torch.tensor([2, 0])).keys.shape
        torch.Size([2, 2, 10, 8])
        """
        chosen = PagedCache(self.page)
        chosen._length = self._length
        for name in ("_keys", "_values", "_low", "_high", "_codes"):
            room = getattr(self, name)
            setattr(chosen, name, None if room is None else room.index_select(0, index.to(room.device)))
        return chosen

    def bound(self, q: Tensor) -> Tensor:
        """Return what no score ``<q, k>`` of a page exceeds, rounding included, ``[*, G, L, pages]``.

        Args:
            q: ``[*, G, L, D]``, in the working dtype.
        """
        return self.bound_pages(q).upper

    @torch.no_grad()
    def bound_pages(self, q: Tensor, limits: Tensor | None = None, reach: float | Tensor = math.inf) -> PageBounds:
        """Bound the scores ``<q, k>`` in each page, rounding included, ``[*, G, L, pages]``.

        Args:
            q: ``[*, G, L, D]``, in the working dtype. Of NaN in a query, or in a key, nothing is said.
            limits: how many keys each query sees, ``[*, G, L]``; by default all.
            reach: scores that are further below the largest need not be bounded tightly, ``[*, G, L]``.
        """
        lead, (rows, features) = q.shape[:-2], q.shape[-2:]
        texts = lead.numel()
        low, high, codes = (t.flatten(0, len(lead) - 1) for t in (*self.extremes, self.codes))
        limits = torch.tensor(self._length, device=q.device) if limits is None else limits
        given = (torch.as_tensor(t, device=q.device).expand(q.shape[:-1]) for t in (limits, reach))
        by_text = [t.reshape(texts, rows) for t in given]
        with disable_autocast(q.device):
            found = kernels.solve(
                "page_bounds",
                q.reshape(texts, rows, features),
                codes,
                low.to(q.dtype),
                high.to(q.dtype),
                *by_text,
                self._length,
                find_floor(low.dtype),
            )
        return PageBounds(*(t.reshape(*lead, rows, self.pages) for t in found))

    def _measure(self, first: int) -> None:
        """Bring extremes and codes up to date, from page ``first`` on."""
        keys = self.keys[..., first * self.page :, :]
        keys = keys.to(working_dtype(keys))
        gap = (self.pages - first) * self.page - keys.shape[-2]
        if gap:  # the last key stands in for those that are to come
            keys = torch.cat([keys, keys[..., -1:, :].expand(*keys.shape[:-2], gap, -1)], -2)
        keys = keys.unflatten(-2, (-1, self.page))
        low, high = keys.amin(-2), keys.amax(-2)
        self._low, self._high = self._write(self._low, low, first), self._write(self._high, high, first)
        self._codes = self._write(self._codes, encode_pages(keys, low, high).flatten(-2), first)

    def _write(self, room: Tensor | None, new: Tensor, first: int) -> Tensor:
        """Return ``room [*, capacity, D]`` with ``new`` from row ``first`` on, made longer if it has to be."""
        end = first + new.shape[-2]
        if room is None or end > room.shape[-2]:
            longer = new.new_empty(*new.shape[:-2], max(end, 2 * first), new.shape[-1])
            if room is not None:
                longer[..., :first, :] = room[..., :first, :]
            room = longer
        room[..., first:end, :] = new
        return room

    def _part(self, room: Tensor | None, count: int) -> Tensor:
        if room is None:
            raise ValueError(f"{NAME}: there are no keys yet; append some first")
        return room[..., :count, :]

    def check(self, k: Tensor, v: Tensor) -> None:
        """Refuse keys and values that :meth:`append` would refuse."""
        check_floating(NAME, "k", k)
        check_floating(NAME, "v", v)
        shapes = f"got {tuple(k.shape)} and {tuple(v.shape)}"
        if k.dim() < 3 or k.shape[:-1] != v.shape[:-1]:
            raise ValueError(f"{NAME}: k and v must have shapes [*, G, L, D] and [*, G, L, Dv], {shapes}")
        for argument, new, old in (("k", k, self._keys), ("v", v, self._values)):
            if old is None:
                continue
            if new.shape[:-2] != old.shape[:-2] or new.shape[-1] != old.shape[-1]:
                wanted = [*map(str, old.shape[:-2]), "L", str(old.shape[-1])]
                raise ValueError(f"{NAME}: {argument} must be [{', '.join(wanted)}] as before, {shapes}")
            if new.dtype != old.dtype or new.device != old.device:
                raise ValueError(
                    f"{NAME}: {argument} must be {old.dtype} on {old.device} as before, got {new.dtype} on {new.device}"
                )

    def __repr__(self) -> str:
        shape = "empty" if self._keys is None else f"keys {tuple(self.keys.shape)}"
        return f"{NAME}(page={self.page}, {shape})"
