"""The experiment of emergent communication: rows, what is chosen by them, and the page that shows them."""

from __future__ import annotations

import csv
import importlib
import json
import logging
import shutil
import sys
from pathlib import Path

import pytest
import torch
from tests.tasks.communication.pictures import write_idx

FOLDER = Path(__file__).parents[2] / "experiments" / "communication"
KINDS = ("gumbel_softmax", "gumbel_softmax_st", "hard_concrete", "gaussian_sparsemax")
OWN = ("settings", "job", "run", "tables", "picture")
LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")


@pytest.fixture(scope="module")
def scripts():
    """The scripts as modules; those of other experiments have the same names."""
    before = {name: sys.modules.pop(name) for name in OWN if name in sys.modules}
    threads, levels = torch.get_num_threads(), {name: logging.getLogger(name).level for name in LOGGERS}
    sys.path.insert(0, str(FOLDER))
    try:
        yield {name: importlib.import_module(name) for name in ("settings", "job", "tables")}
    finally:
        sys.path.remove(str(FOLDER))
        for name in OWN:
            sys.modules.pop(name, None)
        sys.modules.update(before)
        torch.set_num_threads(threads)  # a job takes one
        for name, level in levels.items():
            logging.getLogger(name).setLevel(level)


def rows(name):
    with (FOLDER / "results" / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def script(warm_processes):
    """Runs a script of the experiment."""
    return lambda name, *arguments: warm_processes.run([FOLDER / f"{name}.py", *arguments])


def test_page_shows_what_the_rows_say(tmp_path, script):
    page = shutil.copy(FOLDER / "README.md", tmp_path)
    done = script("tables", page)
    assert done.returncode == 0, done.stderr
    assert Path(page).read_text(encoding="utf-8") == (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_distribution_has_the_same_trials(scripts):
    settings, tried = scripts["settings"], rows("trials")
    wanted = {(kind, p, rate) for kind in KINDS for p in settings.PARAMETERS for rate in settings.RATES}
    assert {(row["kind"], float(row["parameter"]), float(row["rate"])) for row in tried} == wanted
    assert len(tried) == len(wanted) and len({row["epochs"] for row in tried}) == 1


def test_trials_know_nothing_of_test_games(scripts):
    assert not [
        name for name in scripts["settings"].TRIAL_COLUMNS if name in ("success", "nonzeros", "rounded", "words")
    ]


def test_runs_have_the_settings_that_validation_chose(scripts):
    tried, made = rows("trials"), rows("runs")
    assert {(row["kind"], row["choice"]) for row in made} == {(k, c) for k in KINDS for c in ("rate", "both")}
    for row in made:
        best = scripts["settings"].chosen(tried, row["kind"], row["choice"])
        assert {"parameter": float(row["parameter"]), "rate": float(row["rate"])} == best


def test_runs_are_of_as_many_seeds(scripts):
    made = rows("runs")
    for kind in KINDS:
        for choice in ("rate", "both"):
            mine = sorted(int(row["seed"]) for row in made if (row["kind"], row["choice"]) == (kind, choice))
            assert mine == list(range(scripts["tables"].SEEDS))


def test_nonzeros_of_the_baselines_are_all_and_one():
    for row in rows("runs"):
        if row["kind"].startswith("gumbel"):
            assert float(row["nonzeros"]) == (256 if row["kind"] == "gumbel_softmax" else 1)
        else:
            assert 1 <= float(row["nonzeros"]) <= 256


def test_choice_is_the_best_of_validation(scripts):
    def made(parameter, rate, success):
        return {"kind": "a", "parameter": parameter, "rate": rate, "val_success": success}

    tried = [made("1.0", "0.1", "0.5"), made("1.0", "0.2", "0.6"), made("0.5", "0.1", "0.7")]
    tried.append({**made("1.0", "0.3", "0.9"), "kind": "b"})
    chosen = scripts["settings"].chosen
    assert chosen(tried, "a", "rate") == {"parameter": 1.0, "rate": 0.2}
    assert chosen(tried, "a", "both") == {"parameter": 0.5, "rate": 0.1}
    with pytest.raises(SystemExit, match="no trials of c"):
        chosen(tried, "c", "both")


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Pictures of 2 x 2 pixels, as many as a validation part takes and a few."""
    data = tmp_path_factory.mktemp("data")
    folder = data / "fashion_mnist"
    folder.mkdir()
    for part, count in (("train", 10_300), ("t10k", 64)):
        write_idx(folder / f"{part}-images-idx3-ubyte", torch.randint(256, (count, 2, 2)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", torch.arange(count) % 10)
    return data


def check(row, steps):
    """What a row says of a run with this many steps."""
    assert 0 <= float(row["success"]) <= 1 and 1 <= float(row["nonzeros"]) <= 256
    assert [point[0] for point in json.loads(row["curve"])] == steps
    assert len(json.loads(row["meanings"])) == 10


def test_job_gives_a_row_and_the_same_row_again(scripts, tiny):
    job = {"kind": "hard_concrete", "choice": "both", "seed": 5, "parameter": 0.5, "rate": 1e-3}
    one, two = (scripts["job"].run(job, str(tiny), "cpu", 2) for _ in range(2))
    assert set(one) == set(scripts["settings"].COLUMNS)
    check(one, [2, 4])  # one batch of 256 in an epoch, and one of 44
    del one["seconds"], two["seconds"]
    assert one == two


def test_trial_gives_a_row(scripts, tiny):
    row = scripts["job"].trial({"kind": "gumbel_softmax_st", "parameter": 0.5, "rate": 1e-3}, str(tiny), "cpu", 1)
    assert set(row) == set(scripts["settings"].TRIAL_COLUMNS) and row["val_nonzeros"] == 1


@pytest.mark.slow
def test_one_command_makes_a_row_and_does_not_make_it_again(tmp_path, tiny, script):
    told = ("--data", tiny, "--results", tmp_path, "--epochs", 1, "--workers", 2, "--device", "cpu")
    told += ("--kinds", "gaussian_sparsemax", "--choices", "rate", "--seeds", 3)
    done = script("run", *told)
    assert done.returncode == 0, done.stderr
    assert "1/1" in done.stdout and "0 failed" in done.stdout
    path = tmp_path / "runs.csv"
    text = path.read_text(encoding="utf-8")
    (row,) = csv.DictReader(text.splitlines())
    assert row["seed"] == "3"
    check(row, [2])
    done = script("run", *told)
    assert done.returncode == 0 and "1/1" not in done.stdout
    assert path.read_text(encoding="utf-8") == text
