"""The page of a survey in a browser without a screen: filled in by keys and clicks, kept, saved, read and evaluated."""

import json
from collections.abc import Iterator

import pytest
from browser import Page, browser, screen, wait_until
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys

from omegamax.tasks.rating import read_ratings, summarise_ratings, write_survey
from tasks.rating.cases import NASTY, NETWORKS, make_answers, make_survey

SURVEYS = {"captions": make_survey(), "answers": make_survey(kind="answers"), "many": make_survey(200)}


@pytest.fixture(scope="module")
def opened(tmp_path_factory) -> Iterator[dict[str, Page]]:
    folder = tmp_path_factory.mktemp("rating")
    with browser(folder) as driver:
        made = {name: write_survey(survey, folder / f"{name}.html") for name, survey in SURVEYS.items()}
        yield {name: Page(driver, path.as_uri(), folder / "saved") for name, path in made.items()}


@pytest.fixture
def survey(request):
    """A survey of the test's own: what a browser is told to forget, the next page may still find."""
    return make_survey(name=request.node.name)


@pytest.fixture
def page(opened, survey, tmp_path) -> Iterator[Page]:
    shared = opened["captions"]
    page = Page(shared.driver, write_survey(survey, tmp_path / "survey.html").as_uri(), shared.folder)
    page.open()
    yield page
    page.check_quiet()
    for path in page.folder.iterdir():
        path.unlink()


def begin(page, name="Ann"):
    page.one("#rater").clear()
    page.one("#rater").send_keys(name, Keys.ENTER)
    assert page.one("#rate").is_displayed() and not page.one("#begin").is_displayed()


def focused(page):
    legend = "document.activeElement.closest('fieldset')?.querySelector('legend')"
    return page.driver.execute_script(f"return {legend}?.textContent")


def count(page):
    return page.one("#count").text


def reopen(page):
    """Load the page again, with what it has kept: a browser on a busy machine may lose all of that by itself."""
    kept = page.driver.execute_script("return Object.entries(localStorage)")
    source = f"for (const [name, value] of {json.dumps(kept)}) localStorage.setItem(name, value);"
    added = page.driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": source})
    page.driver.refresh()
    page.driver.execute_cdp_cmd("Page.removeScriptToEvaluateOnNewDocument", added)


def saved(page, name="Ann"):
    page.one("#save").click()
    survey = page.driver.execute_script("return data.survey")
    return json.loads(page.saved(f"ratings_{survey}_{name}.json"))


def test_filled_in_by_keys_saved_and_evaluated(page, survey):
    begin(page)
    # The grade tells which network it is, so that the evaluation shows whether it finds them behind their order.
    for picture, order in zip(survey.pictures, survey.order, strict=True):
        for index in order:
            for _ in range(1 + len(picture.looks[survey.networks[index]].rated)):
                page.press(str(index + 2))
        if picture is not survey.pictures[-1]:
            assert page.driver.switch_to.active_element.get_attribute("id") == "next"
            page.press(Keys.ENTER)
    assert count(page) == "18 of 18 answers" and "All is rated" in page.one("#end").text
    assert page.driver.switch_to.active_element.get_attribute("id") == "save"
    page.press(Keys.ENTER)
    name = page.driver.execute_script("return `ratings_${data.survey}_Ann.json`")
    assert page.saved(name)
    ratings = read_ratings([page.folder / name])
    assert ratings.raters == ("Ann",) and ratings.key == survey.key
    rows = summarise_ratings(ratings, draws=10)
    assert [(row.name, row.text[0], row.texts) for row in rows] == [(n, i + 2, 3) for i, n in enumerate(NETWORKS)]
    assert [(row.attention[0], row.words) for row in rows[:2]] == [(2, 6), (3, 3)]


def test_clicks_digits_and_arrows_rate_what_has_the_focus(page):
    begin(page)
    assert focused(page) == "Caption A: How well does the caption describe the photograph?"
    page.all("fieldset")[1].find_elements("css selector", "label")[3].click()
    assert count(page) == "1 of 18 answers" and "\u201c" in focused(page)
    page.press("2")  # changes the answer, and goes on to the next question without one
    chosen = page.all("fieldset")[1].find_element("css selector", ":checked")
    assert count(page) == "1 of 18 answers" and chosen.get_attribute("value") == "2"
    page.press(Keys.ARROW_RIGHT)  # within the five choices, as in every form
    assert count(page) == "2 of 18 answers"
    ActionChains(page.driver).key_down(Keys.SHIFT).send_keys(Keys.ENTER).key_up(Keys.SHIFT).perform()
    assert page.one("#place").text == "Photograph 1 of 3"  # there is none before
    page.press(Keys.ENTER)
    assert page.one("#place").text == "Photograph 2 of 3"
    page.one("#missing").click()
    assert page.one("#place").text == "Photograph 1 of 3"
    answers = saved(page)["answers"]
    given = [grade for looks in answers for look in looks for grade in (look["text"], *look["words"])]
    assert sorted(grade for grade in given if grade) == [2, 2]


def test_progress_is_kept_for_each_rater_and_goes_on(page):
    begin(page)
    for key in ("5", "4", "3"):
        page.press(key)
    reopen(page)
    assert page.one("#rater").get_attribute("value") == "Ann"
    begin(page, "Bob")
    assert count(page) == "0 of 18 answers"
    page.one("#other").click()
    begin(page, "Ann")
    assert count(page) == "3 of 18 answers" and not page.one("#unkept").is_displayed()
    half = saved(page)
    assert half["rater"] == "Ann" and half["format"] == "omegamax ratings 1"


