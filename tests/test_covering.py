"""The choice of cases leaves out no value by default, and no pair of values in CI."""

from itertools import combinations, product

import pytest
from covering import MANY, choose


def chosen(*sizes, name="a test"):
    cases = [dict(enumerate(values)) for values in product(*map(range, sizes))]
    return cases, list(choose(name, cases))


def occurring(cases, count):
    return {each for case in cases for each in combinations(sorted(case.items()), count)}


@pytest.mark.parametrize("sizes", [(9,), (3, 5), (13, 2, 2, 8), (4, 1, 6), (2, 2, 2, 2)])
def test_values_and_pairs_occur(sizes):
    cases, when = chosen(*sizes)
    default = [case for case, each in zip(cases, when, strict=True) if each == "default"]
    run = [case for case, each in zip(cases, when, strict=True) if each != "never"]
    assert occurring(default, 1) == occurring(cases, 1) and 4 * len(default) >= len(run)
    assert occurring(run, 2) == occurring(cases, 2)
    pairs = len(sizes) > 1
    for case in run:  # none is needless
        assert occurring([each for each in run if each is not case], 1 + pairs) != occurring(cases, 1 + pairs)
    assert len(sizes) > 2 or len(run) == len(cases)  # with two parameters, every case is a pair


def test_many_cases_become_fewer_and_few_stay():
    _, when = chosen(13, 2, 2, 8)
    assert 13 <= when.count("default") <= len(when) // 8 and when.count("never") > len(when) // 2
    assert set(chosen(2, MANY // 2)[1]) == {"default"}


def test_choice_depends_on_the_name_alone():
    assert chosen(5, 6, name="a") == chosen(5, 6, name="a") != chosen(5, 6, name="b")
