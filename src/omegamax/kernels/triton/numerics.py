"""Numbers that Triton does not have, or not to the last digit: logarithms, maxima that see NaN, sums that wait once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl

# Whether kernels are compiled for NVIDIA's GPUs, rather than another's or for Triton's interpreter.
NVIDIA = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)


@triton.jit
def exp(x):
    return tl.exp2(x * 1.4426950408889634)


@triton.jit
def quick_log2(x):
    """The hardware's own log2, off by 1e-7 around 1, else to the last digits; Triton's takes ten times longer."""
    if NVIDIA:
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.log2(x)


@triton.jit
def flush_log2(x):
    """The hardware's own log2, for which numbers below 2^-126 are zeros."""
    if NVIDIA:
        log2: tl.constexpr = "lg2.approx.ftz.f32 $0, $1;"
        return tl.inline_asm_elementwise(log2, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.log2(x)


@triton.jit
def flush_exp2(x):
    """The hardware's own 2^x, off by two units, and 0 below 2^-126."""
    if NVIDIA:
        exp2: tl.constexpr = "ex2.approx.ftz.f32 $0, $1;"
        return tl.inline_asm_elementwise(exp2, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.exp2(x)


@triton.jit
def root_of(x, q):
    """``[x]_+^q``."""
    return tl.where(x > 0.0, tl.exp2(q * tl.log2(tl.where(x > 0.0, x, 1.0))), 0.0)


@triton.jit
def exact_exp2(y):
    """2^y for y <= 0, to the last digit, at least 2^-126; the hardware's is off by two units."""
    y = tl.maximum(y, -126.0)
    n = tl.floor(y + 0.5)
    r = y - n
    series = 0.0096181291 + r * (0.0013333558 + r * (0.00015403530 + r * 1.5252734e-5))
    series = 1.0 + r * (0.69314718 + r * (0.24022651 + r * (0.055504109 + r * series)))
    return series * ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def log_base(base, above):
    """log(base) to three units in the last place, given ``above = base - 1`` as exactly as it is known.

    The hardware's logarithm is off by 1e-7 around 1, which a power of 1 / (alpha - 1) makes large.
    """
    # base = m 2^n with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh((m - 1) / (m + 1)). Where n is 0, m - 1 is what
    # was given: nothing of it is lost to the 1.
    bits = base.to(tl.int32, bitcast=True)
    n = (bits - 0x3F3504F3) >> 23
    m = (bits - (n << 23)).to(tl.float32, bitcast=True)
    rest = tl.where(n == 0, above, m - 1.0)
    s = rest / (rest + 2.0)
    w = s * s
    series = 2.0 + w * (0.6666666667 + w * (0.4 + w * (0.2857142857 + w * 0.2222222222)))
    return n.to(tl.float32) * 0.6931471805599453 + s * series


@triton.jit
def one_minus_exp(x):
    """1 - exp(x), to the last digits also where x is near 0."""
    near = x * (1.0 + x * (0.5 + x * (0.1666666667 + x * (0.0416666667 + x * 0.0083333333))))
    return -tl.where(tl.abs(x) < 0.25, near, exp(x) - 1.0)


@triton.jit
def larger(a, b):
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add2(a0, a1, b0, b1):
    return a0 + b0, a1 + b1


@triton.jit
def add3(a0, a1, a2, b0, b1, b2):
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def largest(x):
    """The maximum of each row, NaN if the row holds one (which tl.max passes by)."""
    return tl.reduce(x, 1, larger, keep_dims=True)


@triton.jit
def sum1(a):
    return tl.sum(a, 1, keep_dims=True)


@triton.jit
def sum2(a, b):
    """Two sums in one reduction, which waits for the other warps once."""
    return tl.reduce((a, b), 1, add2, keep_dims=True)


@triton.jit
def sum3(a, b, c):
    """Three sums in one reduction."""
    return tl.reduce((a, b, c), 1, add3, keep_dims=True)


@triton.jit
def any_row(moving, x):
    """Whether any row of a tile ``x`` is ``moving [R, 1]``: the end of a loop, the same in all lanes.

    Lanes may hold sums that differ in the last bit, because a product is fused with the addition that follows; and
    lanes of one warp that leave a loop at different times wait for each other for ever. Maxima of integers do not
    differ.
    """
    return tl.max(tl.max(tl.broadcast_to(moving.to(tl.int32), x.shape), 1), 0) > 0
