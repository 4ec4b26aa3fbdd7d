"""What the pages say in words of the speed on a CPU is in the rows."""

from __future__ import annotations

import csv
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAPS = ("sparsemax", "entmax15")


def test_questions_have_the_range_of_the_rows():
    with (ROOT / "benchmarks" / "results" / "transforms_cpu.csv").open(encoding="utf-8", newline="") as file:
        rows = {(row["map"], row["what"], int(row["K"])): row for row in csv.DictReader(file)}
    ours = {key: row for key, row in rows.items() if key[0].removeprefix("omegamax ") in MAPS and key[2] >= 32}
    over = [float(row["over_softmax"]) for row in ours.values()]
    times = [
        float(rows[name.replace("omegamax", "entmax"), what, length]["median_us"]) / float(row["median_us"])
        for (name, what, length), row in ours.items()
    ]
    page = " ".join((ROOT / "docs" / "questions.md").read_text(encoding="utf-8").split())
    said = re.search(r"take (\S+) to (\S+) times as long as `torch.softmax`.*? takes (\d+) to (\d+) times as", page)
    assert said is not None
    assert said.groups() == (f"{min(over)}", f"{max(over)}", f"{min(times):.0f}", f"{max(times):.0f}")
