"""experiments/translation: the set as numbers, trials, runs that take the best of them, and tables of all that."""

from __future__ import annotations

import lzma
from pathlib import Path

import pytest
from tests.experiments.results import rows
from tests.experiments.scripts import import_scripts

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
    assert len(tried) == 5 + 6 + 2 and len(found) == 12
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


PAGES = {"README.md": "results", "small.md": "results/small"}
# Tables that need no references but the scores of the rows; p-values and REP are measured by them.
OF_ROWS = ("transformers", "recurrent", "searches", "widths", "alphas", "trials")


@pytest.fixture(scope="module")
def tables():
    with import_scripts(FOLDER, ("job", "run", "sets", "training", "tables")) as found:
        yield found["tables"]


def read_table(page: str, name: str) -> str | None:
    _, begin, rest = (FOLDER / page).read_text(encoding="utf-8").partition(f"<!-- table {name} -->\n")
    return rest.partition("\n<!-- end -->")[0] if begin else None


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("name", OF_ROWS)
def test_page_shows_what_the_rows_say(tables, page, name):
    shown = read_table(page, name)
    assert shown is None or shown == tables.make(tables.Results(FOLDER / PAGES[page], None))[name]()
    assert shown is not None or page != "README.md"


@pytest.mark.parametrize("page", PAGES)
def test_differences_on_the_page_are_those_of_the_rows(tables, page):
    results = tables.Results(FOLDER / PAGES[page], None)
    softmax = {row["seed"]: float(row["bleu"]) for row in results.of("softmax")}
    lines = [line.strip("| ").split(" | ") for line in read_table(page, "bootstrap").splitlines()[2:]]
    for kind, (title, *cells) in zip(("entmax15", "sparsemax", "adaptive"), lines, strict=True):
        own = {row["seed"]: float(row["bleu"]) for row in results.of(kind)}
        assert title == tables.TITLES[kind]
        for seed, cell in zip("012", cells, strict=False):
            assert (cell != "-") == (seed in own), (kind, seed)
            assert cell == "-" or float(cell.split()[0]) == pytest.approx(own[seed] - softmax[seed], abs=0.0075)
        sides = results.of(kind), results.of("softmax")
        assert cells[3:] == [tables.paired_difference(*sides, name, 1, 2) for name in ("bleu", "val_bleu")]


@pytest.mark.parametrize("page", PAGES)
def test_rows_have_their_translations(page):
    folder = FOLDER / PAGES[page]
    kept = {path.name for path in (folder / "outputs").glob("*.txt.xz")}
    assert kept == {f"{row['kind']}-{row['seed']}.txt.xz" for row in rows(folder / "runs.csv")}
    for path in (folder / "outputs").glob("*.txt.xz"):
        assert len(lzma.open(path, "rt", encoding="utf-8", newline="\n").readlines()) == 1000
