"""The page about captions in a browser without a screen: strips of maps, zeros, filters, wide and narrow, dark."""

from collections.abc import Iterator
from functools import partial

import pytest
from browser import Page, read_report, screen, wait_until
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from omegamax.tasks.captioning.report import write_report
from tasks.captioning.report.cases import BARE, NASTY, SOFT, SPARSE, comparison


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Page]:
    yield from read_report(tmp_path_factory, partial(write_report, comparison()))


@pytest.fixture
def page(opened) -> Iterator[Page]:
    yield from opened.fresh()


def wait_for_maps(page):
    """Until they are drawn, once the photograph is decoded."""
    wait_until(lambda: len(page.all("article canvas")) == len(page.all("article .map")) > 0)


def centres(page, model, word=0):
    """The colour of the centre of each cell of a map, as the browser drew it."""
    wait_for_maps(page)
    script = """
        const shown = arguments[0].querySelectorAll("canvas")[arguments[1]], canvas = document.createElement("canvas");
        [canvas.width, canvas.height] = [shown.width, shown.height];
        const pen = canvas.getContext("2d", { willReadFrequently: true });
        pen.drawImage(shown, 0, 0);
        return [0, 1].flatMap((r) => [0, 1, 2].map((c) => [...pen.getImageData(
            Math.floor((c + 0.5) * shown.width / 3), Math.floor((r + 0.5) * shown.height / 2), 1, 1).data]));"""
    return page.driver.execute_script(script, page.panels()[model], word)


def test_there_is_a_map_for_each_word_and_zeros_are_white_or_not(page):
    panels = page.panels()
    assert list(panels) == [SOFT, SPARSE, BARE]
    words = [each.text for each in panels[SPARSE].find_elements(By.CSS_SELECTOR, "figcaption")]
    assert words == ["a", "dog", "grass", NASTY]
    white = [[255, 255, 255, 255] == colour for colour in centres(page, SPARSE)]
    assert white == [True, False, True, False, False, True]
    assert not any([255, 255, 255, 255] == colour for colour in centres(page, SOFT))
    page.all("#zeros button")[1].click()
    assert not any([255, 255, 255, 255] == colour for colour in centres(page, SPARSE))
    assert "Its maps were not kept." in page.panels()[BARE].text
    assert (
        page.texts("#references li") == ["a dog runs", f"the {NASTY}"] and "with dog, person" in page.one("#asked").text
    )


def test_filters_by_word_theme_and_sameness(page):
    assert page.choices("word") == {"any word": 3, "dog": 2, "grass": 2}  # "dogs" is in one alone
    assert page.choices("same") == {"all": 3, "all the same": 2, "that differ": 1}
    page.choose("same", "that differ")
    assert page.one("#place").text == "1 of 1"
    page.choose("same", "all")
    page.choose("theme", "one repeats itself")
    assert "picked for: one repeats itself" in page.one("#asked").text
    assert "(nothing)" in page.panels()[SOFT].text and "No caption of this photograph." in page.panels()[SPARSE].text


def test_click_enlarges_and_keys_go_on(page):
    wait_for_maps(page)
    narrow = page.panels()[SPARSE].find_element(By.CSS_SELECTOR, "canvas").rect["width"]
    page.panels()[SPARSE].find_element(By.CSS_SELECTOR, ".map").click()
    wait_for_maps(page)
    assert "large=" in page.link()
    assert page.panels()[SPARSE].find_element(By.CSS_SELECTOR, ".map").rect["width"] > 1.5 * narrow
    page.press(Keys.ESCAPE)
    assert "large=" not in page.link()
    page.press(Keys.ARROW_RIGHT)
    assert page.one("#place").text == "2 of 3" and "Nobody wrote a caption" in page.one("#asked").text


def test_table_and_curves(page):
    assert len(page.all("#table tbody tr")) == 3 and len(page.all("#chart polyline")) == 2
    assert page.texts("#measures button") == ["BLEU-4, validation", "loss, validation"]
    best = page.texts("#table strong")
    assert "21.0" in best and "5.84" in best and "6.09" not in best


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
def test_page_can_be_read_on_every_screen(opened, width, scheme):
    with screen(opened.driver, width, scheme):
        opened.open()
        opened.check_legible(width)
