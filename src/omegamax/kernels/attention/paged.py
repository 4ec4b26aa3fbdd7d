"""One call of attention to a cache in pages: its tensors and scalars, and how it is divided. Needs no Triton."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from omegamax.kernels.attention.call import kind_of_alpha, pad_to_power_of_2
from omegamax.kernels.kinds import Kind

PAGES = 16  # that bounds are computed for at a time
MOST_CHUNKS = 128  # of pages, of each of which one is read to bound the thresholds
MOST_SPLITS = 64  # programs that share the pages of a head
PROGRAMS = 512  # that keep a GPU busy
# Queries that share a head of keys and are read for at once, by bytes of an entry: as many as registers hold. Of 64
# Triton 3.6 compiles no program, as their products are those of a group of warps.
MOST_ROWS = {2: 32, 4: 16}


class PagedCall(NamedTuple):
    """Queries ``q [T, M, D]``, of which M share each of T heads of keys ``k [T, S, D]`` and values ``v [T, S, W]``.

    Of pages of ``page`` keys the coordinate-wise extremes ``low`` and ``high [T, P, D]`` are known, and the codes of
    keys between them, ``codes [T, P, D, page]``. A query sees the first ``limits [T, M]`` keys. ``alphas``, ``[T, M]``,
    overrides ``alpha``.
    """

    q: Tensor
    k: Tensor
    v: Tensor
    low: Tensor
    high: Tensor
    codes: Tensor
    limits: Tensor
    alpha: float
    alphas: Tensor | None
    scale: float
    page: int

    @property
    def kind(self) -> Kind:
        """The formula of the weights."""
        return Kind.ENTMAX if self.alphas is not None else kind_of_alpha(self.alpha)[0]

    @property
    def formula(self) -> dict[str, int]:
        """The kind as constants of a kernel: with the integer exponent, 0 if there is none."""
        exponent = 0 if self.alphas is not None else kind_of_alpha(self.alpha)[1]
        return {"KIND": self.kind.value, "N": exponent}

    @property
    def pages(self) -> int:
        """The number P of pages."""
        return self.low.shape[1]

    @property
    def rows(self) -> int:
        """The queries of a tile; matrix products want 16 at least."""
        return min(pad_to_power_of_2(self.q.shape[1], 16), MOST_ROWS[self.q.element_size()])

    @property
    def tiles(self) -> int:
        """The number of tiles of the queries that share a head."""
        return -(-self.q.shape[1] // self.rows)

    @property
    def chunk(self) -> int:
        """The pages of which the one with the largest bound is read first."""
        return PAGES * -(-self.pages // (PAGES * MOST_CHUNKS))

    @property
    def chunks(self) -> int:
        """The number of such chunks."""
        return -(-self.pages // self.chunk)

    @property
    def splits(self) -> int:
        """The programs that share the pages of a head, a power of two; each has four pages at least, if there are."""
        wanted = min(-(-PROGRAMS // max(self.q.shape[0] * self.tiles, 1)), -(-self.pages // 4), MOST_SPLITS)
        return 1 << (max(wanted, 1) - 1).bit_length()

    @property
    def share(self) -> int:
        """The most pages that one of them has: page i belongs to program ``i % splits``."""
        return -(-self.pages // self.splits)

    @property
    def block(self) -> int:
        """The keys at a time: a page, or a part of it."""
        return min(pad_to_power_of_2(self.page, 16), 64 if self.k.dtype == torch.float32 else 128)

    @property
    def sizes(self) -> dict[str, int]:
        """Sizes of queries and pages as constants of a kernel."""
        depth = self.q.shape[-1]
        padded = pad_to_power_of_2(depth, 128 // self.q.element_size())
        return {"DEPTH": depth, "D": padded, "PAGE": self.page, "BN": self.block, "NP": PAGES}


class Decoded(NamedTuple):
    """Outputs ``[T, M, W]`` and, ``[T, M]`` each, pages that were read, what no unread score exceeds, thresholds."""

    out: Tensor
    pages_read: Tensor
    bound: Tensor
    threshold: Tensor
