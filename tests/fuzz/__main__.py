"""Draw calls of the maps at random and compare them with the reference, until the time is over.

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --maps entmax k_subsets --device cuda
    python -m tests.fuzz --device interpreter           # Triton's kernels of small rows, without a GPU
    python -m tests.fuzz --case 123456

Each fault is printed with the number of its case, by which it is drawn again, from the same ``--maps`` and for the same
kind of device. The exit status tells whether there were any.
"""

from __future__ import annotations

import argparse
import collections
import sys
import time
import warnings
from contextlib import nullcontext

import torch

from .checks import check
from .draws import draw
from .interpreted import INTERPRETER, interpreted

MAPS = (
    *("softmax", "sparsemax", "entmax15", "entmax", "normmax", "k_subsets"),
    *("constrained_softmax", "constrained_sparsemax"),
    *("fusedmax", "tvmax", "graph_fusedmax", "oscarmax", "sequential_k_subsets"),
)
SHOWN = 3  # faults of a kind that are printed; the others are counted


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--maps", nargs="+", choices=MAPS, default=MAPS)
    parser.add_argument("--device", default="cpu", help=f"of torch, or {INTERPRETER}")
    args = parser.parse_args()
    warnings.simplefilter("ignore")
    with interpreted() if args.device == INTERPRETER else nullcontext():
        return search(args)


def search(args: argparse.Namespace) -> int:
    """Draw cases and print their faults; return the exit status."""
    small = args.device == INTERPRETER
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest = (0.0, "")
    end = time.monotonic() + 60 * args.minutes
    seed, count, shown = args.seed if args.case is None else args.case, 0, time.monotonic()
    while count == 0 or (args.case is None and time.monotonic() < end):
        case = draw(seed + count, tuple(args.maps), small)
        began = time.monotonic()
        try:
            faults = list(check(case, args.device))
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        for fault in faults:
            kind = (case.map, fault.split(" ")[0])
            found[kind] += 1
            if found[kind] <= SHOWN:
                print(f"{case}\n    {fault}", flush=True)
        count += 1
        slowest = max(slowest, (time.monotonic() - began, str(case)))
        if sys.stderr.isatty() and time.monotonic() > shown + 1:
            shown = time.monotonic()
            left = max(0, int(end - shown))
            print(f"\r{count} cases, {sum(found.values())} faults, {left} s left ", end="", file=sys.stderr)
    print(f"{count} cases of {', '.join(args.maps)} on {args.device}, torch {torch.__version__}")
    print(f"    the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    for (name, kind), times in found.most_common():
        print(f"    {times} faults: {name}, {kind}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
