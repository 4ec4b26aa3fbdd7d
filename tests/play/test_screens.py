"""The playground on screens of all widths, light and dark, without a network, and in an audit of accessibility."""

import itertools

import pytest
from browser import screen
from sight import audit

from play.hands import VIEWS, settle


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 768, 1280])
def test_text_is_large_enough_and_stands_out_and_nothing_sticks_out(page, width, scheme):
    for view in VIEWS:
        with screen(page.driver, width, scheme):
            page.open({"scores": "#b=entmax&", "simplex": "#shade=p3&a=k_subsets&"}.get(view, "#") + f"view={view}")
            settle(page)
            page.check_legible(width)
    page.check_quiet()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_audit_of_accessibility_finds_nothing(page, scheme):
    for view, width in itertools.product(VIEWS, (390, 1280)):
        with screen(page.driver, width, scheme):
            page.open(f"#view={view}")
            settle(page)
            page.driver.execute_script("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            settle(page)
            assert audit(page.driver) == []


def test_page_works_with_the_network_cut(page):
    cut = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
    page.driver.execute_cdp_cmd("Network.enable", {})
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", cut)
    try:
        for view in VIEWS:
            page.open(f"#view={view}")
            settle(page)
            assert len(page.all("article .facts div")) >= 4
    finally:
        page.driver.execute_cdp_cmd(
            "Network.emulateNetworkConditions",
            cut | {"offline": False, "downloadThroughput": -1, "uploadThroughput": -1},
        )
    page.check_quiet()
