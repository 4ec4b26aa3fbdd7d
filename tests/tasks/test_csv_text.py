"""Text in CSV files: no formula to a spreadsheet, and the same when it is read back."""

import csv
import io

import pytest

from omegamax.tasks.csv_text import guard, unguard
from omegamax.tasks.report.table import make_csv
from omegamax.tasks.trials import Trials
from omegamax.tasks.vqa.report.records import Row
from omegamax.tasks.vqa.report.table import columns

FORMULAS = ["=1+1", "+cmd", "-2+3", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "=", "-", "'=1", "''-x", "\uff1d1", "-1;=2"]
PLAIN = ["", "sparsemax", "it's", "'", "'a", "a=b", "1", "-0.5", "+3", "-1e-5", "-inf", "nan", "{}", " =1"]
BEGIN = tuple("=+-@\t\r\n\uff1d\uff0b\uff0d\uff20")


@pytest.mark.parametrize("text", FORMULAS + PLAIN)
def test_text_is_no_formula_and_comes_back(text):
    written = guard(text)
    assert unguard(written) == text
    assert not written.startswith(BEGIN) or text in PLAIN
    assert (written == text) == (text in PLAIN)


@pytest.mark.parametrize("number", [-0.5, -3, 0, float("-inf"), None, True])
def test_numbers_stay_numbers(number):
    assert guard(number) is number


def test_rows_of_trials_come_back(tmp_path):
    trials = Trials(tmp_path / "a.csv", ("name", "value"), ("name",))
    texts = [*FORMULAS, *PLAIN]
    trials.add({"name": text, "value": -0.5} for text in texts)
    assert [row["name"] for row in trials.rows()] == texts
    assert {row["value"] for row in trials.rows()} == {"-0.5"}
    assert trials.missing([{"name": text} for text in texts]) == []
    with (tmp_path / "a.csv").open(newline="") as file:
        cells = [row[0] for row in csv.reader(file)][1:]
    assert not any(cell.startswith(BEGIN) for cell in cells if unguard(cell) not in PLAIN)


@pytest.mark.parametrize("text", [text for text in FORMULAS if text.strip()])
def test_table_of_a_report_has_no_formulas(text):
    rows = [Row(text, "softmax", {"overall": -0.5, text: 0.5}, 1)]
    found = make_csv(rows, columns(rows))
    head, cells = list(csv.reader(io.StringIO(found, newline="")))
    assert cells[0] == guard(text) and cells[2] == "-0.5" and not any(cell.startswith(BEGIN) for cell in head)
