"""The report in a browser without a screen: pick an example, switch models, read what is shown."""

import base64
from collections.abc import Iterator
from functools import partial
from urllib.parse import quote_plus

import pytest
from browser import Page, read_report, wait_until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

from omegamax.tasks.vqa.report import write_report
from tasks.vqa.report.cases import IMAGE, MULTI, NAMES, NASTY, SOFT, TV, comparison, look_picture


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[Page]:
    yield from read_report(tmp_path_factory, partial(write_report, comparison()))


@pytest.fixture
def page(opened) -> Iterator[Page]:
    """The report freshly opened; whatever a test did, nothing was complained of and nobody was asked anything."""
    yield from opened.fresh()


def test_example_picked_shows_question_answers_and_looks(page):
    assert page.one("#question").text == "Is it red?"
    page.pick(2)
    assert page.one("#question").text == "How many?" and page.one("#answer").text == "3"
    assert page.one("#place").text == "3 of 4"
    panels = page.panels()
    assert list(panels) == list(NAMES)
    soft = panels[SOFT]
    assert soft.find_element(By.CSS_SELECTOR, ".verdict").text == "2 \u2717 wrong"
    lines = soft.find_elements(By.CSS_SELECTOR, ".answers li")
    assert [line.text.split("\n") for line in lines] == [["2", "50.0%"], ["another", "10.0%"], ["unsure", "\u2013"]]
    assert soft.find_element(By.CSS_SELECTOR, ".numbers").text.split() == ["JSD", "0.125", "inside", "25%"]
    assert panels[TV].find_element(By.CSS_SELECTOR, ".verdict").text == "3 \u2713 right"
    assert "No look at this example" in panels[MULTI].text
    page.pick(0)
    assert page.panels()[MULTI].find_element(By.CSS_SELECTOR, ".numbers").text.split()[-2:] == ["K*", "2"]


def test_picture_of_a_look_is_the_right_one_and_can_be_kept(page):
    page.pick(3)
    for place, panel in enumerate(page.panels().values()):
        wanted = "data:image/png;base64," + base64.b64encode(look_picture(3, place)).decode()
        assert panel.find_element(By.TAG_NAME, "img").get_attribute("src") == wanted
        assert panel.find_element(By.CSS_SELECTOR, ".download").get_attribute("href") == wanted
    page.check_pictures()
    page.panels()[TV].find_element(By.CSS_SELECTOR, ".download").click()
    assert page.saved("val-3-é_tvmax-b-2-d-b.png") == look_picture(3, 1)


def test_note_stands_beneath_the_picture_it_is_about(page):
    notes = []
    for place in range(4):
        page.pick(place)
        notes.append(page.texts("#plain .note"))
    assert notes == [[], [], [f"no picture: {IMAGE}"], []]


def test_numbers_of_components_stand_side_by_side_with_the_selected_one_marked(page):
    page.pick(3)
    panels = page.all("#fits figure")
    assert [panel.find_element(By.TAG_NAME, "figcaption").text for panel in panels] == ["K = 1", "K = 2 = K*"]
    assert [panel.find_element(By.CSS_SELECTOR, ".verdict").text for panel in panels] == [f"{IMAGE} \u2717 wrong", "3"]
    assert [panel.get_attribute("class") for panel in panels] == ["fit", "fit chosen"]
    page.one("#fits .keyed").click()
    assert int.from_bytes(page.saved("val-3-é_multimodal-K-Co_components.png")[16:20], "big") == 2 * 380 + 20
    page.model(2).click()
    assert page.all("#fits figure") == []
    page.pick(2)  # no look of the mixture
    assert page.all("#fits figure") == []


def test_examples_are_found_by_what_they_were_picked_for_and_by_whose_answer_is_wrong(page):
    assert page.choices("theme") == {"anything": 4, "nothing: first of its kind": 2, "wide ellipse": 2}
    page.choose("theme", "wide ellipse")
    assert page.one("#place").text == "1 of 2" and "picked for: wide ellipse" in page.one("#asked").text
    page.choose("theme", "anything")
    wrong = {name: count for name, count in page.choices("answers").items() if name.endswith("wrong")}
    assert wrong == {"some wrong": 2, f"{SOFT} wrong": 2}  # what there is none of cannot be chosen
    page.choose("answers", f"{SOFT} wrong")
    assert page.one("#place").text == "2 of 2" and page.one("#question").text == "How many?"


def test_reliability_is_drawn_for_densities(page):
    section = page.one("section[aria-labelledby=reliability]")
    (picture,) = section.find_elements(By.TAG_NAME, "svg")
    said = "90% right where its ellipse is narrowest (2.0% of the picture), 60% where widest (20.0%)"
    assert picture.get_attribute("aria-label") == f"{MULTI}: {said}"
    assert len(picture.find_elements(By.TAG_NAME, "circle")) == 2


