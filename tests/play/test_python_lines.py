"""The lines of Python that cards offer return what the cards show."""

import itertools
import random

import pytest
import torch

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")

from omegamax.mixtures import Mixture
from play.hands import VIEWS, names, settle, shown, text_of

# Values for the controls of a map or density, drawn between their ends; scores, temperature and weights as well.
DRAW = """const [view, name, draws] = arguments, { app, thingOf, limit } = omegamax, { state } = app;
let next = 0;
const draw = () => draws[next++ % draws.length], round = (x, step) => Math.round(x / step) * step;
state.view = view;
state.z = state.z.map(() => round(8 * draw() - 4, 0.05));
state.s = state.s.map(() => round(8 * draw() - 4, 0.05));
state.image = state.image.map((x) => Math.floor(16 * draw() * (x > 0 ? 1 : 0.3)));
state.temperature[view] = Number((10 ** (1.5 * draw() - 0.5)).toPrecision(2));
if (view in state.weights) state.weights[view] = ["softmax", "sparsemax", "entmax15"][Math.floor(3 * draw())];
const n = view === "simplex" ? 3 : view === "image" ? state.image.length : state.z.length, side = { name };
for (const a of thingOf(name).parameters) {
  if (a.choices) side[a.name] = a.choices[Math.floor(draw() * a.choices.length)];
  else if (a.flag) side[a.name] = draw() < 0.5;
  else {
    const low = limit(a.low, n), high = limit(a.high, n);
    side[a.name] = Math.min(Math.max(Number((low + round(draw() * (high - low), a.step)).toFixed(6)), low), high);
  }
}
state.sides[view][0] = side;
app.refresh();"""


def run_python(code):
    """Return ``p`` of the code of a card, in double precision."""
    torch.set_default_dtype(torch.float64)
    try:
        scope = {}
        exec(code, scope)
        return scope["p"]
    finally:
        torch.set_default_dtype(torch.float32)


def check_code(page, name, points):
    code = text_of(page, "article code")
    found = run_python(code)
    wanted = found.flatten() if isinstance(found, torch.Tensor) else found.prob(points)
    torch.testing.assert_close(
        shown(page, points), wanted, rtol=1e-9, atol=1e-9, msg=lambda m: f"{name}: {m}\n{code[-600:]}"
    )
    return found


def points_of(view):
    return torch.rand(7, 2 if view == "image" else 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("view", ["line", *(pytest.param(v, marks=pytest.mark.slow) for v in VIEWS if v != "line")])
def test_python_of_every_card_returns_what_the_card_shows(page, view):
    for name in names(page, view):
        page.open(f"#view={view}&T=2&a={name}")
        settle(page)
        found = check_code(page, name, points_of(view))
        if isinstance(found, Mixture) and name == "selected mixture":
            assert len(page.all("article:first-child .wide svg circle")) == 4  # the criterion of each number
    page.check_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_python_follows_every_control(page, view):
    draws = random.Random(view)
    for name, _ in itertools.product(names(page, view), range(4)):
        page.driver.execute_script(DRAW, view, name, [draws.random() for _ in range(997)])
        settle(page)
        check_code(page, name, points_of(view))
    page.check_quiet()


def test_python_of_a_fine_image(page):
    page.open("#view=image&T=3&a=tvmax&b=mixture")
    settle(page)
    page.driver.execute_script(
        "const c = document.getElementById('cells'); c.value = '64'; c.dispatchEvent(new Event('change'))"
    )
    settle(page)
    assert check_code(page, "tvmax", points_of("image")).shape == (64, 64)
