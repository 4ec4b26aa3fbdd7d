"""The page about texts in a browser without a screen: filters, words, alignments, wide and narrow, light and dark."""

from collections.abc import Iterator

import pytest
from browser import Page, browser, screen
from selenium.webdriver.common.by import By

from omegamax.tasks.text.report import write_report
from tasks.text.report.cases import DENSE, NAMES, NASTY, SOFT, SPARSE, comparison, leftward, pairs


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[dict[str, Page]]:
    folder = tmp_path_factory.mktemp("report")
    with browser(folder) as driver:
        made = {name: write_report(each(), folder / f"{name}.html") for name, each in KINDS.items()}
        yield {name: Page(driver, path.as_uri(), folder / "saved") for name, path in made.items()}


KINDS = {"texts": comparison, "pairs": pairs, "leftward": leftward}


@pytest.fixture
def page(opened) -> Iterator[Page]:
    yield from opened["texts"].fresh()


@pytest.fixture
def paired(opened) -> Iterator[Page]:
    yield from opened["pairs"].fresh()


@pytest.fixture
def alone(opened) -> Iterator[Page]:
    yield from opened["leftward"].fresh()


def classes(panel, *kinds: str) -> list[list[bool]]:
    words = panel.find_elements(By.CSS_SELECTOR, ".word")
    return [[kind in word.get_attribute("class").split() for word in words] for kind in kinds]


def test_words_are_grey_where_there_is_exactly_no_attention_and_underlined_where_marked(page):
    panels = page.panels()
    assert list(panels) == list(NAMES)
    marked = [False, False, True, False]
    assert classes(panels[SOFT], "none", "marked") == [[False] * 4, marked]
    assert classes(panels[SPARSE], "none", "marked") == [[True, False, False, True], marked]
    said = [word.text for word in panels[SPARSE].find_elements(By.CSS_SELECTOR, ".said")]
    assert said == ["a", "truly", "good", NASTY]
    colour = "return getComputedStyle(arguments[0]).color"
    words = panels[SPARSE].find_elements(By.CSS_SELECTOR, ".said")
    shades = [page.driver.execute_script(colour, word) for word in words]
    assert shades[0] == shades[3] != shades[1] == shades[2]
    line = "return getComputedStyle(arguments[0]).textDecorationLine"
    assert [page.driver.execute_script(line, word) for word in words] == ["none", "none", "underline", "none"]
    assert panels[SPARSE].find_element(By.CSS_SELECTOR, ".numbers").text.split("\n") == [
        "words with exactly none",
        "2 of 4",
        "token F1",
        "67%",
    ]


def test_bars_and_density_stand_above_their_words(page):
    panels = page.panels()
    words = "return [...arguments[0].querySelectorAll('.word')]"
    tops = f"{words}.map((w) => w.querySelector('.weight')?.getAttribute('height'))"
    assert page.driver.execute_script(tops, panels[SPARSE]) == [None, str(0.3 / 0.7), "1", None]
    pieces = f"{words}.map((w) => w.querySelectorAll('.over').length)"
    assert page.driver.execute_script(pieces, panels[DENSE]) == [1, 2, 2, 0]  # nothing where the density is 0
    assert page.driver.execute_script(pieces, panels[SOFT]) == [0] * 4


def test_filters_by_class_length_and_answers(page):
    assert page.choices("label") == {"all classes": 3, "positive": 1, "negative": 1}
    assert page.choices("length") == {"any": 3, "up to 10 words": 2, "up to 50 words": 1}
    assert page.choices("answers")[f"{SOFT} wrong"] == 1 and page.choices("answers")[f"{SPARSE} right"] == 2
    page.choose("length", "up to 50 words")
    assert page.one("#place").text == "1 of 1" and "30 words" in page.one("#asked").text
    assert "No look at this text." in page.panels()[DENSE].text
    page.choose("length", "any")
    page.choose("answers", f"{SOFT} wrong")
    assert page.one("#answer").text == "positive" and page.one("#place").text == "1 of 1"
    assert page.panels()[SOFT].find_element(By.CSS_SELECTOR, ".verdict").text == "negative \u2717 wrong"


def test_table_curves_and_link_are_those_of_every_report(page):
    assert len(page.all("#table tbody tr")) == 3 and len(page.all("#chart polyline")) == 2
    assert page.texts("#table tbody tr:nth-child(2) td.number")[3:6] == ["+10.0", "+5.0", "+15.0"]
    page.pick(1)
    assert page.link().endswith("#example=two")
    page.open("#example=three&model=softmax")
    assert page.one("#question").text == "unknown" and list(page.panels()) == [SOFT]


def test_alignments_are_tables_of_words(paired):
    panels = list(paired.panels().values())
    assert [len(panel.find_elements(By.CSS_SELECTOR, "table")) for panel in panels] == [2, 1]
    cells = panels[1].find_elements(By.CSS_SELECTOR, ".cell")
    blank = [("none" in cell.get_attribute("class")) for cell in cells]
    assert blank == [False, True, True, False, True, True]
    assert cells[0].get_attribute("title") == "a \u2013 a: 1.00" and "exactly 0" in cells[1].get_attribute("title")
    assert [each.text for each in panels[0].find_elements(By.TAG_NAME, "caption")] == [
        "each row sums to one",
        "each column sums to one",
    ]
    assert paired.one("#question").text == "a big dog \u2192 a cat"
    assert not paired.one("#strip").is_displayed()  # there is one example


def test_a_text_alone_that_is_written_from_right_to_left(alone):
    first, second = (word.rect["x"] for word in alone.panels()[DENSE].find_elements(By.CSS_SELECTOR, ".word"))
    assert first > second
    piece = "return getComputedStyle(document.querySelector('.above')).transform"
    assert alone.driver.execute_script(piece) == "matrix(-1, 0, 0, 1, 0, 0)"
    assert alone.one("#asked .muted").text == "2 words" and not alone.one(".hint").is_displayed()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("kind", KINDS)
def test_page_can_be_read_on_every_screen(opened, kind, width, scheme):
    page = opened[kind]
    with screen(page.driver, width, scheme):
        page.open()
        page.check_legible(width)
        assert all(panel.rect["width"] <= width for panel in page.panels().values())
