"""experiments/translation: the set as numbers, trials, runs that take the best of them, and tables of all that."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from tests.experiments.results import rows

pytest.importorskip("lightning")
pytest.importorskip("tokenizers")
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "experiments" / "translation"
ALL = """
import sys
sys.path.insert(0, sys.argv.pop(1))
data, cache, out = sys.argv[1:]
import doctest
from pathlib import Path
import job, run, sets, training
assert not doctest.testmod(training).failed
sets.pack(data, cache, 4000, "lower")
sets.pack(data, cache, 8000, "lower")
job.WIDTHS = (1, 3)
kinds = ["softmax", "entmax15", "adaptive", "continuous_sparsemax", "constrained_sparsemax_table", "recurrent"]
sys.argv = ["run.py", "--cache", cache, "--kinds", *kinds, "--seeds", "0", "1", "--steps", "3", "--tokens", "64"]
sys.argv += ["--workers", "1", "--device", "cpu", "--results", out]
assert run.main() == 0 and run.main() == 0
sys.argv = ["run.py", "--cache", cache, "--small", "--kinds", "sparsemax", "--seeds", "0", "--steps", "1"]
sys.argv += ["--workers", "1", "--device", "cpu", "--results", out + "/small"]
assert run.main() == 0
import tables
tables.SAMPLES = 20
for name, make in tables.make(tables.Results(Path(out), data)).items():
    print("TABLE", name, make().replace("\\n", "/"))
"""


def write_set(folder: Path) -> None:
    from omegamax.data.translation import TinyPairs

    (folder / "multi30k").mkdir()
    for split, name, count in (("train", "train", 60), ("val", "val", 4), ("test", "test_2016_flickr", 6)):
        pairs = list(TinyPairs(count, split))
        for ending, side in (("de", "source"), ("en", "target")):
            text = "".join(f"{getattr(pair, side)}\n" for pair in pairs)
            (folder / "multi30k" / f"{name}.{ending}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="module")
def done(tmp_path_factory, warm_processes):
    folder = tmp_path_factory.mktemp("all")
    write_set(folder)
    out = folder / "results"
    shown = warm_processes.run(["-c", ALL, FOLDER, folder, folder / "cache", out])
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return out, shown.stdout


def test_runs_take_the_settings_that_validated_best(done):
    tried, found = rows(done[0] / "trials.csv"), rows(done[0] / "runs.csv")
    assert len(tried) == 6 + 3 + 2 and len(found) == 12
    best = max((row for row in tried if row["kind"] == "softmax"), key=lambda row: float(row["val_bleu"]))
    for row in found:
        if row["kind"] in ("softmax", "adaptive"):
            assert all(row[name] == best[name] for name in ("size", "dim", "layers", "dropout", "rate", "smoothing"))


def test_small_networks_need_no_trials(done):
    (row,) = rows(done[0] / "small" / "runs.csv")
    assert (row["dim"], row["smoothing"]) == ("128", "0.0") and not (done[0] / "small" / "trials.csv").exists()


def test_translations_are_written_and_tables_are_made_of_them(done):
    lines = lzma.open(done[0] / "outputs" / "softmax-1.txt.xz", "rt", encoding="utf-8").read().splitlines()
    assert len(lines) == 6
    shown = [line for line in done[1].splitlines() if line.startswith("TABLE")]
    assert len(shown) == 9 and not any("nan" in line for line in shown)
    assert len(rows(done[0] / "alphas.csv")) == 2 * 3 * 4 * int(rows(done[0] / "runs.csv")[0]["layers"])
    assert len(rows(done[0] / "widths.csv")) == 2 * 2 * 2
