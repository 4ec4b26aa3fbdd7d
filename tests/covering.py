"""Which of the many cases of a test are worth their time."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations

MANY = 4  # cases, of which some are enough


def choose(name: str, cases: Sequence[Mapping[str, int]]) -> Iterator[str]:
    """Say of each case, a number for each parameter's value, when it runs: ``default``, ``slow`` or ``never``.

    With the slow ones, each pair of values of two parameters occurs that occurs at all, and no case could be left out;
    of those, the default run has a quarter, in which each value of each parameter occurs. Which ones are chosen depends
    on the name of the test alone.
    """
    if len(cases) <= MANY:
        return iter(["default"] * len(cases))
    values = [sorted(case.items()) for case in cases]
    when, met, quick = ["never"] * len(cases), set(), 0
    chosen = cover([{*each, *combinations(each, 2)} for each in values], random.Random(name))
    for count, at in enumerate(chosen, 1):
        new = not met.issuperset(values[at])
        when[at] = "default" if new or 4 * quick < count else "slow"
        quick += when[at] == "default"
        met.update(values[at])
    return iter(when)


def cover(sets: Sequence[set], draws: random.Random) -> list[int]:
    """Return places of sets, in random order, that hold whatever any set holds; each of them holds something alone."""
    chosen, held = [], Counter()
    for at in draws.sample(range(len(sets)), len(sets)):
        if not held.keys() >= sets[at]:
            chosen.append(at)
            held.update(sets[at])
    for at in chosen.copy():  # what came first may have become needless
        if all(held[each] > 1 for each in sets[at]):
            chosen.remove(at)
            held.subtract(sets[at])
    return chosen
