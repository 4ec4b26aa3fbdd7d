"""Draw calls of the maps at random and compare them with the reference, until the time is over.

    python -m tests.fuzz --minutes 10
    python -m tests.fuzz --maps entmax k_subsets --device cuda
    python -m tests.fuzz --device interpreter --cases 100000    # Triton's kernels of small shapes, without a GPU
    python -m tests.fuzz --case 123456

On a GPU, and in Triton's interpreter, layers, mixtures, attention and losses are drawn, too.

Each fault is printed with the number of its case, by which it is drawn again, from the same ``--maps`` and for the same
kind of device. The exit status tells whether there were any.
"""

from __future__ import annotations

import argparse
import collections
import math
import random
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext

import torch

from .attending import draw_dropout, draw_fused, draw_paged
from .checks import check
from .continuous import draw_attention, draw_mixture, draw_multimodal
from .draws import Case, draw
from .interpreted import INTERPRETER, interpreted
from .losses import draw_learnt_alpha, draw_long_rows, draw_loss
from .operations import Operation, check_operation

MAPS = (
    *("softmax", "sparsemax", "entmax15", "entmax", "normmax", "k_subsets"),
    *("constrained_softmax", "constrained_sparsemax"),
    *("fusedmax", "tvmax", "graph_fusedmax", "oscarmax", "sequential_k_subsets"),
)
WITHOUT_KERNEL = ("graph_fusedmax", "sequential_k_subsets")  # on a GPU
OPERATIONS: dict[str, Callable[[int, random.Random, torch.Generator], Operation]] = {
    "learnt_alpha": draw_learnt_alpha,
    "long_rows": draw_long_rows,
    "losses": draw_loss,
    "attention": draw_fused,
    "dropout": draw_dropout,
    "paged": draw_paged,
    "continuous": draw_attention,
    "multimodal": draw_multimodal,
    "mixtures": draw_mixture,
}
SHOWN = 3  # faults of a kind that are printed; the others are counted


def main() -> int:
    """Run the command; return its exit status."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__.split("\n")[0])
    parser.add_argument("--minutes", type=float, help="1, unless --cases says how many there are to be")
    parser.add_argument("--cases", type=int, help="how many, at most")
    parser.add_argument("--seed", type=int, default=0, help="the first case")
    parser.add_argument("--case", type=int, help="run this case alone")
    parser.add_argument("--maps", nargs="+", choices=(*MAPS, *OPERATIONS))
    parser.add_argument("--device", default="cpu", help=f"of torch, or {INTERPRETER}")
    args = parser.parse_args()
    args.maps = args.maps or choose_all(args.device)
    args.cases = args.cases or (1 if args.case is not None else math.inf)
    args.minutes = args.minutes or (1.0 if args.cases == math.inf else math.inf)
    warnings.simplefilter("ignore")
    with interpreted() if args.device == INTERPRETER else nullcontext():
        return search(args)


def choose_all(device: str) -> list[str]:
    """Return all maps, or where there may be kernels for a GPU all that have any."""
    if device == "cpu":
        return [*MAPS]
    return [name for name in MAPS if device != INTERPRETER or name not in WITHOUT_KERNEL] + [*OPERATIONS]


def draw_any(seed: int, names: Sequence[str], small: bool) -> Case | Operation:
    """Draw the case of this seed, of one of these maps and operations."""
    name = random.Random(seed).choice(names)
    if name in OPERATIONS:
        return OPERATIONS[name](seed, random.Random(seed), torch.Generator().manual_seed(seed))
    return draw(seed, (name,), small)


def check_any(case: Case | Operation, device: str) -> Iterator[str]:
    """Yield a sentence for each way in which the case is wrong."""
    return check_operation(case, device) if isinstance(case, Operation) else check(case, device)


def search(args: argparse.Namespace) -> int:
    """Draw cases and print their faults; return the exit status."""
    small = args.device == INTERPRETER
    found: collections.Counter[tuple[str, str]] = collections.Counter()
    slowest = (0.0, "")
    end = time.monotonic() + 60 * args.minutes
    seed, count, shown = args.seed if args.case is None else args.case, 0, time.monotonic()
    ran: collections.Counter[str] = collections.Counter()
    while count == 0 or (count < args.cases and time.monotonic() < end):
        case = draw_any(seed + count, args.maps, small)
        began = time.monotonic()
        try:
            faults = list(check_any(case, args.device))
        except Exception as error:
            faults = [f"{type(error).__name__}: {error}"]
        for fault in faults:
            kind = (case.map, fault.split(" ")[0])
            found[kind] += 1
            if found[kind] <= SHOWN:
                print(f"{case}\n    {fault}", flush=True)
        count, ran[case.map] = count + 1, ran[case.map] + 1
        slowest = max(slowest, (time.monotonic() - began, str(case)))
        if sys.stderr.isatty() and time.monotonic() > shown + 1:
            shown = time.monotonic()
            print(f"\r{count} cases, {sum(found.values())} faults ", end="", file=sys.stderr)
    print(f"{count} cases on {args.device}, torch {torch.__version__}")
    print("    " + ", ".join(f"{times} of {name}" for name, times in sorted(ran.items())))
    print(f"    the slowest took {slowest[0]:.1f} s: {slowest[1]}")
    for (name, kind), times in found.most_common():
        print(f"    {times} faults: {name}, {kind}")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
