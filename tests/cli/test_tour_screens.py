"""The page of the tour on screens of all widths, light and dark."""

from collections.abc import Iterator

import pytest
from browser import Page, browser, screen

pytestmark = pytest.mark.slow
WIDTHS = (320, 390, 768, 1280)
DPI, POINTS = 140, 8  # of the pictures, and of the smallest text in them


@pytest.fixture(scope="module")
def page(folder, tmp_path_factory) -> Iterator[Page]:
    own = tmp_path_factory.mktemp("browser")
    with browser(own) as driver:
        yield Page(driver, (folder / "index.html").as_uri(), own / "saved")


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", WIDTHS)
def test_text_is_large_enough_and_stands_out_and_nothing_sticks_out(page, width, scheme):
    with screen(page.driver, width, scheme):
        page.open()
        page.check_legible(width)
        ground = page.driver.execute_script("return getComputedStyle(document.body).backgroundColor")
        level = sum(map(int, ground.strip("rgb()").split(","))) / 765
        assert level > 0.9 if scheme == "light" else level < 0.2
    page.check_quiet()


@pytest.mark.parametrize("width", WIDTHS)
def test_text_in_pictures_is_legible_and_a_phone_has_one_column(page, width):
    with screen(page.driver, width):
        page.open()
        shown = page.driver.execute_script(
            "return [...document.querySelectorAll('.panels img')]"
            ".map(i => [i.offsetLeft, i.clientWidth / i.naturalWidth])"
        )
        assert min(scale for _, scale in shown) * DPI / 72 * POINTS >= 8.5  # pixels
        assert (len({left for left, _ in shown}) == 1) == (width < 600)


@pytest.mark.parametrize("width", WIDTHS)
def test_table_that_is_cut_says_so_and_keeps_its_names(page, width):
    with screen(page.driver, width):
        page.open()
        box, hint = page.one("div.scroll[role=region]"), page.one(".sideways")
        room = page.driver.execute_script("return arguments[0].scrollWidth - arguments[0].clientWidth", box)
        assert (room > 1) == (width < 900) == hint.is_displayed()
        place = "return arguments[0].getBoundingClientRect().left"
        before = page.driver.execute_script(place, page.one("td.name"))
        page.driver.execute_script("arguments[0].scrollLeft = 1e6", box)
        assert page.driver.execute_script(place, page.one("td.name")) == pytest.approx(before, abs=1)
        overlapping = page.driver.execute_script(
            "return [...document.querySelectorAll('td.name')].filter(c => c.scrollWidth > c.clientWidth).length"
        )
        assert overlapping == 0