def test_file_of_answers_goes_on_and_others_are_refused(page, survey, tmp_path):
    given = make_answers(survey, "Eve", lambda name, word: 3 if word is None else None)
    faults = {"another page": {"survey": "0" * 12}, "no file of answers": {"format": "x"}, "damaged": {"answers": [1]}}
    for words, change in faults.items():
        path = tmp_path / "other.json"
        path.write_text(json.dumps({**given, **change}))
        page.one("#file").send_keys(str(path))
        wait_until(lambda words=words: words in page.one("#trouble").text)
    (tmp_path / "eve.json").write_text(json.dumps(given))
    page.one("#file").send_keys(str(tmp_path / "eve.json"))
    wait_until(lambda: count(page) == "9 of 18 answers")
    assert saved(page, "Eve")["answers"] == given["answers"]


def test_browser_that_keeps_nothing_says_so(page):
    page.driver.execute_script("Storage.prototype.setItem = () => { throw new Error('no'); }")
    begin(page)
    assert page.one("#unkept").is_displayed()
    page.press("3")
    assert count(page) == "1 of 18 answers"
    saved(page)  # then the page may be left without a question


def test_zeros_are_transparent_and_other_cells_are_not(page, survey):
    begin(page)
    place = survey.order[0].index(0)  # the first network, wherever it is shown
    wait_until(lambda: len(page.all("article canvas")) == len(page.all("article .map")) == 3)
    pixels = """
        const shown = document.querySelectorAll("article")[arguments[0]].querySelector("canvas");
        const pens = [shown, document.querySelector("#photograph img")].map((source) => {
            const canvas = document.createElement("canvas");
            [canvas.width, canvas.height] = [shown.width, shown.height];
            const pen = canvas.getContext("2d", { willReadFrequently: true });
            pen.drawImage(source, 0, 0);
            return pen;
        });
        const found = [];
        for (let r = 0; r < 3; r++) for (let c = 0; c < 4; c++) {
            const at = [Math.floor((c + 0.5) * shown.width / 4), Math.floor((r + 0.5) * shown.height / 3), 1, 1];
            const [a, b] = pens.map((pen) => [...pen.getImageData(...at).data].join());
            found.push(a === b);
        }
        return found;"""
    maps = survey.pictures[0].looks[NETWORKS[0]].maps[0]
    assert page.driver.execute_script(pixels, place) == (maps == 0).flatten().tolist()
    words = page.all("article")[place].find_elements("css selector", ".said b")
    assert [word.text for word in words] == ["dog", "runs"]
    texts = page.texts(".said")
    assert f"the {NASTY}" in texts and "(nothing)" in texts


def test_question_and_answer_are_rated_alike(opened):
    page = opened["answers"]
    page.open()
    begin(page, "Ann")
    assert page.one("#question").text == f"what is it, {NASTY}?"
    place = SURVEYS["answers"].order[0].index(0)
    assert page.all("article")[place].find_element("css selector", "h3").text.startswith("Answer")
    assert page.all("article")[place].find_elements("css selector", ".maps figcaption")[0].text == "a dog runs"
    page.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [320, 1280])
@pytest.mark.parametrize("kind", ["captions", "answers"])
def test_page_can_be_read_on_every_screen(opened, kind, width, scheme):
    page = opened[kind]
    with screen(page.driver, width, scheme):
        for filled in (False, True):
            page.open()
            if filled:
                begin(page)
                page.press("4")
            page.check_legible(width)


def test_two_hundred_pictures_are_one_page_of_few_megabytes(opened):
    page = opened["many"]
    page.open()
    begin(page)
    assert page.one("#place").text == "Photograph 1 of 200" and count(page) == "0 of 1200 answers"
    page.press(Keys.ENTER)
    page.press("5")
    assert count(page) == "1 of 1200 answers"
    assert page.driver.execute_script("return document.documentElement.outerHTML.length") < 3e6
    page.check_quiet()


@pytest.mark.parametrize("width", [320, 390, 700])
def test_grades_stand_in_one_row_between_the_ends_of_their_scale(opened, width):
    """On a narrow screen the ends are above them: none of the grades stands behind the word for the highest."""
    page = opened["captions"]
    with screen(page.driver, width):
        page.open()
        begin(page, f"wide {width}")
        tops = "return [...document.querySelectorAll('fieldset %s')].slice(0, %d).map((e) => e.getBoundingClientRect())"
        grades, ends = (page.driver.execute_script(tops % each) for each in ((".grade", 5), (".end", 2)))
        assert len({grade["top"] for grade in grades}) == 1 and len(grades) == 5
        assert max(end["bottom"] for end in ends) <= grades[0]["top"] and ends[0]["right"] <= ends[1]["left"]


@pytest.mark.parametrize("taken", ["file", "kept"])
def test_file_goes_together_with_what_the_browser_keeps(page, survey, tmp_path, taken):
    """An older file takes nothing away; where it differs, the rater says which grade counts."""
    older = make_answers(survey, "Ann", lambda name, word: 3 if word is None else None)
    older["answers"][0][0]["text"] = older["answers"][2][0]["text"] = None
    path = tmp_path / "ann.json"
    path.write_text(json.dumps(older))
    begin(page)
    page.press("1")  # a grade that the file does not have
    reopen(page)
    page.one("#file").send_keys(str(path))
    wait_until(lambda: count(page) == "8 of 18 answers")
    page.one("#missing").click()
    page.press(Keys.ENTER)
    page.all("fieldset")[0].find_elements("css selector", "label")[4].click()  # 5, where the file says 3
    reopen(page)
    page.one("#file").send_keys(str(path))
    wait_until(lambda: "1 of the grades" in page.one("#differ").text)
    page.one(f"#take-{taken}").click()
    answers = saved(page)["answers"]
    assert (answers[0][0]["text"], answers[1][0]["text"]) == (1, 3 if taken == "file" else 5)
