"""Tasks whose answers are known at any length: copy, reverse, sort, two back, and retrieval by keys."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from omegamax._arguments import check_choice, check_integer

ASK = 1  # what stands between a question and its answer
SYMBOLS = 32
FIRST = 2  # the number of the first symbol: 0 is padding
_QUERIES = 4


def draw_task(
    task: str,
    batch: int,
    length: int,
    generator: torch.Generator,
    symbols: int = SYMBOLS,
    keys: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Draw texts of a task, and what is to be foretold at each of their places; 0 where nothing is.

    ``"copy"``, ``"reverse"`` and ``"sort"``: ``length`` symbols, the sign that asks, and the same symbols, as they
    were, from back to front, or in order. ``"two_back"``: at each place the symbol two places before it. ``"recall"``:
    pairs of a key and a value, ``length`` symbols in all, then the sign and keys of four of the pairs, each to be
    followed by its value; no two keys are the same.

    Args:
        task: its name.
        batch: B.
        length: of the question.
        generator: of random numbers; tensors are on its device.
        symbols: how many there are.
        keys: how many there are for ``"recall"`` to choose from, half of the length at least; None: that half. Who is
            to be asked about longer texts has to have seen all keys.

    Returns:
        tokens and targets, int64 ``[B, T]`` each.

        >>> tokens, target = draw_task("reverse", 1, 3, torch.Generator().manual_seed(0))
        >>> tokens, target
        (tensor([[14, 17, 23,  1, 23, 17]]), tensor([[ 0,  0,  0, 23, 17, 14]]))

    Reference: Vasylenko, Pitorro, Martins & Treviso, "Long-context generalization with sparse attention" (2025).
    """
    check_choice("draw_task", "task", task, TASKS)
    for argument, value in (("batch", batch), ("symbols", symbols)):
        check_integer("draw_task", argument, value, least=1)
    check_integer("draw_task", "length", length, least=2 * _QUERIES if task == "recall" else 3)
    if task == "recall":
        keys = length // 2 if keys is None else check_integer("draw_task", "keys", keys, least=length // 2)
        return _recall(batch, length // 2, generator, symbols, keys)
    return _CHANGES[task](_draw(batch, length, generator, symbols))


def count_tokens(task: str, keys: int, symbols: int = SYMBOLS) -> int:
    """Return how many tokens a network needs for a task, with so many keys if it has any.

    >>> count_tokens("copy", 50), count_tokens("recall", 50)
    (34, 84)
    """
    return FIRST + symbols + (keys if task == "recall" else 0)


def _answer(question: Tensor, answer: Tensor) -> tuple[Tensor, Tensor]:
    """Return the text of a question and its answer, foretold from the sign that asks on."""
    sign = torch.full_like(question[:, :1], ASK)
    tokens = torch.cat([question, sign, answer[:, :-1]], 1)
    return tokens, torch.cat([torch.zeros_like(question), answer], 1)


def _draw(batch: int, length: int, generator: torch.Generator, symbols: int) -> Tensor:
    return torch.randint(FIRST, FIRST + symbols, (batch, length), generator=generator, device=generator.device)


def _recall(batch: int, count: int, generator: torch.Generator, symbols: int, keys: int) -> tuple[Tensor, Tensor]:
    def shuffle(size: int) -> Tensor:
        return torch.rand(batch, size, generator=generator, device=generator.device).argsort(1)

    known = FIRST + symbols + shuffle(keys)[:, :count]
    values = _draw(batch, count, generator, symbols)
    asked = shuffle(count)[:, :_QUERIES]
    answers = values.gather(1, asked)
    question = torch.stack([known, values], 2).flatten(1)
    pairs = torch.stack([known.gather(1, asked), answers], 2).flatten(1)
    tokens = torch.cat([question, torch.full_like(known[:, :1], ASK), pairs], 1)
    target = torch.zeros_like(tokens)
    # A value is foretold from its key, which stands before it.
    target[:, question.shape[1] + 1 :: 2] = answers
    return tokens, target


# From symbols to the text that has them, and what is to be foretold.
_CHANGES: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "copy": lambda x: _answer(x, x),
    "reverse": lambda x: _answer(x, x.flip(1)),
    "sort": lambda x: _answer(x, x.sort(1).values),
    "two_back": lambda x: (x, torch.nn.functional.pad(x[:, :-2], (2, 0))),
}
TASKS = (*_CHANGES, "recall")
