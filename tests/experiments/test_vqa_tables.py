"""The tables of experiments/vqa are those of its rows, and the demonstration's rows are what it measured."""

from __future__ import annotations

import csv
import importlib.util
import shutil
from pathlib import Path

import pytest

pytest.importorskip("lightning")
pytest.importorskip("jsonargparse")

from omegamax.tasks.vqa.report import Comparison, Row

FOLDER = Path(__file__).parents[2] / "experiments" / "vqa"
SETS = ("easy_vqa", "shapes", "daquar")


def test_readme_has_the_tables_of_the_rows(tmp_path: Path, warm_processes) -> None:
    again = tmp_path / "README.md"
    shutil.copy(FOLDER / "README.md", again)
    done = warm_processes.run([FOLDER / "tables.py", again])
    assert done.returncode == 0, done.stderr
    assert again.read_text(encoding="utf-8") == (FOLDER / "README.md").read_text(encoding="utf-8")


def keys_of(name: str) -> list[tuple[str, str, str]]:
    with (FOLDER / "results" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [(row["begin"], row["kind"], row["seed"]) for row in csv.DictReader(file) if not row["options"]]


@pytest.mark.parametrize("name", SETS)
def test_every_kind_has_a_row_for_each_seed_and_no_row_is_twice(name: str) -> None:
    keys = keys_of(name)
    assert len(set(keys)) == len(keys)
    assert {(begin, kind, seed) for begin, kind, _ in keys for seed in "012"} == set(keys)
    kinds = {kind for _, kind, _ in keys}
    assert {"blind", "softmax", "tvmax", "k_subsets", "continuous_sparsemax", "multimodal"} <= kinds


@pytest.mark.parametrize("name", ["scenes", "crowds"])
def test_what_is_compared_with_softmax_has_its_seeds(name: str) -> None:
    keys = keys_of(name)
    assert len(set(keys)) == len(keys)
    seeds: dict[tuple[str, str], set[str]] = {}
    for begin, kind, seed in keys:
        seeds.setdefault((begin, kind), set()).add(seed)
    for (begin, _), found in seeds.items():
        assert found <= seeds[begin.replace("matched", "softmax"), "softmax"]  # the same weights, other scores


def test_rows_of_the_demonstration_are_what_it_saved(tmp_path: Path) -> None:
    spec = importlib.util.spec_from_file_location("vqa_demo_rows", FOLDER / "demo.py")
    assert spec is not None and spec.loader is not None
    rows = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rows)
    seen = Row("multimodal", "multimodal", {"overall": 0.75, "yes/no": 0.9, "number": None}, 10, divergence=0.25)
    words = Row("language only", "blind", {"overall": 0.5, "yes/no": 0.5, "number": 0.5}, 10)
    settings = {"command": "omegamax demo --seed 12 --steps 3"}
    tested = Row("test-MCA", "multimodal", {"overall": 0.5}, 10)
    Comparison("t", "a", [seen, tested], words, settings=settings).save(tmp_path / "comparison.json")
    first, third, second = rows.measured(tmp_path)
    assert first["seed"] == second["seed"] == 12 and (first["kind"], second["kind"]) == ("multimodal", "blind")
    assert third["kind"] == "test_mca"
    assert (first["accuracy"], first["accuracy_yes_no"], first["accuracy_number"]) == (0.75, 0.9, "")
    assert first["divergence"] == 0.25 and second["divergence"] == ""
