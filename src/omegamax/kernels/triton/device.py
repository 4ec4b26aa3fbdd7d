"""Building blocks of the kernels: tiles of rows, reductions over them, and elementary functions.

Two shapes of tile are in use. A plain tile ``[R, BLOCK]`` holds ``R`` rows of up to ``BLOCK`` entries. A folded tile
``[R, C, L]`` holds ``R`` rows of up to ``C L`` entries, column ``c L + l`` at ``[:, c, l]``; one thread owns all ``C``
entries of a position ``l``, so that what is reduced along ``C`` needs no exchange between threads. Reductions return
one value for each row, ``[R, 1]`` or ``[R, 1, 1]``.

``UNMASKED``: every program has ``R`` rows and every row fills the tile, so that no access needs a mask.
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl

from omegamax.kernels.kinds import Kind

# Whether kernels are compiled for NVIDIA's GPUs, rather than for another vendor's or for Triton's interpreter.
NVIDIA = tl.constexpr(torch.version.hip is None and not triton.knobs.runtime.interpret)

SPARSEMAX = tl.constexpr(Kind.SPARSEMAX.value)
ENTMAX15 = tl.constexpr(Kind.ENTMAX15.value)
ENTMAX = tl.constexpr(Kind.ENTMAX.value)
NORMMAX = tl.constexpr(Kind.NORMMAX.value)
SOFTMAX = tl.constexpr(Kind.SOFTMAX.value)
ENTMAX_ABOVE_2 = tl.constexpr(Kind.ENTMAX_ABOVE_2.value)
ENTMAX_POWER = tl.constexpr(Kind.ENTMAX_POWER.value)

INF = tl.constexpr(float("inf"))
MAX_STEPS = tl.constexpr(64)  # steps of a threshold search; 2 to 11 are needed, the limit guards against endless loops
# Probability mass below which a Halley step has overshot the solution by so much that further ones may oscillate. From
# there on steps are Newton's: at most one of them crosses the solution again, the others approach it from the left.
OVERSHOT = tl.constexpr(0.8)


# Tiles


@triton.jit
def tile_indices(rows, K, R: tl.constexpr, BLOCK: tl.constexpr):
    """Return row indices ``[R, 1]``, column indices ``[1, BLOCK]`` and the mask of a program's plain tile."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None]
    column = tl.arange(0, BLOCK)[None, :]
    return row, column, (row < rows) & (column < K)


@triton.jit
def folded_tile_indices(rows, K, R: tl.constexpr, C: tl.constexpr, L: tl.constexpr):
    """Return row indices ``[R, 1, 1]``, column indices ``[1, C, L]`` and the mask of a program's folded tile."""
    row = tl.program_id(0).to(tl.int64) * R + tl.arange(0, R)[:, None, None]
    column = tl.arange(0, C)[None, :, None] * L + tl.arange(0, L)[None, None, :]
    return row, column, (row < rows) & (column < K)


@triton.jit
def load_tile(ptr, column, mask, other: tl.constexpr, UNMASKED: tl.constexpr):
    """Load entries of the rows at ``ptr`` as float32, ``other`` where the mask is false."""
    if UNMASKED:
        return tl.load(ptr + column).to(tl.float32)
    return tl.load(ptr + column, mask=mask, other=other).to(tl.float32)


@triton.jit
def store_tile(ptr, column, mask, x, UNMASKED: tl.constexpr):
    """Store entries to the rows at ``ptr``."""
    if UNMASKED:
        tl.store(ptr + column, x)
    else:
        tl.store(ptr + column, x, mask=mask)


@triton.jit
def load_alpha(alpha, alpha_ptr, row, rows, PER_ROW: tl.constexpr, R: tl.constexpr):
    """Return the alpha of each row, ``[R, 1]``: from memory, or the scalar."""
    if PER_ROW:
        return tl.load(alpha_ptr + row, mask=row < rows, other=2.0)
    return tl.full([R, 1], 0.0, tl.float32) + alpha


@triton.jit
def block_indices(start, K, BLOCK: tl.constexpr):
    """Return the column indices ``[1, BLOCK]`` of a block of a long row, and its mask."""
    column = start + tl.arange(0, BLOCK)[None, :]
    return column, column < K


@triton.jit
def load_shifted(row_ptr, start, K, shift, BLOCK: tl.constexpr):
    """Load a block of a long row and subtract ``shift``; masked entries are ``-inf``."""
    column, mask = block_indices(start, K, BLOCK)
    return tl.load(row_ptr + column, mask=mask, other=float("-inf")).to(tl.float32) - shift


@triton.jit
def load_blocks(row_ptr, start, K, UNMASKED: tl.constexpr, DEPTH: tl.constexpr, BLOCK: tl.constexpr):
    """Load ``DEPTH`` blocks of a long row at once, ``[1, DEPTH, BLOCK]``, and return them with their column indices."""
    column = start + tl.arange(0, DEPTH)[None, :, None] * BLOCK + tl.arange(0, BLOCK)[None, None, :]
    if UNMASKED:
        return tl.load(row_ptr + column).to(tl.float32), column
    return tl.load(row_ptr + column, mask=column < K, other=float("-inf")).to(tl.float32), column


# Reductions. The branches on the rank are taken at compile time; both must end in else, since Triton compiles what
# follows a return.


