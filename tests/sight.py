"""What a reader of a page can see: text too faint or too small, as a browser shows it, and what an audit finds."""

from __future__ import annotations

from importlib import resources
from typing import Any

import pytest

_TEXTS = """
    const shown = [...document.querySelectorAll("main *")].filter((e) => e.checkVisibility()
        && !e.closest("option, select, noscript, svg title")
        && [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim()));
"""
_FAINT = (
    _TEXTS
    + """
    // Colours of any notation, also translucent ones, as the browser mixes them.
    const pen = Object.assign(document.createElement("canvas"), { width: 1, height: 1 })
        .getContext("2d", { willReadFrequently: true });
    const paint = (colours) => {
        for (const colour of ["#fff", ...colours]) { pen.fillStyle = colour; pen.fillRect(0, 0, 1, 1); }
        return [...pen.getImageData(0, 0, 1, 1).data];
    };
    const level = (c) => { c /= 255; return c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4; };
    const luminance = ([r, g, b]) => 0.2126 * level(r) + 0.7152 * level(g) + 0.0722 * level(b);
    const grounds = (e) => (e ? [...grounds(e.parentElement), getComputedStyle(e).backgroundColor] : []);
    return shown.map((e) => {
        const style = getComputedStyle(e), under = grounds(e);
        const ink = paint([...under, e instanceof SVGElement ? style.fill : style.color]);
        const [low, high] = [luminance(ink), luminance(paint(under))].sort((a, b) => a - b);
        return [(high + 0.05) / (low + 0.05), e.outerHTML.slice(0, 80)];
    }).filter(([contrast, html]) => contrast < 4.5);"""
)
_SMALL = (
    _TEXTS
    + """
    return shown.map((e) => [parseFloat(getComputedStyle(e).fontSize), e.outerHTML.slice(0, 80)])
        .filter(([size, html]) => size < 12);"""
)


def faint(driver: Any) -> list[Any]:
    """Text that stands out from its ground less than WCAG 2.2 asks (4.5, success criterion 1.4.3)."""
    return driver.execute_script(_FAINT)


def small(driver: Any) -> list[Any]:
    """Text below 12 pixels."""
    return driver.execute_script(_SMALL)


def audit(driver: Any) -> list[tuple[str, list[str]]]:
    """What axe finds wrong with the page for readers with a screen reader, a keyboard, or other eyes."""
    axe = pytest.importorskip("axe_core_python", reason="needs axe: pip install -c constraints.txt axe-core-python")
    driver.execute_script(resources.files(axe).joinpath("axe.min.js").read_text(encoding="utf-8"))
    found = driver.execute_async_script("axe.run().then(arguments[0])")
    return [(fault["id"], [node["html"][:80] for node in fault["nodes"]]) for fault in found["violations"]]
