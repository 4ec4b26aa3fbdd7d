"""The playground as a reader uses it: hands, keys, links, the Python of each card, screens of all widths."""

import itertools
import time

import pytest
import torch

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select
from tasks.vqa.report.reader import screen
from tasks.vqa.report.sight import audit, faint, small

from omegamax.mixtures import Mixture

VIEWS = ("scores", "simplex", "line", "image")
NEXT_FRAME = "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => done()))"
# What the cards of the page show: probabilities, or a density at points.
SHOWN = """const { app, mapOf, kindOf } = omegamax, { state } = app, { view } = state, T = state.temperature[view];
const side = { ...state.sides[view][0], height: 20, width: 20 };
const given = { scores: state.z, simplex: state.s, line: state.z, image: state.image.map((x) => x / 15) };
const z = given[view].map((x) => x / T);
if (mapOf(side.name)) return mapOf(side.name).solve(z, side);
const size = view === "image" ? [20, 20] : [z.length];
const density = kindOf(side.name).fit(size, mapOf(state.weights[view]).solve(z), side, z);
return arguments[0].map((t) => density.prob(t));"""


def settle(page):
    page.driver.execute_async_script(NEXT_FRAME)


def names(page, view):
    page.open(f"#view={view}")
    return [option.get_attribute("value") for option in page.all("#map-a option")]


def run_python(code):
    """Return ``p`` of the code of a card, in double precision."""
    torch.set_default_dtype(torch.float64)
    try:
        scope = {}
        exec(code, scope)
        return scope["p"]
    finally:
        torch.set_default_dtype(torch.float32)


def text_of(page, selector):
    return page.one(selector).get_attribute("textContent")


