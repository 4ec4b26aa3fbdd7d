"""experiments/mil: trials, runs that take the best of them, and tables of what was found."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.experiments.results import rows
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
print("TABLE", tables.differences(rows, ["mnist_2"], "accuracy", ["softmax"]).replace("\\n", "/"))
print("TABLE", tables.betas(tables.with_heads(tried, 12), "mnist_2").replace("\\n", "/"))
print("TABLE", tables.masses(rows, ['mnist_1', 'mnist_2']).replace("\\n", "/"))
print("TABLE", tables.chosen(rows, ['mnist_2', 'fox']).replace("\\n", "/"))
print("TABLE", tables.spread(run.trials(Path(arguments[-1])).rows()).replace("\\n", "/"))
"""


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
    assert len(tried) == 2 * (2 * 8 + 4 * 7)  # kinds; rates and betas of digits, rates, dropouts and betas of fox
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
    made = [line for line in done[1].splitlines() if line.startswith("TABLE")]
    accuracy, differences, betas, inside, chosen, spread = made
    found = [100 * float(row["accuracy"]) for row in rows(done[0] / "runs.csv") if row["set"] == "mnist_2"]
    assert f"{(found[0] + found[1]) / 2:.1f} ±" in accuracy and "(n = 2)" in accuracy and "94.6 ± 0.5" in accuracy
    best = max(float(row["val_accuracy"]) for row in rows(done[0] / "trials.csv") if row["set"] == "mnist_2")
    assert f"{100 * best:.1f} (" in betas
    by_kind = {
        kind: [
            100 * float(r["accuracy"]) for r in rows(done[0] / "runs.csv") if (r["set"], r["kind"]) == ("mnist_2", kind)
        ]
        for kind in ("softmax", "k_subsets_5")
    }
    gap = sum(by_kind["k_subsets_5"]) / 2 - sum(by_kind["softmax"]) / 2
    assert f"SparseMAP, k = 5 | {gap:+.1f} [" in differences
    assert "equal weights | - |" in inside and "softmax" in chosen and "Fox" in spread


def test_share_of_nines_is_counted_by_hand(warm_processes):
    code = "import sys, torch; sys.path.insert(0, sys.argv[1]); import shares\n"
    code += "print(shares.best_threshold(torch.tensor([1, 3, 5, 2]).double() / 8, torch.tensor([0, 1, 1, 1])))\n"
    shown = warm_processes.run(["-c", code, FOLDER])
    assert shown.stdout.strip() == "(0.25, 1.0)", shown.stderr


def test_page_shows_what_the_rows_say(warm_processes):
    page = (FOLDER / "README.md").read_text(encoding="utf-8")
    code = "import sys; sys.path.insert(0, sys.argv[1]); import tables; from run import table_rows\n"
    code += "rows = table_rows(tables.HERE / 'results', tables.HEADS)\n"
    code += "names = [name for name in tables.DIGITS if any(row['set'] == name for row in rows)]\n"
    code += "print(tables.beside(rows, names, 'accuracy'))\n"
    code += "print(tables.beside(rows, tables.BENCHMARKS, 'auc'))\n"
    shown = warm_processes.run(["-c", code, FOLDER])
    assert shown.returncode == 0 and shown.stdout, shown.stderr
    assert all(line in page for line in shown.stdout.splitlines())
