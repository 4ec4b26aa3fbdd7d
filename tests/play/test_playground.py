"""The playground as a reader uses it, with hands and keys."""

import pytest
import torch
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from play.hands import VIEWS, names, settle, text_of, wait_for


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
    wait_for(page, "sparsemax: support 1 of 7, largest 1.00 at 3", "#said")
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
    wait_for(page, "Picture loaded", "#said")
    image = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(20, 20)
    assert (image[:, :9] == 0).all() and (image[:, 11:] == 15).all()
    page.one(".drawing").send_keys(Keys.SPACE, Keys.ARROW_LEFT * 5, Keys.SPACE)
    settle(page)
    after = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(20, 20)
    assert after[10, 5] == 3
    (tmp_path / "no.png").write_text("no picture")
    page.one("#file").send_keys(str(tmp_path / "no.png"))
    wait_for(page, "no picture", "#trouble")


def test_image_is_drawn_by_keys_and_in_cells_of_other_sizes(page):
    page.open("#view=image&image=" + "0" * 400)
    settle(page)
    page.one(".drawing").send_keys("9", Keys.ARROW_RIGHT, "5", Keys.ARROW_RIGHT, "7", Keys.BACKSPACE)
    settle(page)
    image = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(20, 20)
    assert image[10, 10:13].tolist() == [15, 8, 0] and image.sum() == 23
    wait_for(page, "column 13, row 11, 0 of 15", "#said")
    assert "A, sparsemax: support" in text_of(page, "#said")
    Select(page.one("#cells")).select_by_value("64")
    settle(page)
    image = torch.tensor(page.driver.execute_script("return omegamax.app.state.image")).reshape(64, 64)
    assert set(image.unique().tolist()) == {0, 8, 15} and "of 4096" in page.texts("dl")[0]
    ActionChains(page.driver).move_to_element_with_offset(
        page.one(".drawing"), -90, -90
    ).click_and_hold().move_by_offset(180, 0).release().perform()
    settle(page)
    row = page.driver.execute_script("return omegamax.app.state.image.slice(13 * 64, 14 * 64)")
    assert min(row[14:50]) > 0  # a stroke without gaps, however few places the hand was seen at


def test_scores_are_typed(page):
    page.open()
    settle(page)
    field = page.one("#typed")
    field.clear()
    field.send_keys("[3, -2.5;  900 0.125]", Keys.ENTER)
    settle(page)
    assert page.driver.execute_script("return omegamax.app.state.z") == [3, -2.5, 900, 0.125]
    assert page.one("[aria-label='Score 3']").get_attribute("aria-valuenow") == "900"
    assert "support 1 of 4" in page.texts("dl")[1].replace("\n", " ")
    for wrong in ("", "1", "1, two", "NaN, 1", "1, Infinity", "1e9, 0", ",,,", "1 " * 13):
        field.clear()
        field.send_keys(wrong, Keys.ENTER)
        settle(page)
        assert "Wanted: 2 to 12 numbers" in text_of(page, "#typed-trouble"), wrong
        assert field.get_attribute("aria-invalid") == "true"
        assert page.driver.execute_script("return omegamax.app.state.z") == [3, -2.5, 900, 0.125]
    field.clear()
    field.send_keys("0, 0", Keys.ENTER)
    settle(page)
    assert (
        text_of(page, "#typed-trouble") == ""
        and page.one("[aria-label='Score 1']").get_attribute("aria-valuemax") == "4"
    )
    page.check_quiet()


def test_threshold_is_walked_by_buttons(page):
    page.open("#view=scores&a=sparsemax&b=argmax&steps=Newton~1,Newton~1")
    settle(page)
    back, on = page.one("[aria-label='One step back, A']"), page.one("[aria-label='One step on, A']")
    assert not back.is_enabled()
    while on.is_enabled():
        on.click()
        settle(page)
    assert "sum of p 1.0000, wanted 1" in page.texts("section.wide")[0]
    assert "largest score takes all" in page.texts("section.wide")[1]


def test_numbers_are_those_of_the_charts(page):
    page.open("#view=scores&z=1,0.5,-2&a=sparsemax")
    settle(page)
    page.one("summary").click()
    settle(page)
    rows = [[float(word.replace("\u2212", "-")) for word in row.split()] for row in page.texts("tbody tr")]
    assert rows == [[1, 1, 0.75, 0.5, -0.5, 0], [2, 0.5, 0.25, -0.5, 0.5, 0], [3, -2, 0, 0, 0, 0]]


def test_tabs_are_walked_by_keys(page):
    page.open()
    page.one("#tab-scores").send_keys(Keys.ARROW_RIGHT)
    settle(page)
    assert page.one("#tab-simplex").get_attribute("aria-selected") == "true"
    assert page.driver.switch_to.active_element.get_attribute("id") == "tab-simplex"
