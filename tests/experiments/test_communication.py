"""The experiment of emergent communication: rows, what is chosen by them, and the page that shows them."""

from __future__ import annotations

import csv
import json
import logging
import shutil
from itertools import product
from pathlib import Path

import numpy as np
import pytest
import torch
from tests.experiments.scripts import import_scripts
from tests.tasks.communication.pictures import write_idx

FOLDER = Path(__file__).parents[2] / "experiments" / "communication"
KINDS = ("gumbel_softmax", "gumbel_softmax_st", "hard_concrete", "gaussian_sparsemax")
OWN = ("settings", "concepts", "job", "run", "tables", "picture")
LOGGERS = ("lightning", "lightning.pytorch", "lightning.fabric", "lightning.pytorch.utilities.rank_zero")


@pytest.fixture(scope="module")
def scripts():
    levels = {name: logging.getLogger(name).level for name in LOGGERS}
    with import_scripts(FOLDER, OWN) as found:
        yield found
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
    wanted = set(product(KINDS, settings.PARAMETERS, settings.TEMPERINGS, settings.RATES))
    assert {(row["kind"], *(float(row[name]) for name in settings.SETTINGS)) for row in tried} == wanted
    assert len(tried) == len(wanted) and len({row["steps"] for row in tried}) == 1


def test_trials_know_nothing_of_test_games(scripts):
    assert not [
        name for name in scripts["settings"].TRIAL_COLUMNS if name in ("success", "nonzeros", "rounded", "words")
    ]


def test_runs_have_the_settings_that_validation_chose(scripts):
    tried, made = rows("trials"), rows("runs")
    settings = scripts["settings"]
    assert {(row["kind"], row["choice"]) for row in made} <= set(product(KINDS, settings.CHOICES))
    for row in made:
        best = settings.chosen(tried, row["kind"], row["choice"])
        assert {name: float(row[name]) for name in settings.SETTINGS} == best


def test_runs_are_of_as_many_seeds(scripts):
    made = rows("runs")
    for kind in {row["kind"] for row in made}:
        for choice in scripts["settings"].CHOICES:
            mine = sorted(int(row["seed"]) for row in made if (row["kind"], row["choice"]) == (kind, choice))
            assert mine == list(range(scripts["tables"].SEEDS))


def test_nonzeros_of_the_baselines_are_all_and_one():
    for row in rows("runs"):
        if row["kind"].startswith("gumbel"):
            assert float(row["nonzeros"]) == (256 if row["kind"] == "gumbel_softmax" else 1)
        else:
            assert 1 <= float(row["nonzeros"]) <= 256


def test_choice_is_the_best_of_validation(scripts):
    def made(parameter, tempering, rate, success):
        given = {"parameter": parameter, "tempering": tempering, "rate": rate, "val_success": success}
        return {"kind": "a", **given}

    tried = [made("1.0", "10.0", "0.1", "0.5"), made("1.0", "10.0", "0.2", "0.6"), made("0.5", "10.0", "0.1", "0.7")]
    tried += [made("1.0", "1.0", "0.4", "0.8"), {**made("1.0", "10.0", "0.3", "0.9"), "kind": "b"}]
    chosen = scripts["settings"].chosen
    assert chosen(tried, "a", "rate") == {"parameter": 1.0, "tempering": 10.0, "rate": 0.2}
    assert chosen(tried, "a", "untempered") == {"parameter": 1.0, "tempering": 1.0, "rate": 0.4}
    assert chosen(tried, "a", "both") == {"parameter": 0.5, "tempering": 10.0, "rate": 0.1}
    with pytest.raises(SystemExit, match="no trials of c"):
        chosen(tried, "c", "both")


def test_concepts_are_of_one_class_each_and_the_file_has_one_for_each_picture(scripts, tmp_path):
    train, test = scripts["concepts"].read_concepts()
    assert train.shape == (60_000,) and test.shape == (10_000,) and len(train.unique()) == 460
    folder = tmp_path / "few"
    folder.mkdir()
    labels = torch.arange(200) % 10
    for part in ("train", "t10k"):
        write_idx(folder / f"{part}-images-idx3-ubyte", torch.randint(256, (200, 2, 2)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", labels)
    for each in scripts["concepts"].make_concepts(folder, kinds=3).values():
        assert torch.equal(each // 3, labels)


def test_centres_are_the_means_of_what_is_nearest(scripts):
    divide, generator = scripts["concepts"].divide, torch.Generator().manual_seed(0)
    pictures = torch.cat([torch.randn(50, 3), torch.randn(50, 3) + 9])
    centres = divide(pictures, 4, generator)
    nearest = torch.cdist(pictures, centres).argmin(1)
    for number in nearest.unique():
        torch.testing.assert_close(centres[number], pictures[nearest == number].mean(0), atol=1e-4, rtol=0)


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    """Pictures of 2 x 2 pixels, and their concepts."""
    data = tmp_path_factory.mktemp("data")
    folder = data / "fashion_mnist"
    folder.mkdir()
    for part, count in (("train", 400), ("t10k", 64)):
        write_idx(folder / f"{part}-images-idx3-ubyte", torch.randint(256, (count, 2, 2)))
        write_idx(folder / f"{part}-labels-idx1-ubyte", torch.arange(count) % 10)
    np.savez(data / "concepts.npz", train=np.arange(400) % 40, test=np.arange(64) % 40)
    return data


def place(scripts, tiny, steps):
    return scripts["job"].Place(str(tiny), "cpu", steps, 32, tiny / "concepts.npz", 100)


def test_job_gives_a_row_for_each_and_the_same_again(scripts, tiny):
    settings = {"parameter": 0.5, "tempering": 10.0, "rate": 1e-3}
    variants = [{"kind": "hard_concrete", "choice": "both", "seed": seed, **settings} for seed in (5, 6)]
    job = {"kind": "hard_concrete", "variants": variants}
    one, two = (scripts["job"].run(job, place(scripts, tiny, 20)) for _ in range(2))
    for row, again in zip(one, two, strict=True):
        assert set(row) == set(scripts["settings"].COLUMNS)
        assert 0 <= float(row["success"]) <= 1 and 1 <= float(row["nonzeros"]) <= 256
        assert [point[0] for point in json.loads(row["curve"])] == list(range(2, 21, 2))
        assert len(json.loads(row["meanings"])) == 10
        assert {**row, "seconds": 0} == {**again, "seconds": 0}
    assert one[0]["curve"] != one[1]["curve"]


@pytest.mark.slow
def test_commands_try_run_and_do_not_run_again(tmp_path, tiny, script):
    told = ("--data", tiny, "--results", tmp_path, "--chosen-by", tmp_path, "--steps", 4, "--workers", 1)
    told += ("--batch-size", 32, "--concepts", tiny / "concepts.npz", "--held-out", 100, "--device", "cpu")
    told += ("--kinds", "gaussian_sparsemax", "--seeds", 3)
    done = script("run", *told, "--trials")
    assert done.returncode == 0 and "40 rows, 0 failed" in done.stdout, done.stderr
    done = script("run", *told)
    assert done.returncode == 0 and "3 rows, 0 failed" in done.stdout, done.stderr
    text = (tmp_path / "runs.csv").read_text(encoding="utf-8")
    assert {row["choice"] for row in csv.DictReader(text.splitlines())} == {"rate", "untempered", "both"}
    done = script("run", *told)
    assert done.returncode == 0 and "1/1" not in done.stdout
    assert (tmp_path / "runs.csv").read_text(encoding="utf-8") == text
