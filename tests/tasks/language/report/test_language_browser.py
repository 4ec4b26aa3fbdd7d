"""The page about language models in a browser without a screen: texts, shades, filters, narrow and dark."""

from collections.abc import Iterator
from functools import partial

import pytest
from browser import Page, read_report, screen
from selenium.webdriver.common.by import By

from omegamax.tasks.language.report import LanguageComparison, LanguageExample, LanguageRow, WrittenText, write_report

NASTY = "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked=1'>"
SOFT, SPARSE = "softmax", f"sparsemax {NASTY}"


def comparison() -> LanguageComparison:
    scores = {"epsilon_perplexity": 20.0, "perplexity": float("inf"), "sparsemax_score": 0.5, "rep": 0.25}
    curve = [{"step": 1, "val_loss": 2.0}, {"step": 2, "val_loss": 1.0}]
    rows = [
        LanguageRow(SOFT, "softmax", {**scores, "perplexity": 19.0}, 10, curve),
        LanguageRow(SPARSE, "sparsemax", scores, 10),
    ]
    text = WrittenText([" a", " film", f" {NASTY}"], [1, 10, 100], -3.5)
    cut = WrittenText([" words"] * 40, [100] * 40, None, finished=False)
    examples = [
        LanguageExample("a", f"once {NASTY}", "it was\nso", {SOFT: [cut, text], SPARSE: [text]}, 100),
        LanguageExample("b", "", "", {SOFT: [text]}, 100),
    ]
    return LanguageComparison("Texts", NASTY, rows, examples, {"seed": "0"})


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Page]:
    yield from read_report(tmp_path_factory, partial(write_report, comparison()))


@pytest.fixture
def page(opened) -> Iterator[Page]:
    yield from opened.fresh()


def test_texts_stand_side_by_side_and_shades_tell_how_many_were_possible(page):
    panels = page.panels()
    assert list(panels) == [SOFT, SPARSE]
    pieces = panels[SPARSE].find_elements(By.CSS_SELECTOR, ".written .piece")
    assert [each.get_attribute("title") for each in pieces] == [f"{n} of 100 possible" for n in (1, 10, 100)]
    shares = [float(each.get_attribute("style").split(":")[1].strip(" ;")) for each in pieces]
    assert shares[0] == 0 < shares[1] < shares[2]
    texts = panels[SOFT].find_elements(By.CSS_SELECTOR, ".written")
    assert len(texts) == 2 and texts[0].text.endswith("\u2026") and NASTY in texts[1].text
    assert "once" in page.driver.find_element(By.ID, "prompt").text


def test_unknown_perplexity_is_a_dash_and_an_absent_text_is_said(page):
    cells = page.driver.find_elements(By.CSS_SELECTOR, "#table tbody tr")[1].text
    assert "\u2013" in cells
    page.driver.find_element(By.ID, "next").click()
    assert "No text after this prompt." in page.panels()[SPARSE].text
    assert "no prompt" in page.driver.find_element(By.ID, "prompt").text


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1300])
def test_page_can_be_read_on_every_screen(page, width, scheme):
    with screen(page.driver, width, scheme):
        page.open()
        page.check_legible(width)
