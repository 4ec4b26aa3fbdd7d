"""A reader of the report: opens it, presses, picks, and says what is there."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("selenium", reason="needs selenium: pip install -c constraints.txt selenium")
from selenium import webdriver
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.select import Select


class Page:
    """The report as a reader has it."""

    def __init__(self, driver: webdriver.Chrome, address: str, folder: Path) -> None:
        self.driver, self.address, self.folder = driver, address, folder

    def open(self, fragment: str = "") -> None:
        self.driver.get("about:blank")  # with only another fragment, the page would not load anew
        self.driver.get(self.address + fragment)

    def all(self, selector: str) -> list[Any]:
        return self.driver.find_elements(By.CSS_SELECTOR, selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element(By.CSS_SELECTOR, selector)

    def texts(self, selector: str) -> list[str]:
        return [element.text for element in self.all(selector)]

    def press(self, key: str) -> None:
        ActionChains(self.driver).send_keys(key).perform()

    def model(self, place: int, within: str = "#models") -> Any:
        return self.all(f"{within} button")[place]

    def pick(self, place: int) -> None:
        self.one(f'#strip button[data-index="{place}"]').click()

    def choose(self, name: str, text: str) -> None:
        Select(self.one(f"#{name}")).select_by_visible_text(text)

    def panels(self) -> dict[str, Any]:
        return {panel.get_attribute("data-model"): panel for panel in self.all("#looks article")}

    def saved(self, name: str) -> bytes:
        """The downloaded file, once it is whole."""
        for _ in range(100):
            if (self.folder / name).is_file():
                return (self.folder / name).read_bytes()
            time.sleep(0.05)
        raise AssertionError(f"no {name}, only {[path.name for path in self.folder.iterdir()]}")