@pytest.mark.parametrize("view", ["line", *(pytest.param(v, marks=pytest.mark.slow) for v in VIEWS if v != "line")])
def test_python_of_every_card_returns_what_the_card_shows(page, view):
    points = torch.rand(7, 2 if view == "image" else 1, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    for name in names(page, view):
        page.open(f"#view={view}&T=2&a={name}")
        settle(page)
        found = run_python(text_of(page, "article code"))
        shown = torch.tensor(page.driver.execute_script(SHOWN, points.tolist()), dtype=torch.float64)
        wanted = found.flatten() if isinstance(found, torch.Tensor) else found.prob(points)
        torch.testing.assert_close(shown, wanted, rtol=1e-9, atol=1e-9, msg=lambda m, name=name: f"{name}: {m}")
        if isinstance(found, Mixture) and name == "selected mixture":
            assert len(page.all("article:first-child svg circle")) == 4  # the criterion of each number
    page.check_quiet()


@pytest.mark.slow
@pytest.mark.parametrize("view", VIEWS)
def test_every_control_can_be_used_to_its_ends(page, view):
    for name in names(page, view):
        page.open(f"#view={view}&a={name}")
        settle(page)
        for control in page.all(
            "article:first-child .control input, article:first-child .control select, #inputs .control input"
        ):
            if not control.is_displayed():
                continue
            if control.tag_name == "select":
                for option in Select(control).options:
                    option.click()
                    settle(page)
            elif control.get_attribute("type") == "checkbox":
                control.click()
            else:
                for key in (Keys.HOME, Keys.END, Keys.ARROW_LEFT):
                    control.send_keys(key)
                    settle(page)
            said = text_of(page, "main")
            assert "NaN" not in said and "undefined" not in said, (name, control.get_attribute("id"))
    page.check_quiet()


def test_scores_follow_keys_and_hands(page):
    page.open()
    bar = page.one("[role=slider][aria-label='Score 3']")
    bar.send_keys(Keys.ARROW_UP, Keys.ARROW_UP, Keys.PAGE_DOWN)
    settle(page)
    assert float(bar.get_attribute("aria-valuenow")) == pytest.approx(1.8 + 0.2 - 1)
    bar.send_keys(Keys.END)
    settle(page)
    assert bar.get_attribute("aria-valuenow") == "4"
    time.sleep(0.5)
    assert "sparsemax: support 1 of 7, largest 1.00 at 3" in text_of(page, "#said")
    ActionChains(page.driver).move_to_element(page.one(".scores svg")).click_and_hold().move_by_offset(
        0, 40
    ).release().perform()
    settle(page)
    moved = page.one("[role=slider][aria-label='Score 4']")
    assert float(moved.get_attribute("aria-valuenow")) == pytest.approx(-40 / 176 * 8, abs=0.06)
    assert "p = omegamax.softmax(z)" in text_of(page, "article code")


def test_touch_drags_a_bar(page):
    page.open()
    box = page.one(".scores svg").rect
    for kind, y in (("touchStart", 110), ("touchMove", 60), ("touchEnd", None)):
        points = [] if y is None else [{"x": box["x"] + 10, "y": box["y"] + y}]
        page.driver.execute_cdp_cmd("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    settle(page)
    bar = page.one("[role=slider][aria-label='Score 1']")
    assert float(bar.get_attribute("aria-valuenow")) == pytest.approx(50 / 176 * 8, abs=0.06)


def test_targets_change_the_loss_and_say_what_is_missing(page):
    page.open("#view=scores&a=k_subsets~k=3&b=constrained_softmax~upper=0.4")
    settle(page)
    facts = page.texts("dl")
    assert "mark 3 targets" in facts[0] and "target above the bound" in facts[1]
    for target in (1, 3):
        page.one(f"[aria-label='Target {target}']").click()
    settle(page)
    facts = page.texts("dl")
    assert "loss, target 1, 2, 3" in facts[0] and "loss, target 1, 2, 3" in facts[1]


@pytest.mark.parametrize("view", VIEWS)
def test_link_holds_the_state(page, view):
    page.open(f"#view={view}")
    settle(page)
    if view == "image":
        ActionChains(page.driver).move_to_element(page.one(".drawing")).click_and_hold().move_by_offset(
            30, 5
        ).release().perform()
    else:
        page.one("[aria-label='Score 2']").send_keys(Keys.ARROW_DOWN * 7)
    Select(page.one("#map-b")).select_by_index(3)
    page.one("#temperature").send_keys(Keys.ARROW_RIGHT * 5)
    settle(page)
    time.sleep(0.3)
    link, codes = page.driver.execute_script("return location.hash"), page.texts("article code")
    page.open(link)
    settle(page)
    assert page.texts("article code") == codes
    page.driver.execute_script("location.hash = arguments[0]", "#view=scores&z=1,2,3")  # pasted into the open page
    time.sleep(0.3)
    assert "tensor([1, 2, 3])" in text_of(page, "article code")


@pytest.mark.parametrize(
    "link",
    [
        "#",
        "#view=nowhere",
        "#view=scores&z=a,b&T=-1&a=entmax~alpha=x&b=no~k=1",
        "#view=image&image=zz&T=1e99&a=mixture~K=99",
    ],
)
def test_link_that_makes_no_sense_does_no_harm(page, link):
    page.open(link)
    settle(page)
    assert len(page.all("article")) == 2 and "NaN" not in text_of(page, "main")
    page.check_quiet()


def test_point_of_the_simplex_is_moved_in_either_card(page):
    page.open("#view=simplex")
    settle(page)
    point = page.all(".point")[1]
    point.send_keys(Keys.ARROW_UP * 20)
    settle(page)
    z = page.driver.execute_script("return omegamax.app.state.s")
    assert z[2] > max(z[:2]) and page.all(".point")[1].id == page.driver.switch_to.active_element.id
    ActionChains(page.driver).move_to_element_with_offset(page.all(".layer")[0], -150, 80).click().perform()
    settle(page)
    z = page.driver.execute_script("return omegamax.app.state.s")
    assert z[0] > max(z[1:])


def test_map_sends_scores_to_the_summit_of_its_levels(page):
    """Nowhere on the triangle is <p, z> - Omega(p) larger than at p, and near p it is almost as large."""
    page.open("#view=simplex&z=0.5,0.3,-0.4")
    settle(page)
    found = page.driver.execute_script("""const z = [0.5, 0.3, -0.4];
        return ["softmax", "sparsemax", "entmax15", "fusedmax", "oscarmax"].map((name) => {
            const map = omegamax.mapOf(name), side = { strength: 0.1, base: "sparsemax" }, p = map.solve(z, side);
            const top = p.reduce((s, x, i) => s + x * z[i], 0) - map.omega(p, side);
            return [top, Math.max(...omegamax.objectiveValues(map, side, z, 1).flat().filter((v) => !Number.isNaN(v)))];
        });""")
    for top, highest in found:
        assert top - 5e-3 < highest <= top + 1e-12
    assert len(page.one(".isoline").get_attribute("d")) > 1000


def test_picture_is_loaded_and_drawn_on(page, tmp_path):
    from PIL import Image

    picture = Image.new("L", (64, 40), 0)
    picture.paste(255, (32, 0, 64, 40))
    picture.save(tmp_path / "right.png")
    page.open("#view=image&b=mixture")
    settle(page)
    page.one("#file").send_keys(str(tmp_path / "right.png"))
    time.sleep(0.5)
    image = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(20, 20)
    assert (image[:, :9] == 0).all() and (image[:, 11:] == 15).all()
    page.one(".drawing").send_keys(Keys.SPACE, Keys.ARROW_LEFT * 5, Keys.SPACE)
    settle(page)
    after = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(20, 20)
    assert after[10, 5] == 3
    (tmp_path / "no.png").write_text("no picture")
    page.one("#file").send_keys(str(tmp_path / "no.png"))
    time.sleep(0.5)
    assert "no picture" in text_of(page, "#trouble")


def test_tabs_are_walked_by_keys(page):
    page.open()
    page.one("#tab-scores").send_keys(Keys.ARROW_RIGHT)
    settle(page)
    assert page.one("#tab-simplex").get_attribute("aria-selected") == "true"
    assert page.driver.switch_to.active_element.get_attribute("id") == "tab-simplex"


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_text_is_large_enough_and_stands_out_and_nothing_sticks_out(page, width, scheme):
    for view in VIEWS:
        with screen(page.driver, width, scheme):
            page.open(f"#view={view}&b=entmax~alpha=1.3" if view == "scores" else f"#view={view}")
            settle(page)
            assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
            assert faint(page.driver) == [] and small(page.driver) == []
    page.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_audit_of_accessibility_finds_nothing(page, scheme):
    for view, width in itertools.product(VIEWS, (390, 1280)):
        with screen(page.driver, width, scheme):
            page.open(f"#view={view}")
            settle(page)
            assert audit(page.driver) == []
