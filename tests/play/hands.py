"""How a test uses the playground: wait until it rests, read what it says, compute what a card shows."""

import torch
from browser import wait_until

VIEWS = ("scores", "simplex", "line", "image")
# Until the cards have followed, which may rest a little while things move, and the link has.
SETTLED = """const done = arguments[0];
const look = () => (omegamax.isBusy() ? setTimeout(look, 20) : done());
requestAnimationFrame(() => requestAnimationFrame(look));"""
# What a card of the page shows: probabilities, or a density at points.
SHOWN = """const [points, index] = arguments, { app, mapOf, kindOf } = omegamax, { state } = app, { view } = state;
const cells = Math.sqrt(state.image.length), side = { ...state.sides[view][index], height: cells, width: cells };
const given = { scores: state.z, simplex: state.s, line: state.z, image: state.image.map((x) => x / 15) };
const z = given[view].map((x) => x / state.temperature[view]);
if (mapOf(side.name)) return mapOf(side.name).solve(z, side);
const size = view === "image" ? [cells, cells] : [z.length];
const density = kindOf(side.name).fit(size, mapOf(state.weights[view]).solve(z), side, z);
return points.map((t) => density.prob(t));"""


def settle(page):
    page.driver.execute_async_script(SETTLED)


def wait_for(page, words, selector):
    """Wait until an element says so; it is made to wait by what comes after a while, such as announcements."""
    wait_until(lambda: words in text_of(page, selector))


def text_of(page, selector):
    return page.one(selector).get_attribute("textContent")


def shown(page, points, card=0):
    """Return what a card shows, in double precision: of a density its values at the points."""
    return torch.tensor(page.driver.execute_script(SHOWN, points.tolist(), card), dtype=torch.float64)


def names(page, view):
    """Return the maps and densities that can be chosen in a view."""
    page.open(f"#view={view}")
    return [option.get_attribute("value") for option in page.all("#map-a option")]
