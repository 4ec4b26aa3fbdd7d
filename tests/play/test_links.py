"""Links to the playground: they hold its state, and those that make no sense do no harm."""

import random

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")

from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.select import Select

from play.hands import VIEWS, settle, text_of, wait_for

LETTERS = "0123456789abcdefz,.~=&#%-+ NaN\u221e<>"
# What a link is read as, whether its link is read as the same, and whether what it asks for is finite.
READ = """const { readLink, writeLink, thingOf, mapOf } = omegamax;
return arguments[0].map((link) => {
  const state = readLink(link), { view } = state, again = writeLink(readLink(writeLink(state)));
  const cells = Math.sqrt(state.image.length), image = state.image.map((x) => x / 15);
  const z = { scores: state.z, simplex: state.s, line: state.z, image }[view].map((x) => x / state.temperature[view]);
  const finite = state.sides[view].map((side) => {
    const thing = thingOf(side.name), size = view === "image" ? [cells, cells] : [z.length];
    if (!thing.fit) return thing.solve(z, { ...side, height: cells, width: cells }).every(Number.isFinite);
    return Number.isFinite(thing.fit(size, mapOf(state.weights[view]).solve(z), side, z).prob(size.map(() => 0.5)));
  });
  return [again === writeLink(state), finite.every((x) => x)];
});"""


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
    link, codes = page.driver.execute_script("return location.hash"), page.texts("article code")
    page.open(link)
    settle(page)
    assert page.texts("article code") == codes
    page.driver.execute_script("location.hash = arguments[0]", "#view=scores&z=1,2,3")  # pasted into the open page
    wait_for(page, "tensor([1, 2, 3])", "article code")


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


def test_controls_follow_a_pasted_link_and_the_reset(page):
    page.open("#view=scores&a=entmax~alpha=1.5")
    settle(page)
    page.driver.execute_script("location.hash = '#view=scores&a=entmax~alpha=3&T=2&axes=z1,'")
    wait_for(page, "alpha=3", "article code")
    assert page.one("#a-alpha").get_attribute("value") == "3"
    assert Select(page.one("[aria-label='Path of A along']")).first_selected_option.text == "score 1"
    page.one("#reset").click()
    settle(page)
    Select(page.one("#map-a")).select_by_value("entmax")
    settle(page)
    assert page.one("#a-alpha").get_attribute("value") == "1.5"
    assert text_of(page, "output[for=temperature]") == "1"


def test_link_holds_paths_steps_and_shades(page):
    page.open("#view=scores&a=entmax~alpha=1.3&axes=z2,temperature&steps=Newton~3,bisection~7")
    settle(page)
    assert Select(page.one("[aria-label='Path of A along']")).first_selected_option.text == "score 2"
    assert "Step 3 of" in page.texts("section.wide")[0] and "Step 7 of" in page.texts("section.wide")[1]
    Select(page.one("[aria-label='Threshold of A by']")).select_by_value("bisection")
    settle(page)
    page.one("[aria-label='One step on, B']").click()
    settle(page)
    link = page.driver.execute_script("return decodeURIComponent(location.hash)")
    assert "axes=z2,temperature" in link and "steps=bisection~3,bisection~8" in link
    page.open("#view=simplex&shade=p2")
    settle(page)
    assert Select(page.one("#shade")).first_selected_option.text == "p2" and "exactly 0" in text_of(page, ".key")


def spoilt(link, draws):
    """Return the link with a few letters changed, left out or put in."""
    letters = list(link)
    for _ in range(draws.randint(1, 6)):
        at = draws.randrange(1, len(letters))
        letters[at : at + draws.randint(0, 2)] = draws.choice(LETTERS) * draws.randint(0, 2)
    return "".join(letters)


def test_spoilt_links_are_read_as_something_finite(page):
    draws = random.Random(0)
    whole = []
    for view in VIEWS:
        page.open(f"#view={view}")
        choices = page.driver.execute_script(
            "return [...document.querySelectorAll('#map-a option')].map((o) => o.value)"
        )
        whole += [
            page.driver.execute_script(
                "return omegamax.writeLink(omegamax.readLink(arguments[0]))", f"#view={view}&a={name}"
            )
            for name in choices
        ]
    links = whole + [spoilt(draws.choice(whole), draws) for _ in range(250)]
    for link, (again, finite) in zip(links, page.driver.execute_script(READ, links), strict=True):
        assert again and finite, link
    page.check_quiet()
