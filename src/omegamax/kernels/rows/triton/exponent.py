"""What sparsemax, entmax15 and other powers are made of: ``b^q`` of what lies above a threshold, and steps to move it.

The exponent is ``q = 1 / (alpha - 1)``: 1, 2, or up to 9 in general, of which the compiler knows the whole part.
"""

from __future__ import annotations

import triton
import triton.language as tl

from omegamax.kernels.triton.numerics import NVIDIA, exact_exp2, quick_log2

SPARSEMAX = tl.constexpr(0)
ENTMAX15 = tl.constexpr(1)
POWER = tl.constexpr(2)  # another, whose whole part N is known to the compiler; -N says that there is no fraction


@triton.jit
def inverse(x):
    """1 / x of numbers above 1e-38, to a few units in the last place."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def exponent(fraction, KIND: tl.constexpr, N: tl.constexpr):
    """``q``."""
    if KIND == SPARSEMAX:
        return fraction + 1.0
    if KIND == ENTMAX15:
        return fraction + 2.0
    return fraction + (N if N > 0 else -N)


@triton.jit
def lifted(x, t, q, KIND: tl.constexpr):
    """``b = [x / q - t]_+``."""
    if KIND == SPARSEMAX:
        return tl.maximum(x - t, 0.0)
    if KIND == ENTMAX15:
        return tl.maximum(0.5 * x - t, 0.0)
    return tl.maximum(x * (1.0 / q) - t, 0.0)


@triton.jit
def power(b, M: tl.constexpr):
    p = b
    for _ in tl.static_range(M - 1):
        p = p * b
    return p


@triton.jit
def terms(b, fraction, KIND: tl.constexpr, N: tl.constexpr):
    """``b^q`` and ``b^(q - 1)``, both 0 at 0.

    The hardware's logarithm has an error of 1e-7, which counts by the fraction: the rest is multiplied. In tiles of
    several rows, whose probabilities may well be large, its power is not used either.
    """
    if KIND == SPARSEMAX:
        return b, (b > 0.0).to(tl.float32)
    if KIND == ENTMAX15:
        return b * b, b
    if N < 0:
        r = power(b, -N - 1)
    else:
        if b.shape[0] > 1:
            r = tl.where(b > 0.0, exact_exp2(fraction * quick_log2(b)), 0.0)
        else:
            r = tl.exp2(fraction * quick_log2(b))
        if N > 1:
            r = r * power(b, N - 1)
    return r * b, r


@triton.jit
def bend_term(b, r, KIND: tl.constexpr, N: tl.constexpr):
    """``b^(q - 2)``, 0 at 0."""
    if KIND == ENTMAX15:
        return (b > 0.0).to(tl.float32)
    return tl.where(b > 0.0, r / tl.where(b > 0.0, b, 1.0), 0.0)


@triton.jit
def step_of(s, r, bend, q, KIND: tl.constexpr):
    """From sums of terms, Newton's step on the norm ``s^(1/q)``, convex in ``t``: from below never past the solution.

    ``bend = s u / r^2 - 1``, with ``u`` the sum of the third terms, makes it Halley's; not below ``q = 2``, where ``u``
    is that of the smallest entries alone, and a step by it may go past the solution and back for ever.
    """
    r = tl.where(r > 0.0, r, 1.0)
    if KIND == SPARSEMAX:
        return (s - 1.0) / r
    safe = tl.where(s > 0.0, s, 1.0)
    if KIND == ENTMAX15:
        over = 1.0 / tl.sqrt(safe)
    else:
        over = tl.exp2(-tl.log2(safe) / q)
        bend = tl.where(q < 2.0, 0.0, bend)
    return (s - s * over) / r / tl.maximum(1.0 - 0.5 * (1.0 - over) * (q - 1.0) * bend, 0.5)


@triton.jit
def unsettled(s, step, t, KIND: tl.constexpr, enough):
    """Whether another step is needed; not where it would be lost in the rounding of ``t``, nor without entries."""
    if KIND == SPARSEMAX:  # finite, because it only rises
        return (s - 1.0 > enough) & (t + step > t)
    return (tl.abs(s - 1.0) > enough) & (tl.abs(step) > 1.2e-7 * tl.abs(t)) & (s > 0.0)
