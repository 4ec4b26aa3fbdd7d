"""The report on screens of all widths, light and dark: its order, the key, text that can be read, no cut tables."""

from collections.abc import Iterator
from functools import partial

import pytest
from browser import Page, read_report, screen

from omegamax.tasks.vqa.report import write_report
from tasks.vqa.report.cases import MULTI, NAMES, SOFT, TICKS, TV, marked

WIDTHS = (320, 390, 768, 1280)


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Page]:
    yield from read_report(tmp_path_factory, partial(write_report, marked()))


@pytest.fixture
def page(opened) -> Iterator[Page]:
    yield from opened.fresh()


def key(page: Page) -> list[str]:
    return [entry.get_attribute("data-mark") for entry in page.all("#key li")]


def test_where_they_looked_comes_first_then_table_then_curves(page):
    sections = [section.get_attribute("aria-labelledby") for section in page.all("section")]
    assert sections == ["look", "comparison", "learning", "components", "reliability", "settings"]


def test_key_has_the_marks_of_the_looks_shown(page):
    assert key(page) == ["colours", "cells", "hatch", "cells", "rings", "dashes"]
    assert page.texts('#key li[data-mark="hatch"]') == ["exactly 0"]
    page.model(NAMES.index(TV)).click()
    assert key(page) == ["colours", "cells", "rings", "dashes"]
    page.model(NAMES.index(MULTI)).click()
    assert key(page) == ["colours", "cells"]  # what matters
    page.pick(1)  # of which no map is known
    assert key(page) == ["colours"]
    page.model(NAMES.index(SOFT)).click()
    assert key(page) == []


def test_key_of_pictures_that_nothing_is_known_of_has_all_marks(page):
    page.pick(3)
    assert key(page) == ["colours", "cells", "hatch", "cells", "edge", "rings", "dashes", "mean"]
    assert page.texts("#key .ticks span") == ["0", "most"]


def test_colours_have_numbers_where_they_belong(page):
    assert page.texts("#key .ticks span") == [text for _, text in TICKS]
    scale = page.one("#key .scale img")
    middles = [span.location["x"] + span.size["width"] / 2 for span in page.all("#key .ticks span")]
    wanted = [scale.location["x"] + place * scale.size["width"] for place, _ in TICKS]
    assert middles == pytest.approx(wanted, abs=1.5)
    assert page.all("#key img")
    page.check_pictures()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_text_is_large_enough_and_stands_out_and_nothing_sticks_out(page, width, scheme):
    with screen(page.driver, width, scheme):
        page.open()
        page.check_legible(width)


def test_page_is_dark_for_those_who_like_it_and_pictures_stay_as_they_are(page):
    grounds = {}
    for scheme in ("light", "dark"):
        with screen(page.driver, 1280, scheme):
            page.open()
            look = "return getComputedStyle(document.querySelector(arguments[0])).backgroundColor"
            grounds[scheme] = [page.driver.execute_script(look, part) for part in ("body", "section")]
            # Behind a picture there is white, as on paper, and nothing changes its colours.
            shown = page.driver.execute_script(
                "return [...document.querySelectorAll('.panel img, #key img')].map(i => getComputedStyle(i))"
                ".map(s => [s.backgroundColor, s.filter, s.mixBlendMode, s.opacity].join())"
            )
            assert set(shown) == {"rgb(255, 255, 255),none,normal,1"}
    for light, dark in zip(grounds["light"], grounds["dark"], strict=True):
        level = [sum(map(int, colour.strip("rgb()").split(","))) / 765 for colour in (light, dark)]
        assert level[0] > 0.9 and level[1] < 0.2


@pytest.mark.parametrize("width", WIDTHS)
def test_table_that_is_cut_says_so_and_keeps_its_names(page, width):
    with screen(page.driver, width):
        page.open()
        box, hint = page.one("div.scroll[role=region]"), page.one(".sideways")
        room = page.driver.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", box)
        assert (room > 1) == (width < 1000) == hint.is_displayed() == ("more" in box.get_attribute("class").split())
        if room <= 1:
            return
        place = "return arguments[0].getBoundingClientRect().left"
        name, number = page.one("tbody th"), page.one("tbody td:last-child")
        before = [page.driver.execute_script(place, cell) for cell in (name, number)]
        page.driver.execute_script("arguments[0].scrollLeft = 1e6", box)
        page.driver.execute_async_script("requestAnimationFrame(() => requestAnimationFrame(arguments[0]))")
        after = [page.driver.execute_script(place, cell) for cell in (name, number)]
        assert after[0] == pytest.approx(before[0], abs=1) and after[1] == pytest.approx(before[1] - room, abs=1)
        assert "more" not in box.get_attribute("class").split()  # the end is reached
