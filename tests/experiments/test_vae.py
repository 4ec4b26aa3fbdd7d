"""The experiment of auto-encoders: rows, what is chosen by them, and the page that shows them."""

from __future__ import annotations

import csv
import os
import shutil
from pathlib import Path

import pytest
import torch
from tests.tasks.communication.pictures import write_idx

pytest.importorskip("lightning")

FOLDER = Path(__file__).parents[2] / "experiments" / "vae"


@pytest.fixture
def script(warm_processes):
    """Runs a script of the experiment."""
    return lambda name, *arguments, **settings: warm_processes.run([FOLDER / f"{name}.py", *arguments], **settings)


def rows(name, folder=FOLDER / "results"):
    with (folder / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.mark.slow
def test_page_shows_what_the_rows_say(tmp_path, script):
    page = shutil.copy(FOLDER / "README.md", tmp_path)
    done = script("tables", page)
    assert done.returncode == 0, done.stderr
    assert Path(page).read_text(encoding="utf-8") == (FOLDER / "README.md").read_text(encoding="utf-8")


def test_every_distribution_that_was_tried_has_the_same_grid_and_the_test_part_is_in_no_trial():
    tried = rows("trials")
    found = {}
    for row in tried:
        found.setdefault((row["set"], row["codes"], row["kind"], row["temperature"]), set()).add(float(row["rate"]))
    assert all({5e-4, 1e-3, 2e-3, 4e-3} <= rates for rates in found.values())
    temperatures = {}
    for name, codes, kind, temperature in found:
        temperatures.setdefault((name, codes, kind), set()).add(temperature)
    assert all(each in ({""}, {"0.5", "1.0", "2.0"}) for each in temperatures.values())
    assert {row["size"] for row in tried} == {"full"}
    assert not {"bound", "weighted"} & set(tried[0])


def test_rows_have_the_settings_that_validation_chose():
    tried = [row for row in rows("trials") if float(row["rate"]) <= 4e-3]
    for row in (each for each in rows("runs") if float(each["rate"]) <= 4e-3):
        mine = [each for each in tried if all(each[key] == row[key] for key in ("set", "codes", "kind", "size"))]
        best = max(mine, key=lambda each: float(each["val_bound"]))
        assert (float(best["rate"]), best["temperature"]) == (float(row["rate"]), row["temperature"])


def test_rows_are_bounds_of_codes_on_faces():
    for row in rows("runs"):
        bound, weighted = float(row["bound"]), float(row["weighted"])
        assert bound == pytest.approx(float(row["reconstruction"]) - float(row["divergence"]), abs=0.01)
        assert bound < weighted < 0
        if row["kind"] == "gaussian":
            assert not row["corner"]
            continue
        zero, nonzeros, vertices = float(row["zero"]), float(row["nonzeros"]), {"bits": 2, "simplex": 10}[row["codes"]]
        assert zero == pytest.approx(1 - nonzeros / vertices, abs=1e-4)
        assert {"gumbel_softmax": zero == 0, "straight_through": float(row["corner"]) == 1}.get(row["kind"], zero > 0)


def test_pictures_are_there_for_every_distribution_of_the_rows():
    chosen = [row for row in rows("runs") if float(row["rate"]) <= 4e-3]
    named = {"-".join(row[key] for key in ("set", "codes", "kind", "size")) for row in chosen}
    assert {path.stem for path in (FOLDER / "results" / "pictures").glob("*.npz")} == named
    assert all((FOLDER / f"{name}.png").exists() for name in ("bits", "simplex"))


def test_without_data_the_variable_is_named(tmp_path, script):
    environment = {name: value for name, value in os.environ.items() if name != "OMEGAMAX_DATA"}
    done = script("run", "--results", tmp_path, env=environment)
    assert done.returncode == 2 and "OMEGAMAX_DATA" in done.stderr


@pytest.mark.slow
def test_trials_rows_and_pictures_from_small_files(tmp_path, script):
    folder = tmp_path / "mnist"
    folder.mkdir()
    for part, count in (("train", 5100), ("t10k", 40)):  # 5000 are held out
        write_idx(folder / f"{part}-images-idx3-ubyte", torch.randint(0, 256, (count, 28, 28)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", torch.arange(count) % 10)
    common = ["--data", tmp_path, "--results", tmp_path / "out", "--sets", "mnist", "--codes", "simplex"]
    common += ["--kinds", "mixed_dirichlet", "--epochs", 1, "--trial-epochs", 1, "--hidden", 8, "--samples", 3]
    for more in (["--trials"], ["--seeds", 0, 1]):
        done = script("run", *common, "--device", "cpu", *more)
        assert done.returncode == 0, done.stderr
    assert len(rows("trials", tmp_path / "out")) == 4
    made = rows("runs", tmp_path / "out")
    assert [row["seed"] for row in made] == ["0", "1"] and made[0]["bound"] != made[1]["bound"]
    pytest.importorskip("matplotlib")
    done = script("pictures", tmp_path / "out" / "pictures", tmp_path)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "simplex.png").stat().st_size > 10_000
