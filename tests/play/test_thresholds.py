"""The threshold that the playground finds step by step is the one of the map."""

import random

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")

from play.test_mathematics import MAPS, draw

# The steps to the threshold, and the probabilities there; words where there is none.
SEARCH = """const [name, method, cases] = arguments, map = omegamax.mapOf(name);
return cases.map(([z, a]) => {
  const search = map.search(z, a);
  if (typeof search === "string") return search;
  const steps = omegamax.searchSteps(search, method), { tau } = steps.at(-1), leads = search.z.map((x) => x - tau);
  const power = 1 / (a.alpha - 1), shares = leads.map((v) => (v > 0 ? v ** power : 0));
  const total = shares.reduce((t, x) => t + x, 0);
  const found = name === "normmax" ? shares.map((x) => x / total) : leads.map(search.part);
  return { steps, off: Math.max(...map.solve(z, a).map((p, i) => Math.abs(p - found[i]))) };
});"""


def search(page, name, method, count):
    draws = random.Random(2)
    cases = [draw(name, draws)[:2] for _ in range(count)]
    return page.driver.execute_script(SEARCH, name, method, [[z.tolist(), a] for z, a in cases])


@pytest.mark.parametrize("method", ["bisection", "Newton"])
@pytest.mark.parametrize("name", MAPS)
def test_steps_end_at_the_threshold(page, name, method):
    found = search(page, name, method, 40)
    if name in ("argmax", "sequential_k_subsets"):
        assert all(words.startswith("None: ") for words in found)
        return
    steps = [each["steps"] for each in found if not isinstance(each, str)]
    assert len(steps) > (10 if name == "k_subsets" else 39)  # at most k may need none
    assert max(each["off"] for each in found if not isinstance(each, str)) < 1e-8
    for way in steps:
        for step in way:
            assert step["low"] - 1e-12 <= step["tau"] <= step["high"] + 1e-12
        widths = [step["high"] - step["low"] for step in way]
        assert widths == sorted(widths, reverse=True)


def test_newton_needs_fewer_steps_than_bisection(page):
    for name in ("softmax", "sparsemax", "entmax15", "normmax", "fusedmax"):
        bisected, newton = (search(page, name, method, 20) for method in ("bisection", "Newton"))
        assert max(len(each["steps"]) for each in newton) <= 12 < min(len(each["steps"]) for each in bisected), name
