"""What the pages of experiments say in words is in their tables."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PAGES = sorted((Path(__file__).parents[2] / "experiments").glob("*/*.md"))
INTERVAL = re.compile(r"\[([-+]?\d+\.\d+), ([-+]?\d+\.\d+)\]")  # of differences; [0, 1] is something else


def intervals(text: str) -> list[tuple[float, float]]:
    return [(float(low), float(high)) for low, high in INTERVAL.findall(text)]


def split(page: str) -> tuple[str, str]:
    """Return the words of a page, joined, and its tables."""
    lines = page.splitlines()
    tables = "\n".join(line for line in lines if line.startswith("|"))
    return " ".join(line.strip() for line in lines if not line.startswith("|")), tables


@pytest.mark.parametrize("page", PAGES, ids=[f"{page.parent.name}/{page.stem}" for page in PAGES])
def test_every_interval_in_words_is_in_a_table(page: Path):
    words, tables = split(page.read_text(encoding="utf-8"))
    known = set(intervals(tables))
    known |= {(-high, -low) for low, high in known}  # "2.4 [0.8, 3.9] behind" for -2.4 [-3.9, -0.8]
    assert [each for each in intervals(words) if each not in known] == []


def test_intervals_are_found_in_words_and_tables():
    words, tables = split("It is 2.4 [0.8,\n3.9] behind.\n| a | -2.4 [-3.9, -0.8] |\n")
    assert intervals(words) == [(0.8, 3.9)] and intervals(tables) == [(-3.9, -0.8)]
