"""The experiment on language runs from end to end, on sizes of a few seconds."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
HERE = Path(__file__).parents[3] / "experiments" / "language"


def read(path: Path) -> list[dict[str, str]]:
    return list(csv.DictReader(path.read_text().splitlines()))


@pytest.mark.long
def test_rows_tables_and_page_are_made(tmp_path, warm_processes):
    def run(*arguments: object) -> None:
        done = warm_processes.run(arguments)
        assert done.returncode == 0, done.stderr

    folder = tmp_path / "language"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("results", "__pycache__"))
    reviews = [{"id": i, "label": i % 2, "text": f"Film {i} was good, and long. " * 30} for i in range(60)]
    for part in ("train", "test"):
        (tmp_path / f"{part}.jsonl").write_text("".join(json.dumps(each) + "\n" for each in reviews))
    tokens = tmp_path / "tokens.npz"
    run(folder / "corpus.py", "--data", tmp_path, "--out", tokens, "--size", 300)
    small = ("--device", "cpu", "--seeds", 0, "--batch", 2, "--steps", 2)
    text = ("--tokens", tokens, "--length", 128, "--dim", 128, "--test", 4)
    run(folder / "run.py", *small, *text, "--outputs", "softmax", "learnt")
    run(folder / "run.py", *small, *text, "--outputs", "entmax15", "--attention", "entmax15")
    lengths = ("--length", 8, "--longest", 2, "--dim", 32, "--test", 4, "--tasks", "sort", "recall")
    run(folder / "length.py", *small, *lengths)
    run(folder / "memory.py", *small, "--tokens", tokens, "--length", 128, "--dim", 32, "--test", 4)
    rows = {name: read(folder / "results" / f"{name}.csv") for name in ("runs", "length", "memory")}
    assert {row["decoding"] for row in rows["runs"]} == {"none", "greedy", "top-k", "nucleus", "min-p"}
    assert len(rows["length"]) == 2 * 5 * 2 and len(rows["memory"]) == 6 * 2
    run(folder / "pages.py", *small, "--alphas", 1.5, "--length", 32, "--keys", 24, 40)
    run(folder / "tables.py")
    page = (folder / "README.md").read_text()
    assert "| softmax, greedy |" in page and "| recall by keys up to 8: entmax15 |" in page and "| everything |" in page
    assert "| trained, alpha 1.5 |" in page and (folder / "results" / "heads.png").stat().st_size > 5000
    assert "pages to be read" in page and (folder / "results" / "length.png").stat().st_size > 5000
    run(folder / "page.py", "--vocabulary", tokens.with_suffix(".json"), "--out", tmp_path / "report.html")
    assert "How they go on" in (tmp_path / "report.html").read_text()
