"""Print the tables of captions from results/*.csv: means and standard deviations over seeds.

    python experiments/captioning/tables.py

Of each kind, the rows with the rate, the dropout and the smoothing that were best for the validation part.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from job import HERE, KEYS, KINDS
from run import best, runs
from score import SCORES, scores

from omegamax.tasks.tables import mean, paired_difference, table

SETTINGS = KEYS[2:]


def chosen(folder: Path) -> dict[str, list[dict[str, str]]]:
    """Return the rows of each kind, those with the best settings, with their scores where they are known."""
    rows, known = runs(folder).rows(), {tuple(row[key] for key in KEYS): row for row in scores(folder).rows()}
    found: dict[str, list[dict[str, str]]] = {}
    for kind in KINDS:
        own = [row for row in rows if row["kind"] == kind]
        if own:
            first = min(int(row["seed"]) for row in own)
            same = best(rows, kind, first, SETTINGS)
            own = [row for row in own if all(float(row[key]) == value for key, value in same.items())]
            found[kind] = [{**known.get(tuple(row[key] for key in KEYS), {}), **row} for row in own]
    return found


def main() -> int:
    """Print the scores of captions, then the measures of maps, then what was chosen."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    there = chosen(parser.parse_args().results)
    if not there:
        print("there are no rows yet; run experiments/captioning/run.py", file=sys.stderr)
        return 1
    known = [name for name in SCORES if all(row.get(name) for some in there.values() for row in some)]
    shown = known or ["bleu1", "bleu2", "bleu3", "bleu4"]
    last = "BLEU-4" if known else "bleu4"
    first = next(iter(there))
    lines = [
        [
            kind,
            *(mean(some, name) for name in shown),
            paired_difference(some, there[first], last) if kind != first else "",
        ]
        for kind, some in there.items()
    ]
    print(table(["attention", *shown, f"{last} minus that of {first}"], lines))
    print()
    of_maps = {"rep": (1, 2), "js": (1, 2), "zero": (100, 1), "words": (1, 1), "seconds": (1, 0)}
    maps = [[kind, *(mean(some, name, *how) for name, how in of_maps.items())] for kind, some in there.items()]
    print(table(["attention", "REP", "JS between words", "without any, %", "words", "seconds of training"], maps))
    print()
    settings = [
        [kind, *(some[0][key] for key in SETTINGS), mean(some, "best_epoch", 1)] for kind, some in there.items()
    ]
    print(table(["attention", *SETTINGS, "best epoch"], settings))
    return 0


if __name__ == "__main__":
    sys.exit(main())
