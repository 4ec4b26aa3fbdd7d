"""The formulas that kernels are compiled for, numbered once for Python, Triton and C++.

A kernel takes the kind as an integer: Triton's read it as a compile-time constant, those in C++ as the enumeration of
the same values in their header.
"""

from __future__ import annotations

from enum import IntEnum, unique


@unique
class Kind(IntEnum):
    """The formula of a map of rows. Thresholds are called ``t`` and make a row sum to one."""

    SPARSEMAX = 0  # entmax with alpha = 2: p = [z - t]_+
    ENTMAX15 = 1  # entmax with alpha = 1.5: p = [z / 2 - t]_+^2
    ENTMAX = (
        2  # entmax with any alpha up to 2, known when the kernel runs: p = [1 + (alpha - 1)(z - t)]_+^(1/(alpha-1))
    )
    NORMMAX = 3
    SOFTMAX = 4  # entmax with alpha = 1
    ENTMAX_ABOVE_2 = 5  # entmax with alphas of which some may be above 2; apart, since it needs many registers
    ENTMAX_POWER = 6  # entmax whose exponent 1 / (alpha - 1) has an integer part known to the compiler
    K_SUBSETS = 7  # p = clip(z - t, 0, 1), summing to k
