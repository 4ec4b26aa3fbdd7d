"""Find the best dependency tree, arcs crossing or not: contraction of cycles (Chu-Liu-Edmonds)."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor


def arborescence(scores: Tensor, single_root: bool) -> Tensor:
    """Return heads ``[B, n]`` of trees of largest score, -1 throughout where there is none.

    ``scores [B, n, n]`` are [modifier, head]; the diagonal attaches a word to the root, and a root is its own head in
    the answer. With ``single_root`` exactly one is.
    """
    table = scores.detach().cpu().numpy()
    heads = np.stack([_solve_row(w, single_root) for w in table]) if len(table) else np.zeros(table.shape[:2], np.int64)
    return torch.from_numpy(heads).to(scores.device)


def _solve_row(w: np.ndarray, single_root: bool) -> np.ndarray:
    size = len(w)
    forbidden = np.isneginf(w)
    # Forbidden arcs and roots beyond the first are costs that no score outweighs, so they are counted apart and
    # compared first: no large number has to be added, and nothing is rounded away.
    cost = forbidden * (size + 1.0)
    if single_root:
        cost = cost + np.eye(size)
    heads = _contract(-cost, np.where(forbidden, 0.0, w))
    at = np.arange(size)
    own = heads == at
    if forbidden[at, heads].any() or (single_root and own.sum() != 1):
        return np.full(size, -1)
    return heads


def _contract(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return heads of the tree whose arcs' pairs ``(first, second)`` have the largest sum in lexicographic order."""
    size = len(first)
    root = size
    # One more head: the root. Nothing may be its own head, nor be reached again once it is part of a cycle.
    gone = -math.inf
    a, b = (np.concatenate([t, np.diag(t)[:, None]], 1) for t in (first.astype(float), second.astype(float)))
    a[np.arange(size), np.arange(size)] = gone
    alive = np.ones(size, bool)
    records = []
    while True:
        words = np.flatnonzero(alive)
        heads = np.full(size, root)
        heads[words] = _argmax(a[words], b[words])
        cycle = _find_cycle(heads, words, root)
        if cycle is None:
            break
        stay, rest = cycle[0], cycle[1:]
        # What it costs to enter the cycle from each head, and through which word.
        enter_a = a[cycle] - a[cycle, heads[cycle]][:, None]
        enter_b = b[cycle] - b[cycle, heads[cycle]][:, None]
        enter = cycle[_argmax(enter_a.T, enter_b.T)]
        leave = cycle[_argmax(a[:, cycle], b[:, cycle])]
        records.append((cycle, heads[cycle].copy(), enter, leave))
        column_a, column_b = a[np.arange(size), leave], b[np.arange(size), leave]
        position = np.empty(size, np.int64)
        position[cycle] = np.arange(len(cycle))
        through = position[enter]
        a[stay], b[stay] = enter_a[through, np.arange(size + 1)], enter_b[through, np.arange(size + 1)]
        a[:, stay], b[:, stay] = column_a, column_b
        a[:, rest] = gone
        a[stay, stay] = gone
        alive[rest] = False
    for cycle, inner, enter, leave in reversed(records):
        stay = cycle[0]
        into = heads[stay]
        outside = np.flatnonzero(alive & (heads == stay))
        heads[outside] = leave[outside]
        alive[cycle] = True
        heads[cycle] = inner
        heads[enter[into]] = into
    return np.where(heads == root, np.arange(size), heads)


def _argmax(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """Return where each row of pairs has its lexicographic maximum."""
    top = first.max(1, keepdims=True)
    return np.where(first == top, second, -math.inf).argmax(1)


def _find_cycle(heads: np.ndarray, words: np.ndarray, root: int) -> np.ndarray | None:
    """Return a cycle among ``words``, if their heads form any."""
    seen = {root: -1}
    for turn, word in enumerate(words.tolist()):
        at = word
        while at not in seen:
            seen[at] = turn
            at = int(heads[at])
        if seen[at] == turn:
            cycle = [at]
            while (at := int(heads[at])) != cycle[0]:
                cycle.append(at)
            return np.array(cycle)
    return None
