"""Train and measure: the sorting task with every kind of memory, for several lengths and seeds.

    python experiments/memory/run.py                                     # all that has no row yet
    python experiments/memory/run.py --lengths 1024 --segment 128 --slots 16 --steps 1500   # small, for a CPU
    python experiments/memory/run.py --kinds signal --seeds 0 --results /tmp/again

Rows are added to ``results/runs.csv`` as they are done; what is there is not run again. No data are needed.
"""

from __future__ import annotations

import argparse
import sys
from functools import partial
from itertools import product

from job import HERE, KEYS, Place, run, runs_of
from network import KINDS

from omegamax.tasks.experiment import Arguments, tell_end


def parse() -> argparse.Namespace:
    """Read the command line."""
    parser = Arguments(__doc__, HERE / "results", workers=1, needs_data=False)
    add = parser.add_argument
    add("--lengths", nargs="+", type=int, default=[4096, 8192, 16384], help="multiples of the segment")
    add("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    add("--segment", type=int, default=512, help="symbols that are read at once (512)")
    add("--slots", type=int, default=64, help="vectors, or coefficients, of a memory (64)")
    add("--steps", type=int, default=5000, help="of training (5000)")
    add("--batch", type=int, default=32, help="sequences in a step (32)")
    add("--rate", type=float, default=1e-3, help="of learning, at most (0.001)")
    add("--test", type=int, default=800, help="sequences to measure with (800)")
    add("--plain", action="store_true", help="no CUDA graphs")
    options = parser.parse_args()
    if any(length % options.segment for length in options.lengths):
        parser.error(f"--lengths must be multiples of the segment, {options.segment}")
    return options


def main() -> int:
    """Run what has no row yet."""
    options = parse()
    place = Place(options.device, options.steps, options.batch, options.rate, options.test, options.plain)
    grid = product(options.seeds, options.lengths, options.kinds)
    jobs = [
        dict(zip(KEYS, (length, options.segment, options.slots, kind, seed), strict=True))
        for seed, length, kind in grid
    ]
    table = runs_of(options.results)
    work = partial(run, place=place)
    return tell_end(table, table.run(jobs, work, options.workers, partial(print, flush=True), options.seconds))


if __name__ == "__main__":
    sys.exit(main())
