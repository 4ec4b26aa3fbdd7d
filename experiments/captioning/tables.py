"""Make the tables of captions from results/*.csv: means and standard deviations over seeds, and differences.

    python experiments/captioning/tables.py
    python experiments/captioning/tables.py --page experiments/captioning/README.md
    python experiments/captioning/tables.py --results results/small --page small.md

Of each kind, the rows with the rate, the dropout and the smoothing that were best for the validation part.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from job import HERE, KEYS, KINDS
from run import best, runs
from score import SCORES, scores

from omegamax.tasks.tables import fill, mean, paired_difference, table

Rows = Sequence[dict[str, str]]
SETTINGS = KEYS[2:]
TITLES = {kind: kind.replace("_", " ") for kind in KINDS} | {"entmax15": "entmax 1.5", "multimodal": "2-MCA"}
MAPS = ("rep", "js", "zero", "words")
HEADS = {"rep": "REP, %", "js": "JS between words", "zero": "cells without attention, %", "words": "words"}
HOW = {"CIDEr": (1, 3), "rep": (1, 2), "js": (1, 2), "zero": (100, 1), "words": (1, 1)}  # factor, digits
PERCENT = (100, 1)
# Table 1 and Section 4 of the paper: MS-COCO, Flickr30k.
PAPER = {
    "BLEU-4": {"softmax": ("29.9", "19.9"), "sparsemax": ("31.5", "20.7"), "tvmax": ("29.9", "20.5")},
    "METEOR": {"softmax": ("24.9", "19.1"), "sparsemax": ("25.3", "19.3"), "tvmax": ("25.1", "19.0")},
    "ROUGE-L": {"softmax": ("52.9", "44.2"), "sparsemax": ("53.5", "44.3"), "tvmax": ("53.1", "44.2")},
    "CIDEr": {"softmax": ("0.967", "0.443"), "sparsemax": ("0.990", "0.444"), "tvmax": ("0.974", "0.438")},
    "rep": {"softmax": ("3.76", "6.09"), "sparsemax": ("3.69", "5.84"), "tvmax": ("3.17", "3.97")},
    "js": {"softmax": ("0.12", "-"), "sparsemax": ("0.29", "-"), "tvmax": ("0.34", "-")},
    "zero": {"softmax": ("-", "-"), "sparsemax": ("34", "-"), "tvmax": ("25", "-")},
}


def read(folder: Path) -> list[dict[str, str]]:
    """Return all rows with their scores, empty ones where they are not known."""
    known = {tuple(row[key] for key in KEYS): row for row in scores(folder).rows()}
    empty = dict.fromkeys(SCORES, "")
    return [{**empty, **known.get(tuple(row[key] for key in KEYS), {}), **row} for row in runs(folder).rows()]


def chosen(rows: Rows) -> dict[str, Rows]:
    """Return the rows of each kind, those with the best settings."""
    found: dict[str, Rows] = {}
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if own:
            same = best(own, kind, min(int(row["seed"]) for row in own), SETTINGS)
            found[kind] = [row for row in own if all(float(row[key]) == value for key, value in same.items())]
    return found


def show(there: Mapping[str, Rows], names: Sequence[str]) -> str:
    """Return a table of means."""
    lines = [
        [TITLES[kind], *(mean(some, each, *HOW.get(each, PERCENT)) for each in names)] for kind, some in there.items()
    ]
    return table(["attention", *(HEADS.get(each, each) for each in names)], lines)


def differ(rows: Rows, others: Rows, name: str) -> str:
    """Return the difference of two kinds with its interval, and the number of seeds where it is not three."""
    scale, digits = HOW.get(name, PERCENT)
    pairs = {row["seed"] for row in rows if row[name]} & {row["seed"] for row in others if row[name]}
    found = paired_difference(rows, others, name, scale, digits if name == "CIDEr" else 2)
    return found if len(pairs) in (0, 1, 3) else f"{found} (n = {len(pairs)})"  # of one it says so itself


def compare(there: Mapping[str, Rows], names: Sequence[str]) -> str:
    """Return a table of differences: all kinds less the first, and tvmax less sparsemax."""
    first, *others = there
    pairs = [(kind, first) for kind in others]
    if "sparsemax" in others and "tvmax" in others:
        pairs.append(("tvmax", "sparsemax"))
    lines = [
        [f"{TITLES[kind]} less {TITLES[other]}", *(differ(there[kind], there[other], each) for each in names)]
        for kind, other in pairs
    ]
    return table(["difference", *(HEADS.get(each, each) for each in names)], lines)


def beside(there: Mapping[str, Rows]) -> str:
    """Return the paper's numbers beside ours."""
    lines = []
    for name, theirs in PAPER.items():
        cells = [(mean(there.get(kind, []), name, *HOW.get(name, PERCENT)), *pair) for kind, pair in theirs.items()]
        lines.append([HEADS.get(name, name), *(each for three in cells for each in three)])
    heads = [f"{kind}, {whose}" for kind in PAPER["js"] for whose in ("ours", "MS-COCO", "Flickr30k")]
    return table(["measure", *heads], lines)


def try_out(rows: Rows) -> str:
    """Return what was tried with the first seed of each kind; in bold what was chosen, where there was a choice."""
    lines = []
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        first = [row for row in own if int(row["seed"]) == min(int(each["seed"]) for each in own)]
        for row in first:
            highest = max(first, key=lambda each: float(each["val_bleu4"]))
            value = mean([row], "val_bleu4", seeds=None)
            lines.append(
                [
                    TITLES[kind],
                    *(row[key] for key in SETTINGS),
                    f"{row['best_epoch']} of {row['epochs']}",
                    f"**{value}**" if row is highest and len(first) > 1 else value,
                    mean([row], "BLEU-4" if row["BLEU-4"] else "bleu4", seeds=None),
                ]
            )
    heads = ["rate", "dropout", "smoothing", "best epoch", "validation BLEU-4", "test BLEU-4"]
    return table(["attention", *heads], lines)


def make(folder: Path) -> dict[str, str]:
    """Return the tables by name."""
    rows = read(folder)
    there = chosen(rows)
    known = [name for name in SCORES if all(row[name] for some in there.values() for row in some)]
    shown = known or ["bleu1", "bleu2", "bleu3", "bleu4"]
    return {
        "scores": show(there, shown),
        "differences": compare(there, shown[3:]),
        "maps": show(there, MAPS),
        "map differences": compare(there, MAPS[:2]),
        "paper": beside(there),
        "settings": try_out(rows),
    }


def main() -> int:
    """Print the tables, or fill the page that has a place for them."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, help="with places for the tables; without it they are printed")
    options = parser.parse_args()
    if not runs(options.results).rows():
        print("there are no rows yet; run experiments/captioning/run.py", file=sys.stderr)
        return 1
    made = make(options.results)
    if options.page is None:
        print("\n\n".join(made.values()))
    else:
        page = options.page.read_text(encoding="utf-8")
        fill(options.page, {name: each for name, each in made.items() if f"<!-- table {name} -->" in page})
    return 0


if __name__ == "__main__":
    sys.exit(main())
