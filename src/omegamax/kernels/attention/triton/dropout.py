"""Dropout of attention weights: the same for a query and a key in every kernel, whatever its tiles.

A row of weights has two random words, by Philox from the seed, the head and the query; the word of a key is a hash of
its index with both. That is a few operations for each weight, where Philox would take forty.
"""

from __future__ import annotations

import triton
import triton.language as tl


@triton.jit
def row_words(drop, head, row):
    """Return two random words for each query: ``drop`` is the rate and the pointer to the seed, ``row [BM, 1]``."""
    seed = tl.load(drop[1])
    zero = row * 0
    a, b, _c, _d = tl.philox(seed, row, zero + head.to(tl.int32), zero, zero)
    return a, b


@triton.jit
def keep_factors(drop, words, start, BN: tl.constexpr):
    """Return ``[BM, BN]``: 0 for weights that are dropped, ``1 / (1 - rate)`` for those that are kept."""
    rate = drop[0]
    key = (start + tl.arange(0, BN))[None, :].to(tl.uint32)
    x = mix(mix(key * 0x9E3779B9 + words[0]) ^ words[1])
    # 24 bits, which float32 holds exactly.
    return tl.where((x >> 8).to(tl.float32) * (1.0 / (1 << 24)) >= rate, 1.0 / (1.0 - rate), 0.0)


@triton.jit
def mix(x):
    """Return a permutation of the 32-bit words in which each bit depends on all: the finaliser of MurmurHash3."""
    x = (x ^ (x >> 16)) * 0x85EBCA6B
    x = (x ^ (x >> 13)) * 0xC2B2AE35
    return x ^ (x >> 16)
