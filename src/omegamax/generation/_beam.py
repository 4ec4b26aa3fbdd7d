"""Search for the most probable sequences that knows when it has found them."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from omegamax._arguments import is_number
from omegamax._numerics import exact_dtype
from omegamax.generation._ranking import Entries, FinishedSequences, cut, expansions
from omegamax.generation._sequences import Beams
from omegamax.generation._stepper import Reorder, Step, Stepper, check_count, check_ending, check_start
from omegamax.maps import Omega


def beam_search(
    step: Step,
    start: Tensor | int,
    *,
    beam: int = 5,
    omega: str | Omega = "entmax15",
    returned: int | None = None,
    eos: int | None = None,
    pad: int | None = None,
    max_length: int = 100,
    min_length: int = 0,
    temperature: float = 1.0,
    length_penalty: float = 0.0,
    state: Any = None,
    reorder: Reorder | None = None,
) -> Beams:
    r"""Return the most probable sequences of a model, and whether they are provably so.

    .. math:: \max_x \; \sum_t \log \hat p_\Omega(x_t \mid x_{<t})

    Of all continuations of all open sequences the ``beam`` likeliest go on; those that chose ``eos`` are finished. No
    continuation of a sequence is likelier than the sequence itself. So what is left aside has a bound, the largest
    probability of anything that was dropped: sequences found above it are the best ones, whatever the rest holds. A
    sequence is followed only as long as it may still enter the result.

    A sparse map leaves few continuations, often fewer than the beam is wide. If none with any probability was dropped,
    the bound is zero: the result is the *complete* set of sequences that the model can produce, all of its probability
    is in them, and the search ends there. A large beam costs nothing where it is not needed, so that ``beam=10000`` is
    a way to enumerate them. A softmax gives every sequence some probability and is never complete, but for sequences
    cut so early that the beam holds all of them.

    Ties go to the sequence found first, then to the smaller token. With a ``length_penalty`` the best score is no
    longer that of the best beginning, and the claim of exactness is void unless the result is complete.

    Args:
        beam: sequences that go on at each step, for each start; 1 is greedy.
        returned: sequences to return, at most ``beam``, the default. With 1 the search stops as soon as the first is
            beyond reach.
        max_length: tokens after which a sequence is cut, without the start. What is cut is a result too, with
            ``finished`` False.
        length_penalty: a >= 0; sequences are ranked by log-probabilities divided by their lengths to the a.
        step, start, omega, eos, pad, min_length, temperature, state, reorder: as for
            :func:`~omegamax.generation.sample`; N changes from step to step, as the sequences that are left do.

        >>> bigram = torch.tensor([[0.0, 2.0, 1.5], [0.0, 0.0, 1.2], [1.5, 0.0, 0.0]])       # to 0 is the end
        >>> def step(tokens):
        ...     return bigram[tokens[:, -1]]
        >>> found = beam_search(step, 0, beam=3, omega="sparsemax", eos=0)
        >>> found.lists()
        [[[1, 2, 0], [2, 0]]]
        >>> found.log_probs.exp()
        tensor([[0.7500, 0.2500]], dtype=torch.float64)
        >>> found.complete, beam_search(step, 0, beam=3, omega="softmax", eos=0, max_length=8).complete
        (tensor([True]), tensor([False]))

    References: Peters, Niculae & Martins, "Sparse sequence-to-sequence models" (ACL 2019), where sparse maps make beam
    search exact.
    """
    model = (step, state, reorder, omega, temperature)
    return _search("beam_search", model, start, beam, returned, eos, pad, max_length, min_length, length_penalty)


def greedy(
    step: Step,
    start: Tensor | int,
    *,
    omega: str | Omega = "entmax15",
    eos: int | None = None,
    pad: int | None = None,
    max_length: int = 100,
    min_length: int = 0,
    temperature: float = 1.0,
    state: Any = None,
    reorder: Reorder | None = None,
) -> Beams:
    r"""Return the most probable token at each step: a beam of one, K = 1.

    It is proven best if it is at least as probable as every beginning that it passed by: always, if it has half of the
    probability.

    Args:
        step, start, omega, eos, pad, max_length, min_length, temperature, state, reorder: as for
            :func:`~omegamax.generation.beam_search`.

        >>> bigram = torch.tensor([[0.0, 2.0, 1.5], [0.0, 0.0, 1.5], [1.5, 0.0, 0.0]])
        >>> found = greedy(lambda tokens: bigram[tokens[:, -1]], 0, omega="sparsemax", eos=0)
        >>> found.lists(), found.log_probs.exp(), found.exact
        ([[[1, 2, 0]]], tensor([[0.7500]], dtype=torch.float64), tensor([True]))
    """
    model = (step, state, reorder, omega, temperature)
    return _search("greedy", model, start, 1, None, eos, pad, max_length, min_length, 0.0)


@torch.no_grad()
def _search(
    name: str,
    model: tuple[Step, Any, Reorder | None, str | Omega, float],
    start: Tensor | int,
    beam: int,
    returned: int | None,
    eos: int | None,
    pad: int | None,
    max_length: int,
    min_length: int,
    length_penalty: float,
) -> Beams:
    tokens = check_start(name, start)
    check_count(name, "beam", beam, 1)
    returned = beam if returned is None else check_count(name, "returned", returned, 1)
    if returned > beam:
        raise ValueError(f"{name}: returned must be at most beam={beam}, got {returned}")
    fill = check_ending(name, min_length, max_length, eos, pad)
    if not is_number(length_penalty):
        raise TypeError(f"{name}: length_penalty must be a number, got {type(length_penalty).__name__}")
    if not 0 <= length_penalty < math.inf:
        raise ValueError(f"{name}: length_penalty must be >= 0 and finite, got {length_penalty:g}")
    step_of = Stepper(name, *model, eos, min_length)

    batch, prompt, device = *tokens.shape, tokens.device
    zeros = torch.zeros(batch, dtype=exact_dtype(device), device=device)
    live = Entries(torch.arange(batch, device=device), zeros, tokens)
    found = FinishedSequences(batch, returned, live, fill, length_penalty, max_length)
    for length in range(max_length):
        if not len(live):
            break
        log_p = step_of(live.tokens, length)
        parent, token, rest = expansions(log_p, beam)
        found.leave(live.row, live.log_prob + rest)
        grown = Entries(
            live.row[parent],
            live.log_prob[parent] + log_p[parent, token],
            torch.cat([live.tokens[parent], token[:, None]], 1),
        )
        kept, left = cut(grown.row, grown.log_prob, beam)
        found.leave(grown.row[left], grown.log_prob[left])
        ended = torch.zeros_like(token, dtype=torch.bool) if eos is None else token == eos
        closed = kept if length + 1 == max_length else kept[ended[kept]]
        new = grown[closed]
        new.tokens = new.tokens[:, prompt:]
        found.add(new, ended[closed])

        going = kept[~ended[kept]] if length + 1 < max_length else kept[:0]
        hope = found.hopeful(grown[going])
        found.leave(grown.row[going[~hope]], grown.log_prob[going[~hope]])
        going = going[hope]
        step_of.select(parent[going], len(live))
        live = grown[going]
    result = found.beams()
    none = (result.lengths == 0).all(-1) if result.lengths.shape[1] else torch.ones_like(found.bound, dtype=torch.bool)
    if bool(none.any()):
        rows = none.nonzero()[:, 0].tolist()
        raise ValueError(f"{name}: step must leave a token to some sequence of every row, got none for rows {rows[:8]}")
    return result