def test_panels_shown_can_be_kept_side_by_side(page):
    page.model(1).click()
    page.one("#sheet").click()
    file = page.saved("val-0-é_all.png")
    assert file.startswith(b"\x89PNG") and int.from_bytes(file[16:20], "big") == 4 * 380 + 20  # picture, map, two looks


def test_table_can_be_kept(page):
    page.one("#csv").click()
    assert page.saved("comparison.csv").decode().splitlines()[1].startswith("softmax,softmax,0.5,0.6,,,1234567,10.25")


def test_models_switch_off_and_on(page):
    page.model(1).click()
    assert list(page.panels()) == [SOFT, MULTI]
    assert page.model(1).get_attribute("aria-pressed") == "false"
    page.model(0).click()
    page.model(2).click()
    assert page.one("#looks").text == "Every model is switched off."
    for place in (2, 0, 1):
        page.model(place).click()
    assert list(page.panels()) == list(NAMES)


def test_look_is_enlarged_by_a_click_and_small_again_by_escape(page):
    before = page.panels()[MULTI].size["width"]
    page.panels()[MULTI].find_element(By.CSS_SELECTOR, ".picture").click()
    assert page.panels()[MULTI].size["width"] > 2 * before
    assert page.panels()[MULTI].location["y"] < page.panels()[SOFT].location["y"]  # above the others
    page.press(Keys.ESCAPE)
    assert page.panels()[MULTI].size["width"] == before


def test_arrow_keys_go_round_the_examples_but_leave_lists_alone(page):
    seen = []
    for key in [Keys.ARROW_RIGHT] * 4 + [Keys.ARROW_LEFT]:
        page.press(key)
        seen.append(page.one("#place").text)
    assert seen == ["2 of 4", "3 of 4", "4 of 4", "1 of 4", "4 of 4"]
    page.one("#kind").send_keys(Keys.ARROW_RIGHT)  # chooses from the list
    assert page.one("#place").text.startswith("1 of")


def test_filters_leave_the_examples_that_pass(page):
    page.choose("answers", "some wrong")
    assert page.one("#place").text == "1 of 2" and page.one("#question").text == NASTY
    page.choose("kind", "number")
    assert page.one("#place").text == "1 of 1" and page.one("#question").text == "How many?"
    page.open("#kind=number&region=one")  # a link may ask for what there is none of
    assert page.one("#none").is_displayed() and not page.one("#panels").is_displayed()
    page.one("#reset").click()
    assert page.one("#place").text == "1 of 4" and page.one("#panels").is_displayed()
    page.choose("answers", "all right")
    assert page.one("#place").text == "1 of 1" and page.one("#question").text == "Is it red?"


def test_filters_offer_only_what_leaves_an_example_and_say_how_many(page):
    assert page.choices("kind") == {"all kinds": 4, "yes/no": 1, "other": 1, "number": 2}
    regions = {"all regions": 4, "one thing": 1, "none in particular": 1, "several, far apart": 1, "odd shape": 1}
    assert page.choices("region") == regions
    # One has no known answer.
    assert page.choices("answers") == {"all": 4, "all right": 1, "some wrong": 2, "softmax wrong": 2}
    page.choose("kind", "number")
    assert page.choices("region") == {"all regions": 2, "several, far apart": 1, "odd shape": 1}
    assert page.choices("answers") == {"all": 2, "some wrong": 1, "softmax wrong": 1}
    page.choose("answers", "some wrong")
    assert page.choices("region") == {"all regions": 1, "several, far apart": 1}
    assert page.choices("kind") == {"all kinds": 2, "other": 1, "number": 1}
    # Whatever can be chosen leaves as many examples as it says, and at least one.
    for name in ("kind", "region", "answers"):
        for text, count in page.choices(name).items():
            page.choose(name, text)
            assert page.one("#place").text.endswith(f" of {count}") and count > 0
            page.open("#kind=number&answers=wrong")


def test_look_can_be_kept_with_its_key(page):
    page.pick(3)
    page.panels()[TV].find_element(By.CSS_SELECTOR, ".keyed").click()
    file = page.saved("val-3-é_tvmax-b-2-d-b_key.png")
    width, height = (int.from_bytes(file[at : at + 4], "big") for at in (16, 20))
    picture = 360 * 4 / 200
    assert file.startswith(b"\x89PNG") and width == 400 and height > 96 + picture + 52 + 5 * 34  # a line for each mark


