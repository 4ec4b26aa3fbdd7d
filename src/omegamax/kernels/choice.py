"""Choose the kernels that run on a GPU, from a table: by operation, case, precision and length of a row.

:data:`RULES` is what the launchers ask and what ``omegamax kernels`` prints. A rule names the kernels that run, one
after another; a name with a dot is a function of plain torch, or, on the host, of compiled C++. The shapes of the tiles
that a program of each kernel takes are in :mod:`omegamax.kernels.tiles`.
"""

from __future__ import annotations

import functools
import math
from enum import Enum
from typing import NamedTuple

from torch import Tensor

from omegamax.kernels.kinds import Kind

REGISTER_ROW = 32768  # entries of a row, at most, that one program holds in its registers
CANDIDATE_ROW = {2: 16384, 4: 32768}  # by bytes of an entry: longer rows of sparsemax and entmax15 are better listed
POWER_ROW = 8192  # the same for other powers, of which more entries are in the support, and for alpha > 2
SHORT_ROW = 512  # entries up to which an exponent with a fraction is quicker compiled than read at run time
STRING_ROW = 8192  # entries of a row whose taut string one program finds; 0: no string is found on a GPU
IMAGE_CELLS = 4096  # cells of an image that one program levels; 0: no image is levelled on a GPU
LOSS_ROW = 4096  # entries of a row of scores that one program of a loss holds in its registers
MAX_EXPONENT = 9  # largest 1 / (alpha - 1) whose integer part is compiled
MAX_NORMMAX_ALPHA = 64  # largest alpha of normmax whose exponent alpha / (alpha - 1) is compiled

Parameter = float | Tensor


class Case(Enum):
    """What a call is given, as far as the choice of a kernel depends on it. The value is what the table says."""

    ANY = "any"
    ALPHA_BELOW_1 = "alpha < 1"
    ALPHA_1 = "alpha = 1"
    NEAR_1 = "1 < alpha < 10/9"
    FRACTION = "10/9 < alpha < 2, 1 / (alpha - 1) not an integer"
    INTEGER = "1 / (alpha - 1) = 3, ..., 9"
    ALPHA_15 = "alpha = 1.5"
    ALPHA_2 = "alpha = 2"
    ALPHA_ABOVE_2 = "alpha > 2"
    ALPHA_TENSOR = "alpha a tensor"
    NORM_POWER = "9/8 <= alpha <= 2"
    NORM_POWER_ABOVE_2 = "2 < alpha <= 64"
    NORM_OTHER = "alpha < 9/8"
    NORM_ABOVE_64 = "alpha > 64"
    SCALARS = "bounds and sum are numbers"
    TENSORS = "a bound or the sum is a tensor"
    SHORT = "half precision, keys <= 256, features <= 64"
    LISTS = "alpha >= 1.42, many keys, no mask by query"
    DENSE = "otherwise"


class Rule(NamedTuple):
    """The kernels of an operation for some cases, precisions and lengths of a row."""

    operation: str
    cases: tuple[Case, ...]
    bytes: tuple[int, ...]  # of an entry: 2 for float16 and bfloat16, 4 for float32, 8 for float64
    longest: int | None  # entries of a row, at most
    kernels: tuple[str, ...]


HALF, SINGLE, FAST, DOUBLE, WORKING, EVERY = (2,), (4,), (2, 4), (8,), (4, 8), (2, 4, 8)
_INTEGER, _FRACTION, _NEAR_1 = (Case.INTEGER,), (Case.FRACTION,), (Case.NEAR_1,)
_UP_TO_1, _ABOVE_2, _TENSOR = (Case.ALPHA_1, Case.ALPHA_BELOW_1), (Case.ALPHA_ABOVE_2,), (Case.ALPHA_TENSOR,)
_EXACT = (Case.ALPHA_2, Case.ALPHA_15)
_UP_TO_2 = (*_UP_TO_1, *_NEAR_1, *_FRACTION, *_INTEGER, *_EXACT)
_ALPHAS = (*_UP_TO_2, *_ABOVE_2, *_TENSOR)
_NORM_POWERS = (Case.NORM_POWER, Case.NORM_POWER_ABOVE_2)
_NORM_OTHERS = (Case.NORM_OTHER, Case.NORM_ABOVE_64, Case.ALPHA_TENSOR)
_NORM_UP_TO_2 = (Case.NORM_POWER, Case.NORM_OTHER)
_NORM_ABOVE_2 = (Case.NORM_POWER_ABOVE_2, Case.NORM_ABOVE_64, Case.ALPHA_TENSOR)
_NORMS = (*_NORM_POWERS, *_NORM_OTHERS)
_BOUNDS = (Case.SCALARS, Case.TENSORS)
# What the table says of cases that stand together.
DESCRIPTIONS = {
    _EXACT: "alpha = 1.5 or 2",
    _UP_TO_1: "alpha <= 1",
    _UP_TO_2: "alpha <= 2",
    (*_ABOVE_2, *_TENSOR): "alpha > 2, or a tensor",
    _ALPHAS: "any alpha",
    _NORM_POWERS: "9/8 <= alpha <= 64",
    _NORM_OTHERS: "alpha < 9/8, alpha > 64, or a tensor",
    _NORM_UP_TO_2: "alpha <= 2",
    _NORM_ABOVE_2: "alpha > 2, or a tensor",
    _NORMS: "any alpha",
    _BOUNDS: "any bounds",
}
_LISTS = ("bound_thresholds_kernel", "mark_candidates_kernel", "attend_lists_kernel", "attention_dense_kernel")


