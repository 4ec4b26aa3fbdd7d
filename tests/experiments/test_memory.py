"""The sorting task with memories of constant size: its data, its networks, its rows, and the page that shows them."""

from __future__ import annotations

import argparse
import csv
import json
import shutil
from collections import Counter
from pathlib import Path

import pytest
import torch
from tests.experiments.scripts import import_scripts

FOLDER = Path(__file__).parents[2] / "experiments" / "memory"
OWN = ("sequences", "network", "job", "run", "resolution", "documents", "tables")


@pytest.fixture(scope="module")
def scripts():
    with import_scripts(FOLDER, OWN) as found:
        yield found


def test_symbols_are_sorted_as_a_counter_does(scripts):
    sequences = scripts["sequences"].draw_sequences(30, 40, torch.Generator().manual_seed(0))
    for sequence, found in zip(sequences.tolist(), scripts["sequences"].sort_symbols(sequences).tolist(), strict=True):
        wanted = [symbol for symbol, _ in Counter(sequence).most_common()]
        assert found == wanted + [symbol for symbol in range(20) if symbol not in wanted]


def test_distributions_drift_from_one_to_another(scripts):
    generator = torch.Generator().manual_seed(0)
    sequences = scripts["sequences"].draw_sequences(200, 400, generator)
    assert sequences.shape == (200, 400) and sequences.min() == 0 and sequences.max() == 19
    counts = torch.nn.functional.one_hot(sequences, 20).float().unflatten(1, (4, 100)).mean(2)  # [200, quarters, 20]
    apart = [(counts[:, 0] - counts[:, k]).square().sum(-1).mean().item() for k in (1, 2, 3)]
    assert apart[0] < apart[1] < apart[2]


def test_predictions_do_not_see_what_comes_next(scripts):
    torch.manual_seed(0)
    for kind in scripts["network"].KINDS:
        network = scripts["network"].Sorter(kind, segment=8, slots=4, dim=8, heads=2).eval()
        sequences, told = torch.randint(20, (2, 32)), torch.stack([torch.randperm(20), torch.randperm(20)])
        other = told.clone()
        other[:, 10:] = told[:, 10:].flip(-1)
        first, second = network(sequences, told), network(sequences, other)
        torch.testing.assert_close(first[:, :11], second[:, :11], rtol=1e-5, atol=1e-5)
        assert not torch.allclose(first[:, 12:], second[:, 12:], atol=1e-3)


def test_only_memories_see_what_is_long_ago(scripts):
    torch.manual_seed(0)
    for kind in scripts["network"].KINDS:
        network = scripts["network"].Sorter(kind, segment=8, slots=4, dim=8, heads=2).eval()
        sequences, told = torch.randint(20, (2, 32)), torch.stack([torch.randperm(20), torch.randperm(20)])
        other = sequences.clone()
        other[:, :8] = (other[:, :8] + 7) % 20
        blind = torch.equal(network(sequences, told), network(other, told))
        assert blind == (kind in ("none", "cache")), kind


def test_counting_everything_is_right(scripts):
    assert scripts["job"].count_last(64, 64, test=20) == 1.0
    assert scripts["job"].count_last(256, 16, test=20) < 0.5


def test_row_is_written_once(tmp_path, warm_processes):
    arguments = (
        "--lengths 32 --segment 16 --slots 4 --steps 2 --batch 2 --test 4 --seeds 0 --kinds signal cache".split()
    )
    for _ in range(2):
        done = warm_processes.run([FOLDER / "run.py", *arguments, "--device", "cpu", "--results", tmp_path])
        assert done.returncode == 0, done.stderr
    with (tmp_path / "runs.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [row["kind"] for row in rows] == ["signal", "cache"] and all(0 <= float(r["accuracy"]) <= 1 for r in rows)


def test_reviews_have_rows_and_a_table_of_both_kinds(scripts, tmp_path):
    documents = scripts["documents"]
    folder = tmp_path / "imdb"
    folder.mkdir()
    # Lengths of all four ranges, and words that say which class it is.
    for part, copies in (("train", 10), ("test", 1)):
        reviews = [
            {"id": i, "label": i % 2, "text": ("good " if i % 2 else "bad ") * size}
            for i, size in enumerate((9, 9, 300, 300, 500, 500, 900, 900) * copies)
        ]
        (folder / f"{part}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reviews))
    documents.write_words(str(tmp_path), 1000, 4, tmp_path / "words.npz")
    sizes = {"longest": 1000, "steps": 2, "batch": 4, "rate": 0.01, "test": 4, "device": "cpu"}
    sizes["words"] = tmp_path / "words.npz"
    rows = [
        {name: str(value) for name, value in row.items()}
        for layer in documents.LAYERS
        for row in documents.run({"layer": layer, "seed": 0, "words_from": 0}, argparse.Namespace(**sizes))
    ]
    assert [row["words_from"] for row in rows] == ["0", "200", "400", "800"] * 2
    assert all(row["reviews"] == "2" for row in rows)
    written = scripts["tables"].documents_table(rows)
    assert "between words, accuracy" in written and "| 200 to 399 |" in written and "| 800 or more |" in written


@pytest.mark.parametrize("kind", ["none", "cache"])
def test_what_is_never_looked_at_is_not_read(scripts, kind):
    torch.manual_seed(0)
    network = scripts["network"].Sorter(kind, 4, 6, dim=16).eval()
    sequences = torch.randint(20, (2, 32))
    wanted = scripts["sequences"].sort_symbols(sequences)
    found, network.reach = network(sequences, wanted), None
    torch.testing.assert_close(found, network(sequences, wanted))


@pytest.mark.parametrize("layer", ["functions", "positions"])
def test_padding_of_reviews_changes_nothing(scripts, layer):
    torch.manual_seed(0)
    network = scripts["documents"].Reviewer(layer, 20, dim=8, heads=2, layers=1).eval()
    words, lengths = torch.randint(1, 20, (2, 70)), torch.tensor([40, 70])
    padded = words.clone()
    padded[0, 40:] = 0
    both = network(padded, lengths)
    torch.testing.assert_close(both[:1], network(words[:1, :40], lengths[:1]), rtol=1e-4, atol=1e-5)


def test_page_shows_what_the_rows_say(tmp_path, warm_processes):
    page = shutil.copy(FOLDER / "README.md", tmp_path)
    done = warm_processes.run([FOLDER / "tables.py", page])
    assert done.returncode == 0, done.stderr
    assert Path(page).read_text(encoding="utf-8") == (FOLDER / "README.md").read_text(encoding="utf-8")
