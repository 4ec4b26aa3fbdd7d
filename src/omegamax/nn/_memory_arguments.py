"""What a long-term memory takes, and what it refuses."""

from __future__ import annotations

import torch
from torch import Tensor

from omegamax._arguments import check_count, check_type, is_number
from omegamax._checks import check_bools, check_floating, check_integers, check_shape, readable
from omegamax._numerics import working_dtype
from omegamax.basis import Basis, GaussianRBF
from omegamax.densities import BetaGaussian
from omegamax.nn.memory_state import MemoryState

NAME = "LongTermMemory"


def read_state(state: MemoryState, argument: str, value: Tensor, functions: int, dim: int) -> MemoryState:
    """Refuse what is not ``[B, *, D]`` for a state of N functions; return the state, also of a plain tuple or list.

    A state that was moved to half precision, to be saved say, goes on in single precision.
    """
    check_floating(NAME, argument, value)
    if not isinstance(state, tuple | list) or len(state) != 3:
        raise TypeError(f"{NAME}: state must be a MemoryState, got {type(state).__name__}")
    state = state if isinstance(state, MemoryState) else MemoryState(*state)
    batch = check_floating(NAME, "state.coefficients", state.coefficients).shape[0]
    check_shape(NAME, "state.coefficients", state.coefficients, batch, functions, dim)
    if value.dim() != 3 or value.shape[0] != batch or value.shape[-1] != dim:
        shape = tuple(value.shape)
        raise ValueError(f"{NAME}: {argument} must be [{batch}, *, {dim}] for this state, got shape {shape}")
    dtype = working_dtype(state.coefficients)
    if {state.coefficients.dtype, state.histogram.dtype} == {dtype}:
        return state
    return MemoryState(state.coefficients.to(dtype), state.length, state.histogram.to(dtype))


def make_basis(functions: int | Basis, device: torch.device | str | None) -> Basis:
    """Return the basis of the signal: the one given, or bumps with peak 1."""
    if isinstance(functions, Basis):
        if functions.dimension != 1:
            raise ValueError(f"{NAME}: functions must be a basis over one dimension, got {functions.dimension}")
        return functions
    if not is_number(functions):
        raise TypeError(f"{NAME}: functions must be an int or a basis, got {type(functions).__name__}")
    check_count(NAME, "functions", functions, least=2)
    # As wide as they are apart: narrower ones leave gaps, wider ones are hard to tell from each other.
    return GaussianRBF.grid(functions, 1, (functions - 1) ** -2, False, device=device)


def check_lengths(lengths: Tensor, batch: int, width: int) -> Tensor:
    """Refuse what are not lengths ``[B]`` of up to ``width`` vectors; return them."""
    check_shape(NAME, "lengths", check_integers(NAME, "lengths", lengths), batch)
    if readable(lengths) and lengths.numel() and not 0 <= int(lengths.min()) <= int(lengths.max()) <= width:
        raise ValueError(f"{NAME}: lengths must lie in [0, {width}], got {lengths.tolist()}")
    return lengths


def check_density(density: BetaGaussian, mask: Tensor | None, batch: int, heads: int) -> None:
    """Refuse what is no density of batch ``[B, H, Q]``, and no mask ``[B, Q]`` of its queries."""
    shape = tuple(check_type(NAME, "density", density, BetaGaussian).batch_shape)
    if len(shape) != 3 or shape[:2] != (batch, heads):
        raise ValueError(f"{NAME}: density must have batch [{batch}, {heads}, Q] for this state, got {shape}")
    if mask is not None:
        check_shape(NAME, "mask", check_bools(NAME, "mask", mask, "True counts a query"), batch, shape[2])