def _in_registers(
    operation: str, cases: tuple[Case, ...], kernel: str, plain: str, long: str | None = None
) -> tuple[Rule, ...]:
    """Return the rules of an operation whose one kernel holds rows in registers, and another one reads ``long`` rows.

    Plain torch does the rest.
    """
    return (
        Rule(operation, cases, FAST, REGISTER_ROW, (kernel,)),
        Rule(operation, cases, FAST, None, (long or plain,)),
        Rule(operation, cases, DOUBLE, None, (plain,)),
    )


RULES = (
    Rule("entmax", _EXACT, SINGLE, CANDIDATE_ROW[4], ("entmax_power_kernel",)),
    Rule("entmax", _EXACT, SINGLE, None, ("entmax_power_long_kernel",)),
    Rule("entmax", _EXACT, HALF, CANDIDATE_ROW[2], ("entmax_power_kernel",)),
    Rule("entmax", _EXACT, HALF, None, ("entmax_power_long_kernel",)),
    Rule("entmax", _INTEGER, FAST, POWER_ROW, ("entmax_power_kernel",)),
    Rule("entmax", _INTEGER, FAST, None, ("entmax_power_long_kernel",)),
    Rule("entmax", _FRACTION, FAST, SHORT_ROW, ("entmax_power_kernel",)),
    Rule("entmax", _FRACTION, FAST, POWER_ROW, ("entmax_any_alpha_kernel",)),
    Rule("entmax", _FRACTION, FAST, None, ("entmax_power_long_kernel",)),
    Rule("entmax", _NEAR_1, FAST, REGISTER_ROW, ("entmax_any_alpha_kernel",)),
    Rule("entmax", _NEAR_1, FAST, None, ("entmax_any_alpha_long_kernel",)),
    Rule("entmax", _UP_TO_1, FAST, REGISTER_ROW, ("general_kernel",)),
    Rule("entmax", _UP_TO_1, FAST, None, ("general_long_kernel",)),
    Rule("entmax", _ABOVE_2, FAST, POWER_ROW, ("entmax_above_two_kernel",)),
    Rule("entmax", _ABOVE_2, FAST, None, ("entmax_above_two_long_kernel",)),
    Rule("entmax", _TENSOR, FAST, REGISTER_ROW, ("entmax_any_alpha_kernel", "entmax_outside_kernel")),
    Rule(
        "entmax",
        _TENSOR,
        FAST,
        None,
        ("entmax_any_alpha_long_kernel", "general_long_kernel", "entmax_above_two_long_kernel"),
    ),
    Rule("entmax", _ALPHAS, DOUBLE, None, ("reference.entmax",)),
    Rule("entmax_vjp", _UP_TO_2, FAST, REGISTER_ROW, ("entmax_vjp_kernel",)),
    Rule("entmax_vjp", _UP_TO_2, FAST, None, ("entmax_vjp_long_kernel",)),
    Rule("entmax_vjp", _UP_TO_2, DOUBLE, None, ("reference.entmax_vjp",)),
    *_in_registers("entmax_vjp", (*_ABOVE_2, *_TENSOR), "entmax_vjp_kernel", "reference.entmax_vjp"),
    *_in_registers("alpha_vjp", (Case.ANY,), "alpha_vjp_kernel", "reference.alpha_vjp"),
    Rule("normmax", _NORM_POWERS, FAST, REGISTER_ROW, ("normmax_power_kernel",)),
    Rule("normmax", _NORM_POWERS, FAST, None, ("normmax_power_long_kernel",)),
    Rule("normmax", _NORM_OTHERS, FAST, REGISTER_ROW, ("general_kernel",)),
    Rule("normmax", _NORM_OTHERS, FAST, None, ("general_long_kernel",)),
    Rule("normmax", _NORMS, DOUBLE, None, ("reference.normmax",)),
    *_in_registers(
        "normmax_vjp", _NORM_UP_TO_2, "normmax_vjp_kernel", "reference.normmax_vjp", "normmax_vjp_long_kernel"
    ),
    *_in_registers("normmax_vjp", _NORM_ABOVE_2, "entmax_vjp_kernel", "reference.normmax_vjp"),
    *_in_registers("k_subsets", _BOUNDS, "clip_kernel", "reference.k_subsets", "clip_long_kernel"),
    *_in_registers("box_simplex", (Case.SCALARS,), "clip_kernel", "reference.box_simplex", "clip_long_kernel"),
    *_in_registers("box_simplex", (Case.TENSORS,), "box_kernel", "reference.box_simplex"),
    *_in_registers(
        "box_simplex_vjp", (Case.SCALARS,), "clip_vjp_kernel", "reference.box_simplex_vjp", "clip_vjp_long_kernel"
    ),
    *_in_registers("box_simplex_vjp", (Case.TENSORS,), "clip_vjp_kernel", "reference.box_simplex_vjp"),
    *_in_registers("capped_softmax", _BOUNDS, "capped_softmax_kernel", "reference.capped_softmax"),
    *_in_registers("capped_softmax_vjp", _BOUNDS, "capped_softmax_vjp_kernel", "reference.capped_softmax_vjp"),
    Rule("entmax_loss", _ALPHAS, FAST, LOSS_ROW, ("entmax_loss_kernel",)),
    Rule("entmax_loss", _ALPHAS, FAST, None, ("entmax_loss_long_kernel",)),
    Rule("entmax_loss_vjp", _ALPHAS, FAST, None, ("entmax_loss_vjp_kernel",)),
    Rule("soft_entmax_loss", _ALPHAS, FAST, None, ("entmax_loss_soft_kernel",)),
    Rule("soft_entmax_loss_vjp", _ALPHAS, FAST, None, ("entmax_loss_soft_vjp_kernel",)),
    Rule("attention", (Case.SHORT,), FAST, None, ("attention_short_kernel",)),
    Rule("attention", (Case.LISTS,), FAST, None, _LISTS),
    Rule("attention", (Case.DENSE,), FAST, None, ("attention_dense_kernel",)),
    Rule("tv_chain", (Case.ANY,), EVERY, STRING_ROW, ("chain_kernel",)),
    Rule("tv_chain", (Case.ANY,), EVERY, None, ("host.tv_chain",)),
    Rule("tv_chain_vjp", (Case.ANY,), EVERY, STRING_ROW, ("chain_vjp_kernel",)),
    Rule("tv_chain_vjp", (Case.ANY,), EVERY, None, ("host.tv_chain_vjp",)),
    Rule("tv_grid", (Case.ANY,), WORKING, IMAGE_CELLS, ("grid_kernel",)),
    Rule("tv_grid", (Case.ANY,), WORKING, None, ("host.tv_grid",)),
    Rule("tv_grid_vjp", (Case.ANY,), WORKING, IMAGE_CELLS, ("grid_vjp_kernel",)),
    Rule("tv_grid_vjp", (Case.ANY,), WORKING, None, ("host.tv_grid_vjp",)),
    Rule("oscar", (Case.ANY,), EVERY, STRING_ROW, ("isotonic_kernel",)),
    Rule("oscar", (Case.ANY,), EVERY, None, ("reference.oscar",)),
    Rule("moments", (Case.ANY,), EVERY, None, ("moments_kernel",)),
    Rule("moments_vjp", (Case.ANY,), EVERY, None, ("moments_vjp_kernel",)),
    Rule("gaussian_on_line", (Case.ANY,), WORKING, None, ("gaussian_on_line_kernel",)),
    Rule("parabola_on_line", (Case.ANY,), WORKING, None, ("parabola_on_line_kernel",)),
    Rule("line_vjp", (Case.ANY,), WORKING, None, ("line_vjp_kernel",)),
    Rule("gaussian_in_plane", (Case.ANY,), WORKING, None, ("gaussian_in_plane_kernel",)),
    Rule("plane_vjp", (Case.ANY,), WORKING, None, ("plane_vjp_kernel",)),
    Rule("contour_in_plane", (Case.ANY,), WORKING, None, ("contour_in_plane_kernel",)),
    Rule("gaussian_of_weights", (Case.ANY,), EVERY, None, ("gaussian_of_weights_kernel",)),
    Rule("contour_of_weights", (Case.ANY,), EVERY, None, ("contour_of_weights_kernel",)),
    Rule("weights_vjp", (Case.ANY,), EVERY, None, ("weights_vjp_kernel",)),
    Rule("fit_mixtures", (Case.ANY,), EVERY, None, ("weigh_kernel", "em_kernel")),
    Rule("fit_mixtures_vjp", (Case.ANY,), EVERY, None, ("em_vjp_kernel",)),
    Rule("choose_start", (Case.ANY,), DOUBLE, None, ("choose_kernel",)),
)


