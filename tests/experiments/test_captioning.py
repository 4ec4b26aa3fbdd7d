"""experiments/captioning: settings that are tried, runs that take the best of them, captions, and tables."""

from __future__ import annotations

import json
import lzma
import shutil
from pathlib import Path

import numpy as np
import pytest
from tests.experiments.results import rows

pytest.importorskip("lightning")
pytestmark = pytest.mark.slow

FOLDER = Path(__file__).parents[2] / "experiments" / "captioning"
FILES = ("runs", "scores")
WORDS = ("a", "dog", "runs", "on", "grass", "cat", "sits")
ALL = """
import sys
sys.path.insert(0, sys.argv.pop(1))
import run, tables, torch
arguments = sys.argv[1:]
for _ in range(2):
    sys.argv = ["run.py", *arguments]
    assert run.main() == 0
sys.argv = ["tables.py", *arguments[-2:]]
assert tables.main() == 0

# A step is one of Adam on the loss of the network.
from job import Place, read
from training import Step
from omegamax.models.captioning import CaptionConfig
from omegamax.tasks.captioning import CaptionTask
data, parts = read(Place(arguments[1] + "/flickr8k", arguments[3], "cpu", 1, "", ""))
def make():
    torch.manual_seed(0)
    return CaptionTask(data.vocabulary, CaptionConfig(image_dim=8)).double().train()
one, two, part = make(), make(), parts["train"]
rows = torch.tensor([0, 3, 5])
width = int(part.lengths[rows].max()) + 2  # filled up by padding
loss = Step(one, part, 1e9, graph=False).run(rows, width)
adam = torch.optim.Adam(two.parameters(), two.rate.peak, two.betas)
features = part.features[part.picture[rows]].double()
wanted = two.model.loss({"features": features, "grid": part.grid, "caption": part.caption[rows, :width]})
wanted.backward()
adam.step()
torch.testing.assert_close(loss, wanted.detach(), rtol=1e-12, atol=1e-12)
for a, b in zip(one.parameters(), two.parameters(), strict=True):
    torch.testing.assert_close(a, b, rtol=1e-9, atol=1e-9)
print("STEP")
"""


def write_set(folder: Path) -> None:
    """Write a set of 90 pictures, four captions each, with features of 2 x 2 cells."""
    draws = np.random.default_rng(0)
    place, features = folder / "flickr8k", folder / "features"
    place.mkdir()
    features.mkdir()
    lines = []
    for part, count in (("train", 70), ("dev", 10), ("test", 10)):
        names = [f"{part}{number}.jpg" for number in range(count)]
        (place / f"Flickr_8k.{part}Images.txt").write_text("\n".join(names) + "\n")
        for image in names:
            said = [" ".join(draws.choice(WORDS, draws.integers(3, 8))) for _ in range(4)]
            lines += [f"{image}#{number}\t{text} ." for number, text in enumerate(said)]
            np.savez(features / f"{image[:-4]}.npz", x=draws.normal(size=(4, 8)).astype(np.float16))
    (place / "Flickr8k.token.txt").write_text("\n".join(lines) + "\n")


@pytest.fixture(scope="module")
def done(tmp_path_factory, warm_processes):
    folder = tmp_path_factory.mktemp("all")
    write_set(folder)
    out = folder / "results"
    given = ["--data", folder, "--features", folder / "features", "--kinds", "softmax", "tvmax", "--seeds", "0", "1"]
    given += ["--epochs", "4", "--dropouts", "0.1", "0.5", "--smoothings", "0.1", "--device", "cpu"]
    given += ["--networks", folder / "networks"]
    shown = warm_processes.run(["-c", ALL, FOLDER, *given, "--results", out])
    assert shown.returncode == 0, shown.stderr
    return out, shown.stdout


def test_every_kind_has_the_settings_that_validated_best(done):
    found = rows(done[0] / "runs.csv")
    first = [row for row in found if row["seed"] == "0"]
    tried = [row for row in first if row["kind"] == "softmax"]
    assert len(tried) == 2 * 2 and len(first) == 4 + 2  # dropouts by rates, then rates of tvmax
    best = max(tried, key=lambda row: float(row["val_bleu4"]))
    assert {row["dropout"] for row in found if row["kind"] == "tvmax"} == {best["dropout"]}
    for kind in ("softmax", "tvmax"):
        own = max((row for row in first if row["kind"] == kind), key=lambda row: float(row["val_bleu4"]))
        (second,) = [row for row in found if row["kind"] == kind and row["seed"] == "1"]
        assert second["peak"] == own["peak"]
    assert all(row["epochs"] == row["best_epoch"] == "4" for row in found)  # the first three are not measured


def test_captions_and_networks_are_kept(done):
    found = rows(done[0] / "runs.csv")
    files = sorted((done[0] / "captions").iterdir())
    assert len(files) == len(found)
    with lzma.open(files[0], "rt") as file:
        lines = [json.loads(line) for line in file]
    assert [line["image"] for line in lines] == [f"test{number}.jpg" for number in range(10)]
    assert all(set(line["caption"].split()) <= set(WORDS) for line in lines)
    from omegamax.tasks.captioning import CaptionTask

    folders = sorted((done[0].parent / "networks").iterdir())
    assert len(folders) == 6 and {file.name for file in folders[0].iterdir()} >= {"model.safetensors", "maps.npz"}
    assert CaptionTask.load(folders[0] / "model.safetensors").label == "softmax"


def test_tables_are_of_the_chosen_rows_and_steps_are_those_of_the_network(done):
    lines = [line for line in done[1].splitlines() if line.startswith("|")]
    assert sum(line.startswith("| softmax |") for line in lines) == 2 + 4  # scores, maps, and what was tried
    assert sum(line.startswith("| tvmax |") for line in lines) == 2 + 2
    assert sum("**" in line for line in lines) == 2  # what was chosen of each
    assert "(n = 2)" in lines[2] and "STEP" in done[1]
    differences = [line for line in lines if line.startswith("| tvmax less softmax |")]
    assert len(differences) == 2 and all("(n = 2)" in line for line in differences)


def test_page_shows_what_the_rows_say(tmp_path, warm_processes):
    page = shutil.copy(FOLDER / "README.md", tmp_path)
    done = warm_processes.run([FOLDER / "tables.py", "--page", page])
    assert done.returncode == 0, done.stderr
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert Path(page).read_text(encoding="utf-8") == text
    for name in ("scores", "differences", "maps", "map differences", "paper", "settings"):
        assert f"<!-- table {name} -->\n|" in text


def test_every_network_has_captions_and_scores():
    keys = ("kind", "seed", "peak", "dropout", "smoothing")
    found, scored = ([[row[key] for key in keys] for row in rows(FOLDER / "results" / f"{n}.csv")] for n in FILES)
    assert sorted(found) == sorted(scored)
    files = {file.name.removesuffix(".jsonl.xz") for file in (FOLDER / "results" / "captions").iterdir()}
    assert files == {"-".join(each) for each in found}
