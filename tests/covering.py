"""Which of the many cases of a test are worth their time."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

MANY = 8  # cases, of which some are enough


def choose(name: str, cases: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Say of each case, a number for each parameter's value, when it runs: ``default``, ``slow`` or ``never``.

    In the default run each value of each parameter occurs, and a quarter of the cases; with the slow ones, each pair of
    values of two parameters that occurs at all. Which ones are chosen depends on the name of the test alone.
    """
    if len(cases) <= MANY:
        return iter(["default"] * len(cases))
    when, values, pairs, quick = ["never"] * len(cases), set(), set(), 0
    for at in random.Random(name).sample(range(len(cases)), len(cases)):
        new = sorted(cases[at].items())
        if 4 * quick < len(cases) or not values.issuperset(new):
            when[at] = "default"
            quick += 1
        elif not pairs.issuperset(combinations(new, 2)):
            when[at] = "slow"
        else:
            continue
        values.update(new)
        pairs.update(combinations(new, 2))
    return iter(when)