@functools.cache
def choose(operation: str, case: Case, itemsize: int, size: int) -> tuple[str, ...]:
    """Return the kernels of an operation for rows of ``size`` entries of ``itemsize`` bytes: the first rule that fits.

    >>> choose("entmax", Case.ALPHA_2, 4, 1000)
    ('entmax_power_kernel',)
    """
    for rule in RULES:
        fits = rule.longest is None or size <= rule.longest
        if rule.operation == operation and case in rule.cases and itemsize in rule.bytes and fits:
            return rule.kernels
    raise LookupError(f"no rule for {operation} with {case.value}, {itemsize} bytes, {size} entries")


def describe(cases: tuple[Case, ...]) -> str:
    """Return what the table says of the cases of a rule.

    >>> describe((Case.ALPHA_2, Case.ALPHA_15))
    'alpha = 1.5 or 2'
    """
    return DESCRIPTIONS[cases] if len(cases) > 1 else cases[0].value


def shortest(rule: Rule) -> int:
    """Return the length of a row from which a rule is taken: one more than that of the rule before it."""
    before = [
        other.longest
        for other in RULES[: RULES.index(rule)]
        if other.longest is not None
        and other.operation == rule.operation
        and set(rule.cases) <= set(other.cases)
        and set(rule.bytes) <= set(other.bytes)
    ]
    return max(before, default=0) + 1


