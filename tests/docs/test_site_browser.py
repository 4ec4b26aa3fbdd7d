"""The site as a reader has it: from a folder, on screens of three widths, light and dark, by keyboard and by search."""

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")
pytest.importorskip("sphinx", reason="needs sphinx: pip install -c constraints.txt '.[docs]'")

from browser import Page, screen
from selenium.webdriver.common.by import By
from selenium.webdriver.support.wait import WebDriverWait
from sight import audit

pytestmark = pytest.mark.slow
PAGES = [
    "index.html",
    "docs/guide.html",
    "docs/hopfield.html",
    "docs/theory/densities.html",
    "search.html",
    "reference/omegamax.functional.html",
    "reference/omegamax.hopfield.html",
    "gallery/index.html",
    "gallery/1_transforms/plot_simplex.html",
    "docs/results.html",
    "experiments/mil/README.html",
    "benchmarks/results/transforms_cpu.html",
    "files/src/omegamax/maps/record.py.html",
]


@pytest.fixture
def open_page(reader, site, tmp_path):
    def opened(name):
        page = Page(reader, (site / name).as_uri(), tmp_path)
        page.open()
        return page

    return opened


@pytest.mark.parametrize("width", [390, 768, 1280])
def test_pages_fit_their_screen_and_complain_of_nothing(reader, open_page, width):
    for name in PAGES:
        with screen(reader, width):
            page = open_page(name)
            assert reader.execute_script("return document.documentElement.scrollWidth") <= width, name
            page.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", PAGES)
def test_audit_of_accessibility_finds_nothing(reader, open_page, name, scheme):
    with screen(reader, 1280, scheme):
        open_page(name)
        assert audit(reader) == []


def test_pages_follow_the_liking_for_dark(reader, open_page):
    grounds = []
    for scheme in ("light", "dark"):
        with screen(reader, 1280, scheme):
            open_page("index.html")
            grounds.append(reader.execute_script("return getComputedStyle(document.body).backgroundColor"))
    assert grounds[0] == "rgb(255, 255, 255)" != grounds[1]


def test_search_finds_a_function_and_a_page(reader, open_page, site):
    for words, wanted in {"sparsemap": "omegamax.structured", "playground": "playground"}.items():
        reader.get("about:blank")
        reader.get(f"{(site / 'search.html').as_uri()}?q={words}")
        found = WebDriverWait(reader, 30).until(
            lambda driver: driver.find_elements(By.CSS_SELECTOR, "#search-results li a")
        )
        assert any(wanted in link.get_attribute("href") for link in found), words


def test_formulas_are_drawn_in_the_font_of_the_site(reader, open_page):
    open_page("reference/omegamax.functional.html")
    fonts = reader.execute_async_script(
        "document.fonts.ready.then(() => arguments[0]([...document.fonts].filter((f) => f.status === 'loaded')"
        ".map((f) => f.family.replaceAll('\"', ''))))"
    )
    assert "STIX Two Math" in fonts
    heights = reader.execute_script("return [...document.querySelectorAll('div.math math')].map((m) => m.clientHeight)")
    assert heights and min(heights) > 10
