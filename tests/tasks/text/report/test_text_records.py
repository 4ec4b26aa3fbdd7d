"""What the page about texts is made of: checked, saved and read again."""

import json
import math

import pytest

from omegamax.tasks.report.table import make_csv
from omegamax.tasks.text.report import PairLook, TextComparison, TextExample, TextRow, WordLook
from omegamax.tasks.text.report.page import page
from omegamax.tasks.text.report.table import columns
from tasks.text.report.cases import NASTY, SPARSE, comparison, pairs


@pytest.mark.parametrize("make", [comparison, pairs])
def test_saved_comparison_is_read_as_it_was(make, tmp_path):
    make().save(tmp_path / "c.json")
    assert TextComparison.load(tmp_path / "c.json") == make()


@pytest.mark.parametrize("damage", ["[]", "{}", '{"format": "omegamax comparison 1"}', "no"])
def test_other_files_are_refused_by_name(damage, tmp_path):
    (tmp_path / "c.json").write_text(damage)
    with pytest.raises(ValueError, match=r"TextComparison.load: .*c.json is not a saved comparison"):
        TextComparison.load(tmp_path / "c.json")


def test_number_that_is_not_finite_is_not_known():
    row = TextRow("a", "softmax", {"overall": math.nan}, 1, math.inf, math.nan, math.nan, math.nan)
    assert (row.accuracy, row.step_ms, row.zero, row.inside, row.token_f1) == ({"overall": None}, *(None,) * 4)


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: TextRow(" ", "softmax", {}, 0), "TextRow: name is empty"),
        (lambda: WordLook([], [0.5, 0.5], [False]), "empty must have 2 entries, got 1"),
        (lambda: WordLook([], [1.0], [False], density=[1.0, 1.0], points=2), "density must have 3 entries, got 2"),
        (lambda: PairLook([], [[1.0]], [[1.0], [0.0]]), "back must have 1 entries, got 2"),
        (
            lambda: TextExample("x", ["a", "b"], None, {"s": WordLook([], [1.0], [False])}),
            r"must be at \(2,\), got \(1,\)",
        ),
        (lambda: TextExample("x", ["a"], None, {}, [True, False]), "marks must have 1 entries, got 2"),
        (lambda: TextComparison("", "", [TextRow("a", "softmax", {}, 0)] * 2), "two rows are called 'a'"),
        (
            lambda: TextComparison("", "", [], [TextExample("x", ["a"], None, {"s": WordLook([], [1.0], [False])})]),
            "'x' has a look of 's'",
        ),
    ],
)
def test_records_that_do_not_fit_are_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_table_has_what_is_known():
    rows = comparison().rows
    lines = make_csv(rows, columns(rows)).splitlines()
    assert lines[0] == (
        "model,attention,accuracy overall,accuracy positive,accuracy negative,difference,difference from,difference to,"
        "zero,inside,token_f1,parameters,step_ms"
    )
    assert lines[2] == f"{SPARSE},sparsemax,0.9,,,0.1,0.05,0.15,0.75,0.9,0.8,1000,12.5"
    plain = [TextRow("a", "softmax", {"overall": 0.5}, 1)]
    assert [each.key for each in columns(plain)] == ["accuracy overall", "zero", "parameters", "step_ms"]


def test_page_is_whole_and_text_cannot_become_markup():
    html = page(comparison())
    assert NASTY not in html and html.count("<script") == 2 and "Words &amp; &lt;more&gt;" in html
    data = json.loads(html.split('id="data">')[1].split("</script>")[0])
    assert data["examples"][0]["words"][3] == NASTY and data["examples"][1]["looks"][2] is None
    assert "default-src 'none'" in html and "http://www.w3.org/2000/svg" in html and "https://" not in html
    assert "Not told apart from it: continuous sparsemax (79.0%, -1.0 points, -10.0 to +8.0)" in html


def test_page_without_numbers_has_no_table():
    assert 'id="comparison"' not in page(pairs()) and 'id="comparison"' in page(comparison())
    assert 'id="explorer"' not in page(TextComparison("", "", comparison().rows))
