"""One step of decoding: the model is asked, its scores become log-probabilities, its state follows the sequences."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._checks import check_above
from omegamax._numerics import exact_dtype, working_dtype
from omegamax.generation._log_probabilities import distribution, log_rows
from omegamax.maps import Omega

Step = Callable[..., Any]
Reorder = Callable[[Any, Tensor], Any]


class Stepper:
    """Log-probabilities of the next token of N sequences; N may change from step to step.

    Args:
        name: the function that asks, for messages.
        step: ``tokens [N, T] -> scores [N, V]``, or ``(tokens, state) -> (scores, state)`` if there is a state.
        state: what the model remembers of each sequence, or None.
        reorder: ``(state, index [M]) -> state`` of the sequences ``index``; by default, rows of all tensors.
        omega, temperature: the map.
        eos: end token, if any.
        min_length: tokens before which it may not come.
    """

    def __init__(
        self,
        name: str,
        step: Step,
        state: Any,
        reorder: Reorder | None,
        omega: str | Omega,
        temperature: float,
        eos: int | None,
        min_length: int,
    ):
        if not callable(step):
            raise TypeError(f"{name}: step must be callable, got {type(step).__name__}")
        if not is_number(temperature):
            raise TypeError(f"{name}: temperature must be a number, got {type(temperature).__name__}")
        check_above(name, "temperature", temperature, 0.0)
        self.name, self.step, self.state, self.reorder = name, step, state, reorder
        self.stateful = state is not None
        self.omega, self.temperature = distribution(name, omega), temperature
        self.eos, self.min_length = eos, min_length

    def __call__(self, tokens: Tensor, length: int) -> Tensor:
        """Return ``[N, V]`` in float64, for sequences of which ``length`` tokens were generated."""
        if self.stateful:
            given = self.step(tokens, self.state)
            if not isinstance(given, tuple) or len(given) != 2:
                wanted = "a pair (scores, state), as it was given a state"
                raise TypeError(f"{self.name}: step must return {wanted}, got {type(given).__name__}")
            scores, self.state = given
        else:
            scores = self.step(tokens)
        self._check(scores, tokens)
        scores = scores.to(working_dtype(scores))
        if self.eos is not None and length < self.min_length:
            scores = scores.clone()  # the model may still use its own
            scores[:, self.eos] = -math.inf
        return log_rows(scores, self.omega, self.temperature, exact_dtype(scores.device))

    def select(self, index: Tensor, count: int) -> None:
        """Keep the states of the sequences ``index``, of ``count``."""
        if not self.stateful or (len(index) == count and torch.equal(index, torch.arange(count, device=index.device))):
            return
        if self.reorder is not None:
            self.state = self.reorder(self.state, index)
        else:
            self.state = _rows(self.name, self.state, index, count)

    def _check(self, scores: Any, tokens: Tensor) -> None:
        name, count = self.name, len(tokens)
        if not isinstance(scores, Tensor) or not scores.is_floating_point():
            given = scores.dtype if isinstance(scores, Tensor) else type(scores).__name__
            raise TypeError(f"{name}: step must return a floating-point tensor of scores, got {given}")
        if scores.dim() != 2 or len(scores) != count or not scores.shape[1]:
            wanted = f"scores [{count}, V] for tokens of shape {tuple(tokens.shape)}"
            raise ValueError(f"{name}: step must return {wanted}, got shape {tuple(scores.shape)}")
        if scores.device != tokens.device:
            raise ValueError(f"{name}: step must return scores on the tokens' {tokens.device}, got {scores.device}")
        if self.eos is not None and self.eos >= scores.shape[1]:
            wanted = f"one of the {scores.shape[1]} tokens that step scores"
            raise ValueError(f"{name}: eos must be {wanted}, got {self.eos}")
        bad = ~(scores < math.inf).all(-1)  # nor is NaN
        if bool(bad.any()):
            first = tokens[int(bad.nonzero()[0])].tolist()
            given = f"NaN or +inf for {int(bad.sum())} of {count} sequences, the first after {first[-8:]}"
            raise ValueError(f"{name}: step must return scores that are finite or -inf, got {given}")


def check_start(name: str, start: Any) -> Tensor:
    """Return the tokens with which B sequences begin, ``[B, T]``."""
    if is_index(start):
        return torch.tensor([[check_token(name, "start", start)]])
    if not isinstance(start, Tensor):
        raise TypeError(f"{name}: start must be a token or a tensor of tokens [B, T], got {type(start).__name__}")
    if start.is_floating_point() or start.is_complex() or start.dtype == torch.bool:
        raise TypeError(f"{name}: start must hold integers, got dtype {start.dtype}")
    if start.dim() != 2:
        raise ValueError(f"{name}: start must have shape [B, T], got {tuple(start.shape)}")
    return start.long()


def check_token(name: str, argument: str, value: Any) -> int:
    """Refuse what is no token, an int >= 0; return it."""
    if _check_int(name, argument, value) < 0:
        raise ValueError(f"{name}: {argument} must be a token >= 0, got {value}")
    return value


def check_count(name: str, argument: str, value: Any, least: int) -> int:
    """Refuse what is no int of at least ``least``; return it."""
    if _check_int(name, argument, value) < least:
        raise ValueError(f"{name}: {argument} must be at least {least}, got {value}")
    return value


def check_ending(name: str, min_length: int, max_length: int, eos: int | None, pad: int | None) -> int:
    """Check what ends a sequence; return the token that fills up what is behind its end."""
    check_count(name, "max_length", max_length, 1)
    check_count(name, "min_length", min_length, 0)
    if min_length > max_length:
        raise ValueError(f"{name}: min_length must be at most max_length={max_length}, got {min_length}")
    if eos is not None:
        check_token(name, "eos", eos)
    if pad is None:
        return 0 if eos is None else eos
    return _check_int(name, "pad", pad)


def is_index(value: Any) -> bool:
    """Tell whether this is an int; True and False are not."""
    return isinstance(value, int) and not isinstance(value, bool)


def _check_int(name: str, argument: str, value: Any) -> int:
    if not is_index(value):
        raise TypeError(f"{name}: {argument} must be an int, got {type(value).__name__}")
    return value


def _rows(name: str, state: Any, index: Tensor, count: int) -> Any:
    """Return the state of the sequences ``index``, of nested tensors with one row for each of ``count``."""
    if isinstance(state, Tensor):
        if state.dim() == 0:
            return state
        if len(state) != count:
            wanted = f"{count} rows, one for each sequence (or give reorder)"
            raise ValueError(f"{name}: a tensor of the state must have {wanted}, got shape {tuple(state.shape)}")
        return state.index_select(0, index.to(state.device))
    if isinstance(state, dict):
        return {key: _rows(name, value, index, count) for key, value in state.items()}
    if isinstance(state, tuple | list):
        parts = [_rows(name, value, index, count) for value in state]
        return type(state)(*parts) if hasattr(state, "_fields") else type(state)(parts)
    if state is None or isinstance(state, int | float | str):
        return state
    wanted = "made of tensors, tuples, lists and dicts, or come with reorder"
    raise TypeError(f"{name}: state must be {wanted}, got {type(state).__name__}")
