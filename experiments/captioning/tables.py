"""Print the tables of captions from results/runs.csv: means and standard deviations over seeds.

python experiments/captioning/tables.py
"""

from __future__ import annotations

import sys

from job import HERE, KINDS, SCORES
from run import runs

from omegamax.tasks.tables import mean, table


def main() -> int:
    """Print the scores of captions, then the measures of maps."""
    rows = runs(HERE / "results").rows()
    own = {kind: [row for row in rows if row["kind"] == kind] for kind in KINDS}
    there = {kind: some for kind, some in own.items() if some}
    if not there:
        print("there are no rows yet; run experiments/captioning/run.py", file=sys.stderr)
        return 1
    known = [name for name in SCORES if all(row[name] for some in there.values() for row in some)]
    scores = [[kind, *(mean(some, name) for name in known)] for kind, some in there.items()]
    print(table(["attention", *known], scores))
    print()
    of_maps = {"rep": (1, 2), "js": (1, 2), "zero": (100, 1), "words": (1, 1), "rate": (1, 0)}
    maps = [[kind, *(mean(some, name, *how) for name, how in of_maps.items())] for kind, some in there.items()]
    print(table(["attention", "REP", "JS between words", "without any, %", "words", "words a second"], maps))
    return 0


if __name__ == "__main__":
    sys.exit(main())
