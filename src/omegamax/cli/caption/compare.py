"""``omegamax caption compare``: trained networks in one table, and a page with a map for each word."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.cli import _table
from omegamax.cli._checks import at_least, check_folder
from omegamax.cli._device import move
from omegamax.cli.caption._runs import add_data_arguments, find_settings, name_runs
from omegamax.cli.comparison import describe_networks, fill_table, find_data, write_comparison
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.captioning.compare import CaptionRun
    from omegamax.tasks.captioning.report import CaptionComparison

SUMMARY = "compare captions and attention of trained networks: a table, and a page with a map for each word"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax caption compare``."""
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, with a network, captions, or both")
    add("--out", type=Path, default=Path("comparison"), metavar="FOLDER", help="where to write (comparison)")
    add_data_arguments(parser)
    add("--anew", action="store_true", help="write captions anew where a run has some, and tell how fast")
    add("--examples", type=at_least(0), default=24, metavar="N", help="photographs to show, drawn at random (24)")
    help = "to show beside them whose captions repeat themselves, and that differ most (6)"
    add("--themed", type=at_least(0), default=6, metavar="N", help=help)
    add("--seed", type=at_least(0), default=0, metavar="N", help="of the draw (0)")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Measure, print the table, and write the page."""
    from omegamax.tasks.captioning import CaptionData
    from omegamax.tasks.captioning.compare import compare
    from omegamax.tasks.captioning.runs import find_reader, list_objects, load_network

    check_folder(options.out)
    named = name_runs(options.runs)
    tasks = {name: load_network(path) for name, path in named.items()}
    settings = find_settings(tasks.values())
    changes = {"folder": options.folder} if options.folder else {}
    data = find_data(CaptionData, settings, changes) if settings else None
    runs = {name: _collect(name, path, tasks[name], data, options) for name, path in named.items()}
    comparison = compare(
        runs,
        find_reader(data, options.split, [Path(each) for each in options.pictures])
        if options.examples
        else _no_picture,
        objects=list_objects(data, options.split),
        examples=options.examples,
        themed=options.themed,
        seed=options.seed,
        title="Where networks look while they write",
        about=describe_networks(len(runs), options.split),
        settings={
            **({"data": settings["class"]} if settings else {}),
            "split": options.split,
            "runs": " ".join(map(str, options.runs)),
        },
    )
    write(comparison, options.out)
    return 0


def write(comparison: CaptionComparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.captioning.report import write_report
    from omegamax.tasks.captioning.report.table import columns, difference_columns

    headers, rows = fill_table(comparison.rows, columns(comparison.rows), "attention")
    said = [f"Tokeniser: {comparison.settings['tokeniser']}."] if "tokeniser" in comparison.settings else []
    said += [f"No {names}: {reason}." for names, reason in comparison.missing.items()]
    write_comparison(comparison, write_report, out, headers, rows, "photographs", " ".join(said))
    away = difference_columns(comparison.rows)
    if away:
        first, *others = comparison.rows
        print(f"\nMinus {first.name} on the same photographs, with 95 % intervals; BLEU-4 over words in lower case:\n")
        _table.show(*fill_table(others, away, "attention"))


def _collect(name: str, path: Path, task: Any, data: Any, options: argparse.Namespace) -> CaptionRun:
    """Return the captions of a run, those that it has or new ones, with what else is known of it."""
    from omegamax.data import DataError
    from omegamax.tasks.callbacks import read_curve
    from omegamax.tasks.captioning.compare import CaptionRun
    from omegamax.tasks.captioning.runs import find_captions, write_captions

    kept, rate = None if options.anew and task is not None else find_captions(path), None
    if task is None:
        assert kept is not None  # a run without a network has captions
        return CaptionRun(kept, name.replace(" ", "_"), curve=read_curve(path))
    if kept is None:
        if data is None:
            raise DataError(f"{path} does not say which data it was trained on; train it with omegamax caption fit")
        if task.vocabulary != data.vocabulary:
            raise DataError(f"{name} knows other words than the data; compare networks that were trained on the same")
        move(task, options.device)
        kept, rate = write_captions(task, data, options.split, name)
    count = sum(p.numel() for p in task.parameters())
    return CaptionRun(kept, task.config.attention.kind, count, rate, read_curve(path))


def _no_picture(image: str) -> Any:
    raise AssertionError(f"{image} was not to be shown")