def test_link_brings_back_what_was_chosen(page):
    page.choose("kind", "number")
    page.pick(3)
    page.model(0).click()
    page.panels()[TV].find_element(By.CSS_SELECTOR, ".picture").click()
    link = page.link()
    page.open()
    assert list(page.panels()) == list(NAMES)
    page.open("#" + link.split("#")[1])
    assert page.one("#question").text == "And in the test set?" and page.one("#place").text == "2 of 2"
    assert list(page.panels()) == [TV, MULTI] and "large" in page.panels()[TV].get_attribute("class")
    assert page.link() == link
    # A link followed within the page, and one that means nothing here.
    page.driver.execute_script("location.hash = arguments[0]", f"#example={quote_plus('val/1 é&=')}&model=")
    wait_until(lambda: page.one("#question").text == NASTY)
    assert page.one("#looks").text == "Every model is switched off."
    page.open("#example=gone&kind=none&model=nobody&large=nobody")
    assert page.one("#place").text == "1 of 4"


def test_text_is_shown_as_it_was_written(page):
    page.pick(1)
    assert page.one("#question").text == NASTY and page.one("#answer").text == IMAGE
    assert page.panels()[TV].find_element(By.TAG_NAME, "h3").text == TV
    assert page.one("h1").text == f"Title {IMAGE}" and NASTY in page.one(".lead").text
    assert page.texts("tbody th") == [*NAMES, "language only"]


def test_curves_show_every_model_and_the_level_of_the_baseline(page):
    assert len(page.all("#chart polyline")) == 3
    assert page.one("#chart .blind text").text == "language only 30.0%"
    ActionChains(page.driver).move_to_element_with_offset(page.one("#chart svg"), -80, 0).perform()
    # The middle point, of which the accuracy is not known, is no place to stop at.
    steps, *values = page.one("#tip").text.split("\n")
    assert steps in ("20 steps", "40 steps")
    share = {"20 steps": 0.4, "40 steps": 0.8}[steps]
    shown = dict(zip(values[::2], values[1::2], strict=True))
    assert shown == {
        MULTI: f"{75 * share:.1f}%",
        TV: f"{62.5 * share:.1f}%",
        SOFT: f"{50 * share:.1f}%",
        "language only": "30.0%",
    }
    page.model(2, "#legend").click()
    assert len(page.all("#chart polyline")) == 2
    page.model(1, "#measures").click()
    assert page.model(1, "#measures").get_attribute("aria-pressed") == "true" and not page.all("#chart .blind")
    page.model(1, "#clocks").click()
    assert "loss, validation against seconds: softmax ends at 0.400" in page.one("#chart svg").get_attribute(
        "aria-label"
    )
    page.one("#chart svg").send_keys(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    assert page.one("#tip").text.startswith("3 seconds")
    assert page.one("#place").text == "1 of 4"  # the chart keeps the keys to itself


def test_one_colour_for_a_model_everywhere(page):
    look = "return getComputedStyle(arguments[0]).backgroundColor"
    for place, stroke in enumerate(page.all("#chart .curve")[:3]):
        dots = [page.all(f"{part} .dot")[place] for part in ("tbody", "#legend", "#models", "#looks h3")]
        line = page.driver.execute_script("return getComputedStyle(arguments[0]).stroke", stroke)
        assert {page.driver.execute_script(look, dot) for dot in dots} == {line}


@pytest.mark.parametrize("width", [1280, 420])
def test_page_fits_the_screen(page, width):
    page.driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride", {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
    )
    try:
        for fragment in ("", f"#large={quote_plus(SOFT)}&example={quote_plus('val/1 é&=')}"):
            page.open(fragment)
            assert page.driver.execute_script("return document.documentElement.scrollWidth") <= width
            columns = {panel.location["x"] for panel in page.panels().values()}
            assert len(columns) == (3 if width > 420 and not fragment else 2)
    finally:
        page.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


def test_everything_has_a_name_for_those_who_do_not_see_it(page):
    unnamed = """
        const said = (e) => (e.getAttribute("aria-label") ?? e.textContent).trim();
        return [...document.querySelectorAll("img:not([alt]), svg:not([aria-label])"),
            ...[...document.querySelectorAll("button, a")].filter((e) => !said(e)),
            ...[...document.querySelectorAll("select")].filter((e) => !e.labels.length)].map((e) => e.outerHTML)"""
    assert page.driver.execute_script(unnamed) == []
    assert page.panels()[SOFT].find_element(By.TAG_NAME, "img").get_attribute("alt").startswith("Where softmax looked")
    ids = [element.get_attribute("id") for element in page.all("[id]")]
    assert len(ids) == len(set(ids))
