"""Sampling sequences."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import check_type
from omegamax._numerics import exact_dtype
from omegamax.generation._sequences import Sequences
from omegamax.generation._stepper import Reorder, Step, Stepper, check_count, check_ending, check_start
from omegamax.generation._truncation import Truncation
from omegamax.maps import Omega


@torch.no_grad()
def sample(
    step: Step,
    start: Tensor | int,
    *,
    omega: str | Omega = "entmax15",
    samples: int = 1,
    eos: int | None = None,
    pad: int | None = None,
    max_length: int = 100,
    min_length: int = 0,
    temperature: float = 1.0,
    truncation: Truncation | None = None,
    state: Any = None,
    reorder: Reorder | None = None,
    generator: torch.Generator | None = None,
) -> Sequences:
    r"""Return sequences drawn token by token from a map's probabilities; K = ``samples`` for each start.

    .. math:: x_t \sim \hat p_\Omega(\cdot \mid x_{<t})

    A sparse map needs no truncation: what it leaves out is drawn neither here nor in training, where its loss saw the
    same distribution. A token of probability zero is never drawn. Rows that have finished are not computed further.

    Args:
        step: the model, ``tokens [N, T] -> scores [N, V]``; the tokens of N sequences so far, start included.
        start: tokens ``[B, T]`` with which the sequences begin, on the device of the model; or one token, for a single
            sequence on the CPU.
        omega: name of a map or an Omega whose probabilities sum to one.
        samples: sequences for each start.
        eos: token that ends a sequence; without one, all have ``max_length`` tokens.
        pad: what stands behind it, ``eos`` by default.
        max_length: tokens after which a sequence is cut, without the start.
        min_length: tokens before which ``eos`` is ruled out; the map shares its probability out.
        temperature: by which scores are divided.
        truncation: what predictions lose before a token is drawn; None: nothing.
        state: what the model keeps of its B sequences (a cache, the encoded source): tensors whose first axis is B,
            in tuples, lists and dicts. Then ``step(tokens, state) -> (scores, state)``; empty, ``{}``, if the first
            step is to make it.
        reorder: ``(state, index [M]) -> state``, the rows ``index``, for a state of any other kind.
        generator: of random numbers, on the device of ``start``.

        >>> bigram = torch.tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [0.0, 0.5, 0.0]])       # to 0 is the end
        >>> drawn = sample(lambda tokens: bigram[tokens[:, -1]], 0, samples=3, omega="sparsemax", eos=0, max_length=8)
        >>> drawn.tokens[..., :2]                                # 0 to 1, 1 to 2: certain
        tensor([[[1, 2],
                 [1, 2],
                 [1, 2]]])

    Reference: Martins, Marinho & Martins, "Sparse text generation" (EMNLP 2020).
    """
    name = "sample"
    tokens = check_start(name, start)
    check_count(name, "samples", samples, 1)
    fill = check_ending(name, min_length, max_length, eos, pad)
    if truncation is not None:
        check_type(name, "truncation", truncation, Truncation)
    step_of = Stepper(name, step, state, reorder, omega, temperature, eos, min_length)

    batch, prompt, device = *tokens.shape, tokens.device
    alive = torch.arange(batch * samples, device=device)
    step_of.select(alive // samples, batch)
    tokens = tokens.repeat_interleave(samples, 0)
    log_probs = torch.zeros(len(tokens), dtype=exact_dtype(device), device=device)
    lengths, finished = torch.zeros_like(alive), torch.zeros_like(alive, dtype=torch.bool)
    for length in range(max_length):
        if not len(alive):
            break
        log_p = step_of(tokens[alive], length)
        _check_alive(name, log_p, tokens[alive])
        log_p = log_p if truncation is None else truncation(log_p)
        drawn = _draw(log_p, generator)
        log_probs[alive] += log_p.gather(1, drawn[:, None])[:, 0]
        column = tokens.new_full((len(tokens), 1), fill)
        column[alive, 0] = drawn
        tokens = torch.cat([tokens, column], 1)
        lengths[alive] += 1
        if eos is not None:
            ended = drawn == eos
            finished[alive[ended]] = True
            going = (~ended).nonzero()[:, 0]
            step_of.select(going, len(alive))
            alive = alive[going]
    results = (tokens[:, prompt:], log_probs, lengths, finished)
    return Sequences(*(t.unflatten(0, (batch, samples)) for t in results))


def _draw(log_p: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return one token a row, where the running sum of the probabilities passes a uniform number."""
    p = log_p.exp()
    # Sums in parallel need not rise monotonically to the last digit; at tokens without probability they do not move.
    level = torch.where(p > 0, p.cumsum(-1), 0.0).cummax(-1).values
    total = level[:, -1:]
    at = torch.rand(total.shape, dtype=level.dtype, device=level.device, generator=generator) * total
    # Below its end, it is passed.
    at = at.minimum(total.nextafter(torch.zeros_like(total)))
    return torch.searchsorted(level, at, right=True)[:, 0]


def _check_alive(name: str, log_p: Tensor, tokens: Tensor) -> None:
    dead = log_p.amax(-1).isneginf()
    if bool(dead.any()):
        after = tokens[int(dead.nonzero()[0])].tolist()
        raise ValueError(f"{name}: step must leave a token to every sequence, got none after {after[-8:]}")
