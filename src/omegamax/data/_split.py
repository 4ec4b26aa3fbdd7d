"""Splits of sets that come without a validation part."""

from __future__ import annotations

from omegamax._arguments import check_interval

RUNS = 8


def held_out(name: str, count: int, share: float) -> set[int]:
    """Return positions of the pictures that validation takes from the training part: the ends of eight equal stretches.

    Neighbours often show the same place, so that a picture drawn at random would have its twin in the training part;
    one stretch alone may be of one kind.
    """
    check_interval(name, "held_out", share, "(0, 1)")
    runs = min(RUNS, round(count * share))
    if runs == 0:
        raise ValueError(f"{name}: held_out={share} of {count} training pictures is none; take a larger share")
    chosen: set[int] = set()
    for run in range(runs):
        start, end = run * count // runs, (run + 1) * count // runs
        chosen.update(range(end - max(1, round((end - start) * share)), end))
    if len(chosen) == count:
        raise ValueError(f"{name}: held_out={share} leaves none of {count} training pictures; take a smaller share")
    return chosen
