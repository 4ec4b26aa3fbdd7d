"""The playground, open in a browser without a screen."""

from collections.abc import Iterator

import pytest


@pytest.fixture(scope="package")
def page(tmp_path_factory) -> Iterator:
    from browser import Page, browser

    from omegamax.play import make_playground

    folder = tmp_path_factory.mktemp("play")
    file = folder / "playground.html"
    file.write_text(make_playground(), encoding="utf-8")
    with browser(folder) as driver:
        opened = Page(driver, file.as_uri(), folder / "saved")
        opened.open()
        yield opened