class Exponent(NamedTuple):
    """``q = 1 / (alpha - 1)`` as kernels are compiled for it: a kind, the integer part, and the fraction."""

    kind: Kind
    integer: int
    fraction: float


@functools.cache
def exponent_of(alpha: float) -> Exponent | None:
    """Return the exponent of an entmax as it is compiled; None where it is not, outside [10/9, 2].

    >>> exponent_of(1.4)
    Exponent(kind=<Kind.ENTMAX_POWER: 6>, integer=2, fraction=0.5000000000000004)
    """
    if not 1 < alpha <= 2:
        return None
    q = 1 / (alpha - 1)
    if q > MAX_EXPONENT:
        return None
    nearest = round(q)
    if abs(q - nearest) >= 1e-7:
        return Exponent(Kind.ENTMAX_POWER, math.floor(q), q - math.floor(q))
    return Exponent({1: Kind.SPARSEMAX, 2: Kind.ENTMAX15}.get(nearest, Kind.ENTMAX_POWER), nearest, 0.0)


@functools.cache
def normmax_exponent_of(alpha: float) -> Exponent | None:
    """Return the exponent ``alpha / (alpha - 1)`` of the entmax that has the threshold of normmax, or None."""
    return exponent_of(2 - 1 / alpha) if alpha <= MAX_NORMMAX_ALPHA else None


def entmax_case(alpha: Parameter) -> Case:
    """Return the case of an alpha of entmax. A tensor is not looked at, which would wait for the GPU."""
    return Case.ALPHA_TENSOR if isinstance(alpha, Tensor) else _entmax_case(alpha)


@functools.cache
def _entmax_case(alpha: float) -> Case:
    exponent = exponent_of(alpha)
    if exponent is not None:
        by_kind = {Kind.SPARSEMAX: Case.ALPHA_2, Kind.ENTMAX15: Case.ALPHA_15}
        return by_kind.get(exponent.kind, Case.FRACTION if exponent.fraction else Case.INTEGER)
    if alpha > 2:
        return Case.ALPHA_ABOVE_2
    return Case.ALPHA_1 if alpha == 1 else Case.NEAR_1 if alpha > 1 else Case.ALPHA_BELOW_1


def normmax_case(alpha: Parameter) -> Case:
    """Return the case of an alpha of normmax."""
    if isinstance(alpha, Tensor):
        return Case.ALPHA_TENSOR
    if normmax_exponent_of(alpha) is None:
        return Case.NORM_OTHER if alpha <= 2 else Case.NORM_ABOVE_64
    return Case.NORM_POWER if alpha <= 2 else Case.NORM_POWER_ABOVE_2


def kind_of(alpha: Parameter) -> Kind:
    """Return the formula for an alpha of entmax where it is not compiled as an exponent."""
    if isinstance(alpha, Tensor) or alpha > 2:
        return Kind.ENTMAX_ABOVE_2
    return {1.0: Kind.SOFTMAX, 1.5: Kind.ENTMAX15, 2.0: Kind.SPARSEMAX}.get(alpha, Kind.ENTMAX)
