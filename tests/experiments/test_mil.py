"""experiments/mil: trials, runs that take the best of them, and tables of what was found."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
from tests.tasks.mil.sets import write_benchmark, write_digits

pytest.importorskip("lightning")
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "experiments" / "mil"
ALL = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import run
arguments = sys.argv[1:]
for more in (["--trials"], [], []):
    sys.argv = ["run.py", *arguments, *more]
    assert run.main() == 0
import tables
from pathlib import Path
rows = run.table_rows(Path(arguments[-1]), 12)
assert rows == run.runs(Path(arguments[-1])).rows()
print("TABLE", tables.beside(rows, ["mnist_2"], "accuracy").replace("\\n", "/"))
tried = run.trials(Path(arguments[-1])).rows()
print("TABLE", tables.alone(tables.with_heads(tried, 12)).replace("\\n", "/"))
print("TABLE", tables.masses(rows).replace("\\n", "/"))
print("TABLE", tables.chosen(rows).replace("\\n", "/"))
print("TABLE", tables.spread(run.trials(Path(arguments[-1])).rows()).replace("\\n", "/"))
"""


def rows(path):
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def done(tmp_path_factory, warm_processes):
    folder = tmp_path_factory.mktemp("all")
    write_digits(folder / "mnist", 10040, packed=False)  # 10000 are held out
    write_benchmark(folder / "mil", bags=40)
    out = folder / "results"
    given = ["--data", folder, "--sets", "mnist_2", "fox", "--kinds", "softmax", "k_subsets_5", "--seeds", "0", "1"]
    given += ["--epochs", "1", "--bags", "8", "8", "8", "--workers", "1", "--device", "cpu", "--trials-from", out]
    shown = warm_processes.run(["-c", ALL, FOLDER, *given, "--results", out])
    assert shown.returncode == 0, shown.stderr
    return out, shown.stdout


def test_every_setting_is_tried_once(done):
    tried = rows(done[0] / "trials.csv")
    assert len(tried) == 2 * (2 * 3 + 4 * 3)
    keys = {tuple(row[name] for name in ("set", "kind", "heads", "rate", "dropout", "beta")) for row in tried}
    assert len(keys) == len(tried)
    assert all(0 <= float(row["val_auc"]) <= 1 and float(row["val_loss"]) > 0 for row in tried)


def test_runs_take_the_settings_that_validated_best(done):
    tried, found = rows(done[0] / "trials.csv"), rows(done[0] / "runs.csv")
    assert sorted((row["set"], row["kind"], row["seed"]) for row in found) == sorted(
        (name, kind, seed) for name in ("mnist_2", "fox") for kind in ("softmax", "k_subsets_5") for seed in "01"
    )
    for row in found:
        own = [each for each in tried if (each["set"], each["kind"]) == (row["set"], row["kind"])]
        measure = "val_accuracy" if row["set"] == "mnist_2" else "val_auc"
        most = max(float(each[measure]) for each in own)
        best = min((each for each in own if float(each[measure]) == most), key=lambda each: float(each["val_loss"]))
        assert all(float(row[name]) == float(best[name]) for name in ("rate", "dropout", "beta"))


def test_rows_tell_where_the_weight_is(done):
    for row in rows(done[0] / "runs.csv"):
        assert 0 <= float(row["accuracy"]) <= 1 and 0 <= float(row["auc"]) <= 1
        assert (float(row["zero"]) == 0) if row["kind"] == "softmax" else (0 <= float(row["zero"]) < 1)
        assert bool(row["inside"]) == bool(row["positives"]) == (row["set"] == "mnist_2")


def test_what_is_there_is_not_run_again(done):
    lines = [line for line in done[1].splitlines() if " s  " in line]
    assert len(lines) == 12 + 4  # jobs of the trials and of the runs; the third call had none


def test_tables_are_made_of_the_rows(done):
    accuracy, alone, inside, chosen, spread = (line for line in done[1].splitlines() if line.startswith("TABLE"))
    found = [100 * float(row["accuracy"]) for row in rows(done[0] / "runs.csv") if row["set"] == "mnist_2"]
    assert f"{(found[0] + found[1]) / 2:.1f} ±" in accuracy and "(n = 2)" in accuracy and "94.6 ± 0.5" in accuracy
    best = max(float(row["val_accuracy"]) for row in rows(done[0] / "trials.csv") if row["set"] == "mnist_2")
    assert f"**{100 * best:.1f}**" in alone
    assert "equal weights | - |" in inside and "softmax" in chosen and "Fox" in spread
