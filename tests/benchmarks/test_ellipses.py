"""The rules of the thesis that are timed beside ours compute the same integral."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

pytest.importorskip("scipy")
FOLDER = Path(__file__).parents[2] / "benchmarks"


@pytest.fixture
def rules(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import bench_ellipses

    yield bench_ellipses
    for name in ("bench_ellipses", "_runner"):
        sys.modules.pop(name, None)


def test_rules_agree_on_an_integral(rules) -> None:
    integrals, densities, bases = rules.problems()
    values = [rules.one_dimension(integral) for integral in integrals[:5]]
    which = max(range(5), key=values.__getitem__)
    assert values[which] > 1e-3
    integral, ours = integrals[which], float(densities[which].expect(bases[which]))
    for value in (rules.polar(integral), rules.naive(integral), ours):
        assert value == pytest.approx(values[which], rel=1e-9)


def test_every_rule_of_the_thesis_has_a_row(rules) -> None:
    text = (FOLDER / "results" / "ellipses_cpu.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in (*rules.THESIS, "omegamax"))
