"""The application of docs/extending.md: its files are written as they stand there, trained, measured and explained."""

import csv
import re
from pathlib import Path

import pytest

pytest.importorskip("lightning")
pytest.importorskip("jsonargparse")
pytestmark = pytest.mark.slow

PAGE = Path(__file__).parents[2] / "docs" / "extending.md"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    text = PAGE.read_text(encoding="utf-8").partition("\n## An application\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL)
    made = tmp_path_factory.mktemp("pick")
    for name, block in zip(("pick.py", "pick_explain.py", "run.py"), blocks, strict=True):
        (made / name).write_text(block, encoding="utf-8")
    return made


@pytest.fixture
def run(folder, warm_processes):
    """Runs a program of the folder; what it printed."""

    def run(*arguments):
        done = warm_processes.run(arguments, cwd=folder)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def test_application_of_the_page_learns_and_is_explained(folder, run):
    fit = run("pick.py", "fit", "--model.omega=entmax15", "--out=runs/a", "--trainer.accelerator=cpu")
    assert float(re.search(r"best val_accuracy: ([\d.]+)", fit)[1]) > 0.9
    assert "test_accuracy" in run("pick.py", "test", "--config=runs/a/config.yaml")
    said = run("pick.py", "explain", "runs/a", "--out=picked.png")
    weights = [float(cell) for cell in said.splitlines()[1].split()[1:]]
    assert len(weights) == 6 and abs(sum(weights) - 1) < 0.05 and 0.0 in weights
    assert (folder / "picked.png").read_bytes().startswith(b"\x89PNG")


def test_experiment_of_the_page_writes_rows_once(folder, run):
    arguments = ("run.py", "--maps", "sparsemax", "--seeds", "0", "--epochs", "1", "--workers", "1", "--device", "cpu")
    run(*arguments)
    assert "1 rows, 0 failed" in run(*arguments)
    with (folder / "results" / "runs.csv").open() as file:
        (row,) = csv.DictReader(file)
    assert (row["map"], row["seed"]) == ("sparsemax", "0") and 0 <= float(row["accuracy"]) <= 1
