"""Records of captions, their table, and the HTML of their page."""

import csv
import json
import re
from dataclasses import replace

import pytest

from omegamax.tasks.captioning.report import CaptionComparison, CaptionExample, CaptionLook, CaptionRow, write_report
from omegamax.tasks.captioning.report.page import page
from omegamax.tasks.captioning.report.table import columns
from omegamax.tasks.report.table import make_csv
from tasks.captioning.report.cases import BARE, NASTY, SOFT, comparison, look, photograph


def test_comparison_is_what_it_was_after_a_file(tmp_path):
    made = comparison()
    made.save(tmp_path / "comparison.json")
    assert CaptionComparison.load(tmp_path / "comparison.json") == made
    for text in ("", "{}", json.dumps({"format": "omegamax caption comparison 1", "rows": [1]})):
        (tmp_path / "other.json").write_text(text)
        with pytest.raises(ValueError, match=r"CaptionComparison\.load: .*other\.json is not a saved comparison"):
            CaptionComparison.load(tmp_path / "other.json")


def test_columns_are_those_that_are_known_and_in_the_units_of_papers():
    rows = comparison().rows
    shown = columns(rows)
    assert [column.key for column in shown] == [
        *("BLEU-1", "BLEU-4", "METEOR", "CIDEr", "rep", "words", "js", "zero", "rate", "parameters"),
    ]
    texts = {column.key: [column.shown(row) for row in rows] for column in shown}
    assert texts["BLEU-4"] == ["20.0", "21.0", "\u2013"] and texts["CIDEr"][0] == "0.500"
    assert texts["rep"][:2] == ["6.09", "5.84"] and texts["zero"][1] == "34.0" and texts["parameters"][2] == "\u2013"
    read = list(csv.DictReader(make_csv(rows, shown).splitlines()))
    assert read[0]["BLEU-4"] == "0.2" and read[2]["BLEU-4"] == "" and read[2]["model"] == BARE


def test_page_says_the_tokeniser_and_what_is_missing_and_nothing_can_break_out(tmp_path):
    html = page(comparison())
    assert "Tokeniser: plain, as there is no Java." in html and "No SPICE: its models are missing." in html
    assert NASTY not in html
    data = json.loads(re.search(r'id="data">(.*?)</script>', html, re.DOTALL)[1])
    assert data["examples"][0]["said"] == ["dog", "dogs", "grass"]  # marks and stop words are none to filter by
    assert data["examples"][1]["looks"][2] is None
    plain = write_report(replace(comparison(), examples=[]), tmp_path / "page.html").read_text(encoding="utf-8")
    assert 'id="explorer"' not in plain and 'id="table"' in plain


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: CaptionLook(["a"], (2, 3), look(["a", "b"]).maps), "a map for each of 1 words, got 2"),
        (lambda: CaptionLook(["a"], (2, 2), look(["a"]).maps), "a map must have 4 cells, got 6"),
        (lambda: CaptionExample("x", "https://example.org/x.jpg", [], {}), "picture must be an address data:image"),
        (lambda: CaptionRow(" ", "softmax", {}), "name is empty"),
        (
            lambda: CaptionComparison("", "", [], [CaptionExample("x", photograph(0), [], {SOFT: look(["a"])})]),
            "has a look of 'softmax'",
        ),
    ],
)
def test_records_that_do_not_fit_are_refused(make, words):
    with pytest.raises(ValueError, match=words):
        make()
