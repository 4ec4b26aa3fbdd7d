"""A reader of a page in a browser without a screen: opens it, presses, picks, and says what is there."""

from __future__ import annotations

import json
import re
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")
from selenium import webdriver
from selenium.common.exceptions import StaleElementReferenceException
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select
from sight import faint, small

FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --disable-dev-shm-usage --window-size=1280,900 "
    "--force-prefers-reduced-motion"  # a colour half-way to another is no colour of the page
)


@contextmanager
def browser(folder: Path) -> Iterator[webdriver.Chrome]:
    """A browser without a screen that saves files to ``folder/saved``; where there is none, tests are skipped."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if not (chromium and driver):
        missing = "chromium" if not chromium else "chromedriver"
        pytest.skip(f"no {missing}: apt-get install chromium chromium-driver")
    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    for flag in [*FLAGS.split(), f"--user-data-dir={folder / 'profile'}"]:
        options.add_argument(flag)
    options.add_experimental_option("prefs", {"download.default_directory": str(folder / "saved")})
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    started = webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
    try:
        started.set_script_timeout(120)
        (folder / "saved").mkdir()
        yield started
    finally:
        started.quit()


def read_report(tmp_path_factory: pytest.TempPathFactory, write: Callable[[Path], Path]) -> Iterator[Page]:
    """The page that ``write`` puts into a file, in a browser of its own: the whole body of a fixture of a module."""
    folder = tmp_path_factory.mktemp("report")
    with browser(folder) as driver:
        yield Page(driver, write(folder / "report.html").as_uri(), folder / "saved")


def read_steadily(read: Callable[[], Any]) -> Any:
    """Return what ``read`` finds; again, while the page puts new elements in the place of those that are looked at."""
    for _ in range(100):
        with suppress(StaleElementReferenceException):
            return read()
        time.sleep(0.02)
    return read()


def wait_until(true: Callable[[], Any], seconds: float = 60) -> Any:
    """Return what ``true`` returns once it is true: for what a browser does after a while, which may be a long one."""
    end = time.monotonic() + seconds
    while not (found := read_steadily(true)):
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.02)
    return found


@contextmanager
def screen(driver: webdriver.Chrome, width: int, scheme: str = "light") -> Iterator[None]:
    """A screen so many pixels wide, of a reader who likes pages light or dark."""
    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    liking = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [liking]})
    try:
        yield
    finally:
        driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})


class Page:
    """A page as a reader has it."""

    def __init__(self, driver: webdriver.Chrome, address: str, folder: Path) -> None:
        self.driver, self.address, self.folder = driver, address, folder

    def open(self, fragment: str = "") -> None:
        self.driver.get("about:blank")  # with only another fragment, the page would not load anew
        self.driver.get(self.address + fragment)

    def fresh(self) -> Iterator[Page]:
        """The page freshly opened for a test, the whole body of a fixture; whatever the test did, it stayed quiet."""
        self.open()
        yield self
        self.check_quiet()

    def check_quiet(self) -> None:
        """Nothing was complained of, nobody was asked anything, and no text was run as a script."""
        complaints = self.driver.get_log("browser")
        asked = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        requests = [a["params"] for a in asked if a["method"] == "Network.requestWillBeSent"]
        addresses = [r["request"]["url"] for r in requests if r["documentURL"].startswith(self.address)]
        assert complaints == []
        assert addresses and all(re.match("(file|data|blob):", address) for address in addresses), addresses
        assert self.driver.execute_script("return window.hacked") is None

    def check_legible(self, width: int) -> None:
        """On a screen of this width nothing sticks out, and all text is large enough and stands out."""
        assert self.driver.execute_script("return document.documentElement.scrollWidth") <= width
        assert faint(self.driver) == [] and small(self.driver) == []

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return read_steadily(lambda: [element.text for element in self.all(selector)])

    def link(self) -> str:
        """The address as the page has it; the browser around it is told later."""
        return self.driver.execute_script("return location.href")

    def check_pictures(self) -> None:
        """All pictures can be decoded."""
        decoded = "Promise.all([...document.images].map((i) => i.decode())).then(() => '', String).then(arguments[0])"
        assert self.driver.execute_async_script(decoded) == ""

    def press(self, key: str) -> None:
        ActionChains(self.driver).send_keys(key).perform()

    def model(self, place: int, within: str = "#models") -> Any:
        return self.all(f"{within} button")[place]

    def pick(self, place: int) -> None:
        self.one(f'#strip button[data-index="{place}"]').click()

    def choose(self, name: str, text: str) -> None:
        """Pick the choice of a filter that begins so; after it comes how many examples it leaves."""
        Select(self.one(f"#{name}")).select_by_visible_text(f"{text} ({self.choices(name)[text]})")

    def choices(self, name: str) -> dict[str, int]:
        """The choices of a filter that can be made, and how many examples each leaves."""
        found = [re.fullmatch(r"(.*) \((\d+)\)", option.text) for option in self.all(f"#{name} option:enabled")]
        return {match[1]: int(match[2]) for match in found if match}

    def panels(self) -> dict[str, Any]:
        return {panel.get_attribute("data-model"): panel for panel in self.all("#looks article")}

    def saved(self, name: str) -> bytes:
        """The downloaded file, once it is whole."""
        wait_until((self.folder / name).is_file)
        return (self.folder / name).read_bytes()
