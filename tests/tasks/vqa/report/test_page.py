"""The report as a file: whole in itself, its text escaped, its gaps marked."""

import csv
import io
import itertools
import json
import re
from html.parser import HTMLParser
from importlib import resources
from urllib.parse import unquote

import pytest

from omegamax.tasks.report.colours import colours
from omegamax.tasks.report.table import DASH
from omegamax.tasks.vqa.report import Comparison, Row, write_report
from omegamax.tasks.vqa.report.page import page
from omegamax.tasks.vqa.report.payload import describe
from tasks.vqa.report.cases import IMAGE, NASTY, TV, comparison


class Reader(HTMLParser):
    """Elements with their attributes, and the text of each table row."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.rows: list[list[str]] = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag):
        if tag == "table":
            self.rows.append([])  # what follows is no cell

    def handle_data(self, data):
        if self.rows and self.rows[-1] and data.strip():
            self.rows[-1][-1] += data.strip()


@pytest.fixture(scope="module")
def html() -> str:
    return page(comparison())


@pytest.fixture(scope="module")
def read(html) -> Reader:
    return Reader(html)


def test_report_is_one_file_at_the_path_given(tmp_path):
    path = write_report(comparison(), str(tmp_path / "report.html"))
    assert path == tmp_path / "report.html" and path.read_text(encoding="utf-8").startswith("<!doctype html>")
    assert list(tmp_path.iterdir()) == [path]


def test_page_refers_to_nothing_outside_itself(html, read):
    for tag, attributes in read.elements:
        assert tag not in ("link", "iframe", "object", "embed", "base"), tag
        for name in ("src", "href", "srcset", "action", "poster", "data"):
            assert (attributes.get(name) or "data:").startswith("data:"), (tag, attributes)
    assert not re.search(r"@import|url\(|\bfetch\(|XMLHttpRequest|WebSocket|\bimport\(", html)
    (policy,) = (a["content"] for _, a in read.elements if a.get("http-equiv") == "Content-Security-Policy")
    assert policy.startswith("default-src 'none'") and "http" not in policy


def test_text_cannot_become_markup(html, read):
    assert html.count("</script>") == 2 and html.count("<script") == 2
    assert "<!--" not in html and IMAGE not in html
    assert not any(tag in ("img", "b") for tag, _ in read.elements)


def test_data_inside_the_page_is_the_data_given(html):
    inside = html.split('id="data">')[1].split("</script>")[0]
    assert not set("<>&") & set(inside)
    data = json.loads(inside)
    assert data["examples"][1]["question"] == NASTY and data["examples"][1]["answer"] == IMAGE
    assert data["models"][1]["name"] == TV


def test_every_picture_is_there_once(html):
    pictures = describe(comparison())["pictures"]
    shown = [e.picture for e in comparison().examples] + [e.relevance for e in comparison().examples if e.relevance]
    looks = [look for e in comparison().examples for look in e.looks.values()]
    shown += [each.picture for look in looks for each in (look, *look.fits)]
    assert len(pictures) == len(set(pictures)) == len(set(shown)) < len(shown)
    assert all(html.count(picture) == 1 for picture in pictures)


def test_table_marks_the_gaps_and_ends_with_the_baseline(read):
    names = read.rows[1]
    soft, tv, multi, blind = read.rows[2:-1]
    assert names == [
        "overall",
        "yes/no",
        "number",
        "other",
        "parameters",
        "ms / step",
        "JSD",
        "inside, %",
        "zero, %",
        "K*",
    ]
    assert soft == ["softmax", "50.0", "60.0", DASH, DASH, "1,234,567", "10.2", "0.500", "25.0", "0.0", DASH]
    assert tv[1:] == ["62.5", "60.0", DASH, DASH, "1,234,567", DASH, DASH, DASH, "75.0", DASH]
    assert multi[-4:] == ["0.250", "50.0", "50.0", "1.75"]
    assert blind == ["language only", "30.0", *[DASH] * 3, "1,000", *[DASH] * 5]
    assert not {"nan", "None", "NaN"} & {cell for row in read.rows for cell in row}


def test_best_of_a_column_is_bold_and_a_tie_of_all_is_not(html):
    bold = re.findall(r"<strong>([^<]*)</strong>", html.split("<tbody>")[1].split("</tbody>")[0])
    assert bold == ["10.2", "75.0", "0.250", "50.0"]  # step of the first; accuracy, divergence, inside of the last


def test_csv_has_the_numbers_unrounded_and_gaps_empty(read):
    (link,) = (a for tag, a in read.elements if tag == "a" and a.get("id") == "csv")
    text = unquote(link["href"].removeprefix("data:text/csv;charset=utf-8,"))
    table = list(csv.DictReader(io.StringIO(text)))
    assert [row["model"] for row in table] == ["softmax", TV, "multimodal, K* & Co", "language only"]
    assert table[0]["step_ms"] == "10.25" and table[0]["accuracy number"] == "" and table[1]["divergence"] == ""
    assert table[2]["attention"] == "multimodal" and table[2]["components"] == "1.75"


def test_sets_without_maps_of_what_matters_have_no_columns_of_them():
    plain = page(Comparison("Photographs", "", [Row("softmax", "softmax", {"overall": 0.5}, 10, zero=0.0)]))
    assert "zero, %" in plain and "Zero is the share" in plain
    assert not any(word in plain.split("<script")[0] for word in ("JSD", "inside, %", "what matters"))


def test_page_leaves_out_what_there_is_none_of():
    bare = page(Comparison("Only a table", "", [Row("softmax", "softmax", {}, 10)]))
    assert 'id="table"' in bare
    assert not any(part in bare for part in ('id="chart"', 'id="explorer"', 'histogram"', 'class="baseline"', "<dl>"))


def test_histogram_says_its_numbers(html):
    assert 'aria-label="K* of multimodal, K* &amp; Co: 1: 25%, 2: 75%"' in html
    assert "K* = 2: 3 of 4" in html


def test_models_have_colours_of_their_own():
    kinds = "softmax sparsemax entmax tvmax k_subsets continuous_softmax continuous_sparsemax continuous_entmax".split()
    rows = [Row(str(n), kind, {}, 0) for n, kind in enumerate([*kinds, "multimodal", "multimodal", "multimodal"])]
    assert len(set(colours(rows))) == len(rows)
    assert colours(rows[5:6]) == colours([Row("cs", "continuous softmax", {}, 0)])
    assert len(colours(rows * 3)) == 3 * len(rows)


def luminance(colour: str) -> float:
    channels = (int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5))
    return sum(
        w * (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4)
        for w, c in zip(WEIGHTS, channels, strict=True)
    )


WEIGHTS = (0.2126, 0.7152, 0.0722)


def test_text_stands_out_from_its_ground_on_light_and_dark_pages():
    style = resources.files("omegamax.tasks.report").joinpath("assets/report.css").read_text(encoding="utf-8")
    light, dark = (
        dict(re.findall(r"--(\w+): (#\w{6});", block)) for block in re.findall(r":root {([^}]*)}", style)[:2]
    )
    assert set(dark) <= set(light)
    for colour in (light, {**light, **dark}):
        for ground, text in itertools.product(("wash", "card"), ("ink", "muted", "link", "right", "wrong")):
            low, high = sorted(luminance(colour[name]) for name in (ground, text))
            assert (high + 0.05) / (low + 0.05) >= 4.5, (ground, text)  # WCAG 2.2, success criterion 1.4.3
    rest = style.split("* { box-sizing", 1)[1].split("@media print")[0]
    assert set(re.findall(r"#[0-9a-fA-F]{3,8}\b", rest)) <= {"#fff"}  # behind pictures; all else is named once
