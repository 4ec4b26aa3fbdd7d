"""Rows of results: written as they are done, not done again, and put into the tables of a page."""

from __future__ import annotations

from pathlib import Path

import pytest

from omegamax.tasks.tables import fill, mean, table
from omegamax.tasks.trials import Trials, work_through


def halve(job):
    if job["number"] == 3:
        raise RuntimeError("three will not do")
    return {**job, "half": job["number"] / 2}


def both(job):
    return [{**job, "half": 1}, {"number": job["number"] + 10, "half": 2}]


@pytest.fixture
def trials(tmp_path: Path) -> Trials:
    return Trials(tmp_path / "results" / "halves.csv", columns=("number", "half"), keys=("number",))


@pytest.mark.parametrize("workers", [1, 2])
def test_what_fails_does_not_end_the_others_and_is_tried_again(trials, workers, capfd):
    said: list[str] = []
    jobs = [{"number": number} for number in (1, 3, 4)]
    assert trials.run(jobs, halve, workers, said.append) == [{"number": 3}]
    assert "three will not do" in capfd.readouterr().err
    assert sorted(trials.rows(), key=str) == [{"number": "1", "half": "0.5"}, {"number": "4", "half": "2.0"}]
    assert trials.missing(jobs) == [{"number": 3}]
    assert sum("half 2" in line for line in said) == 1


def test_what_is_there_is_not_run_again(trials):
    trials.add([{"number": 4, "half": "by hand"}])
    assert trials.run([{"number": 4}], halve, say=None) == []
    assert trials.rows() == [{"number": "4", "half": "by hand"}]


def test_a_job_may_give_several_rows(trials):
    trials.run([{"number": 1}], both, say=None)
    assert trials.missing([{"number": 11}, {"number": 12}]) == [{"number": 12}]


def test_nothing_there_is_no_rows(trials):
    assert trials.rows() == []
    assert trials.run([], halve, workers=2) == []


def test_rows_are_refused_that_are_there_or_do_not_fit(trials):
    trials.add([{"number": 1, "half": 0}])
    with pytest.raises(ValueError, match=r"has a row for \('1',\)"):
        trials.add([{"number": 1, "half": 0}])
    with pytest.raises(ValueError, match="has a row for"):
        trials.add([{"number": 2, "half": 0}, {"number": 2, "half": 1}])
    with pytest.raises(ValueError, match="must have the columns"):
        trials.add([{"number": 2, "third": 0}])
    assert len(trials.rows()) == 1  # all or none
    with pytest.raises(ValueError, match="keys must be among the columns"):
        Trials(trials.path, ("number",), ("seed",))
    with pytest.raises(ValueError, match="must have the columns"):
        Trials(trials.path, ("number", "third"), ("number",)).rows()


def test_tables_take_their_places(tmp_path):
    page = tmp_path / "README.md"
    page.write_text("a\n<!-- table one -->\nold\n<!-- end -->\nb\n<!-- table two -->\n<!-- end -->\n")
    fill(page, {"one": "1", "two": "2"})
    assert page.read_text() == "a\n<!-- table one -->\n1\n<!-- end -->\nb\n<!-- table two -->\n2\n<!-- end -->\n"
    with pytest.raises(ValueError, match="'three'"):
        fill(page, {"one": "changed", "three": "3"})
    assert "changed" not in page.read_text()


def test_mean_leaves_out_what_was_not_measured():
    rows = [{"x": "0.25"}, {"x": ""}, {"x": "0.75"}]
    assert mean(rows, "x") == "50.0 ± 35.4 (n = 2)"
    assert mean(rows, "x", scale=1, digits=2, seeds=2) == "0.50 ± 0.35"
    assert mean(rows, "x", seeds=None) == "50.0 ± 35.4"


def test_table():
    assert table(["a", "b"], [["c", "1"]]).splitlines() == ["| a | b |", "| --- | ---: |", "| c | 1 |"]


def square(number: int) -> int:
    return number**2


@pytest.mark.parametrize("workers", [1, 2])
def test_jobs_begin_once_what_they_need_is_there(workers):
    made: list[int] = []
    for job, result in work_through([3, 2, 1], square, workers, lambda job: job == 1 or job - 1 in made):
        assert result == job**2
        made.append(job)
    assert made == [1, 2, 3]


def test_job_that_can_never_begin_has_failed():
    found = dict(work_through([1, 5], square, can_begin=lambda job: job == 1))
    assert found[1] == 1 and isinstance(found[5], str)
