"""experiments/text: sets as numbers, trials, runs that take the best of them, and tables of what was found."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.experiments.results import rows

pytest.importorskip("lightning")
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "experiments" / "text"
ALL = """
import sys
sys.path.insert(0, sys.argv.pop(1))
data, cache, out = sys.argv[1:]
import doctest, torch, numpy as np
import human, job, run, sets, training
assert not sum(doctest.testmod(module).failed for module in (human, job, training))
for name in ("imdb", "trec", *sets.HUMAN):
    sets.pack(data, cache, name)
from pathlib import Path
words = sorted({str(word) for file in Path(cache).glob("*.npz") for word in np.load(file)["words"]})
codes = torch.randint(-127, 128, (len(words), 256), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
scale = np.full((len(words), 1), 0.01, np.float16)
np.savez(Path(cache, "vectors.npz"), words=words, vectors=codes.numpy(), scale=scale)
kinds = ["softmax", "combined_sparsemax_32", "transformer"]
sys.argv = ["run.py", "--cache", cache, "--sets", "imdb", "trec", "--kinds", *kinds, "--seeds", "0", "1"]
sys.argv += ["--epochs", "1", "--workers", "1", "--device", "cpu", "--results", out]
assert run.main() == 0 and run.main() == 0
import tables
for name, make in tables.make(Path(out)).items():
    print("TABLE", name, make().replace("\\n", "/"))
import pictures
pictures.draw(run.Files(Path(out)).alphas.rows(), Path(out, "alphas.png"))
"""


def write_sets(folder: Path) -> None:
    (folder / "imdb").mkdir()
    for part in ("train", "test"):
        with (folder / "imdb" / f"{part}.jsonl").open("w") as file:
            for number in range(60):
                text = f"a {('bad', 'good')[number % 2]} film " * 5 + f"number {number}"
                file.write(json.dumps({"id": number, "label": number % 2, "text": text}) + "\n")
    (folder / "sentence_classification").mkdir()
    for part in ("train", "test"):
        lines = [f"{number % 6} what is number {number} of {part} ?" for number in range(60)]
        (folder / "sentence_classification" / f"TREC.{part}.all").write_text("\n".join(lines) + "\n")
    (folder / "yelp_hat").mkdir()
    for name in ("50words", "100words", "200words"):
        with (folder / "yelp_hat" / f"{name}.jsonl").open("w") as file:
            for number in range(6):
                row = {"label": number % 2, "tokens": ["a", ("bad", "good")[number % 2], "film"]}
                file.write(json.dumps({**row, "maps": [[0, 1, 0], [0, 1, 1], [0, 1, 0]]}) + "\n")


@pytest.fixture(scope="module")
def done(tmp_path_factory, warm_processes):
    folder = tmp_path_factory.mktemp("all")
    write_sets(folder)
    out = folder / "results"
    (folder / "cache").mkdir()
    shown = warm_processes.run(["-c", ALL, FOLDER, folder, folder / "cache", out])
    assert shown.returncode == 0, shown.stdout + shown.stderr
    return out, shown.stdout


def test_runs_take_the_settings_that_validated_best(done):
    tried, found = rows(done[0] / "trials.csv"), rows(done[0] / "runs.csv")
    assert len(tried) == 12 + 8 + 4 + 4  # IMDB with softmax and combined, TREC with either encoder
    assert len(found) == 2 * (2 + 3)  # IMDB has no transformer
    for row in found:
        kind = "transformer" if row["kind"] == "transformer" else "softmax"
        if (row["set"], row["kind"]) == ("imdb", "combined_sparsemax_32"):
            kind = "combined_sparsemax_64"  # has settings of its own, for every number of functions
        own = [each for each in tried if (each["set"], each["kind"]) == (row["set"], kind)]
        most = max(float(each["val_accuracy"]) for each in own)
        best = min((e for e in own if float(e["val_accuracy"]) == most), key=lambda each: float(each["val_loss"]))
        assert all(row[name] == best[name] for name in ("start", "rate", "dropout", "freeze"))


def test_rows_say_what_was_measured(done):
    found, rights = rows(done[0] / "runs.csv"), rows(done[0] / "right.csv")
    for row, right in zip(found, rights, strict=True):
        assert [row[key] for key in ("set", "kind", "seed")] == [right[key] for key in ("set", "kind", "seed")]
        assert right["right"].split()[0] == "60"
    same = {row["parameters"] for row in found if row["set"] == "imdb"}
    assert len(same) == 1  # combined attention has no parameters of its own
    human = rows(done[0] / "human.csv")
    assert {(row["subset"], row["texts"]) for row in human} == {
        (name, "6") for name in ("50words", "100words", "200words")
    }
    assert all(0 <= float(row["auc"]) <= 1 and 0 <= float(row["js"]) <= 1 for row in human)
    alphas = rows(done[0] / "alphas.csv")
    assert len(alphas) == 2 * 2 * 4 and all(1 < float(row["alpha"]) < 2 for row in alphas)
    assert (done[0] / "alphas.png").stat().st_size > 5000


def test_tables_have_the_rows(done):
    found = {line.split(" |")[0]: line for line in done[1].splitlines() if line.startswith("TABLE")}
    assert "| discrete softmax |" in found["TABLE paper"] and "90.78" in found["TABLE paper"]
    assert "softmax" in found["TABLE differences"] and "] |" in found["TABLE differences"]


def test_tables_of_the_page_are_those_of_its_rows():
    """What README.md shows is what tables.py makes of results."""
    page = (FOLDER / "README.md").read_text()
    code = "import sys; sys.path.insert(0, sys.argv[1]); import tables, job, json; from pathlib import Path\n"
    code += "print(json.dumps({n: m() for n, m in tables.make(job.HERE / 'results').items()}))"
    shown = subprocess.run([sys.executable, "-c", code, str(FOLDER)], capture_output=True, text=True, check=True)
    for name, made in json.loads(shown.stdout).items():
        assert f"<!-- table {name} -->\n{made}\n<!-- end -->" in page, name