@triton.jit
def max_or_nan(a, b):
    """Return the larger of two; NaN if one of them is, which ``tl.max`` ignores."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def add2(a0, a1, b0, b1):
    """Add two pairs."""
    return a0 + b0, a1 + b1


@triton.jit
def add3(a0, a1, a2, b0, b1, b2):
    """Add two triples."""
    return a0 + b0, a1 + b1, a2 + b2


@triton.jit
def row_max(x):
    """Return the maximum of each row; NaN if the row holds one."""
    if len(x.shape) == 3:
        return tl.reduce(tl.reduce(x, 1, max_or_nan, keep_dims=True), 2, max_or_nan, keep_dims=True)
    else:
        return tl.reduce(x, 1, max_or_nan, keep_dims=True)


@triton.jit
def row_sum(a):
    """Return the sum of each row."""
    if len(a.shape) == 3:
        return tl.sum(tl.sum(a, 1, keep_dims=True), 2, keep_dims=True)
    else:
        return tl.sum(a, 1, keep_dims=True)


@triton.jit
def row_sum2(a, b):
    """Return two sums of each row by one reduction, which synchronises the warps once."""
    if len(a.shape) == 3:
        a, b = tl.reduce((a, b), 1, add2, keep_dims=True)
        return tl.reduce((a, b), 2, add2, keep_dims=True)
    else:
        return tl.reduce((a, b), 1, add2, keep_dims=True)


@triton.jit
def row_sum3(a, b, c):
    """Return three sums of each row by one reduction."""
    if len(a.shape) == 3:
        a, b, c = tl.reduce((a, b, c), 1, add3, keep_dims=True)
        return tl.reduce((a, b, c), 2, add3, keep_dims=True)
    else:
        return tl.reduce((a, b, c), 1, add3, keep_dims=True)


@triton.jit
def any_row(moving, x):
    """Return whether the condition ``moving`` holds for any row of a tile ``x``, the same in all lanes: ends a loop.

    Lanes may hold row sums that differ in the last bit, because a product is fused with the addition that follows it,
    and lanes of one warp that leave a loop at different times deadlock. Maxima of integers do not differ. In a folded
    tile of one row at least 128 wide every lane has several entries of it, and the sums are the same.
    """
    if len(x.shape) == 3:
        if x.shape[0] > 1 or x.shape[2] < 128:
            return tl.max(tl.broadcast_to(moving.to(tl.int32), [x.shape[0], 1, x.shape[2]])) > 0
        else:
            return tl.max(moving.to(tl.int32)) > 0
    else:
        return tl.max(tl.max(tl.broadcast_to(moving.to(tl.int32), x.shape), 1), 0) > 0


# Elementary functions


@triton.jit
def exp(x):
    """Return e^x."""
    return tl.exp2(x * 1.4426950408889634)


@triton.jit
def log2_approx(x):
    """Return log2 by the hardware's instruction: off by 1e-7 around 1, elsewhere exact to the last digits.

    Triton's own takes ten times longer.
    """
    if NVIDIA:
        return tl.inline_asm_elementwise("lg2.approx.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.log2(x)


@triton.jit
def log2_flush(x):
    """Return log2 by the hardware's instruction that takes numbers below 2^-126 for zeros."""
    if NVIDIA:
        log2: tl.constexpr = "lg2.approx.ftz.f32 $0, $1;"
        return tl.inline_asm_elementwise(log2, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.log2(x)


@triton.jit
def exp2_flush(x):
    """Return 2^x by the hardware's instruction: off by two units in the last place, 0 below 2^-126."""
    if NVIDIA:
        exp2: tl.constexpr = "ex2.approx.ftz.f32 $0, $1;"
        return tl.inline_asm_elementwise(exp2, "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1)
    return tl.exp2(x)


@triton.jit
def exp2_accurate(y):
    """Return 2^y for y <= 0 to the last digit, at least 2^-126; the hardware's is off by two units."""
    y = tl.maximum(y, -126.0)
    n = tl.floor(y + 0.5)
    r = y - n
    series = 0.0096181291 + r * (0.0013333558 + r * (0.00015403530 + r * 1.5252734e-5))
    series = 1.0 + r * (0.69314718 + r * (0.24022651 + r * (0.055504109 + r * series)))
    return series * ((n.to(tl.int32) + 127) << 23).to(tl.float32, bitcast=True)


@triton.jit
def reciprocal_approx(x):
    """Return 1 / x for x above 1e-38, to a few units in the last place."""
    if NVIDIA:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    return 1.0 / x


@triton.jit
def positive_power(x, q):
    """Return ``[x]_+^q``."""
    return tl.where(x > 0.0, tl.exp2(q * tl.log2(tl.where(x > 0.0, x, 1.0))), 0.0)


@triton.jit
def log_accurate(x, x_minus_1):
    """Return log(x) to three units in the last place, given ``x - 1`` as exactly as it is known.

    The hardware's logarithm is off by 1e-7 around 1, which a power of 1 / (alpha - 1) makes large.
    """
    # x = m 2^n with m in [sqrt(1/2), sqrt(2)), and log m = 2 atanh((m - 1) / (m + 1)). Where n is 0, m - 1 is what was
    # given: nothing of it is lost by rounding x.
    bits = x.to(tl.int32, bitcast=True)
    n = (bits - 0x3F3504F3) >> 23
    m = (bits - (n << 23)).to(tl.float32, bitcast=True)
    rest = tl.where(n == 0, x_minus_1, m - 1.0)
    s = rest / (rest + 2.0)
    w = s * s
    series = 2.0 + w * (0.6666666667 + w * (0.4 + w * (0.2857142857 + w * 0.2222222222)))
    return n.to(tl.float32) * 0.6931471805599453 + s * series


@triton.jit
def one_minus_exp(x):
    """Return 1 - e^x, to the last digits also for x near 0."""
    near = x * (1.0 + x * (0.5 + x * (0.1666666667 + x * (0.0416666667 + x * 0.0083333333))))
    return -tl.where(tl.abs(x) < 0.25, near, exp(x) - 1.0)
