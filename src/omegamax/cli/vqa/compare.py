"""``omegamax vqa compare``: trained networks in one table, and a report to look at."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.cli import _table
from omegamax.cli._checks import CommandError, at_least, check_folder
from omegamax.cli._device import move
from omegamax.cli.explanation import drawing

if TYPE_CHECKING:
    from omegamax.tasks.vqa import VQAData
    from omegamax.tasks.vqa.report import Comparison, Row

SUMMARY = "compare trained networks: a table, and a page with curves and maps to look at"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa compare``."""
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, .ckpt or .safetensors files")
    add("--baseline", type=Path, metavar="RUN", help="a network trained with --model.blind true (one among the others)")
    add("--out", type=Path, default=Path("comparison"), metavar="FOLDER", help="where to write (comparison)")
    add("--split", choices=["val", "test"], default="test", help="part of the data to measure on (test)")
    add("--folder", metavar="FOLDER", help="of the data, if it is not where it was in training")
    add("--features", metavar="FOLDER", help="of the features, likewise")
    add("--pictures", metavar="FOLDER|ZIP", help="that features were made of, to draw maps on (those beside the data)")
    add("--human", metavar="FOLDER", help="of human attention maps, VQA-HAT, to compare with")
    add("--examples", type=at_least(0), default=24, metavar="N", help="to draw (24)")
    add("--themed", type=at_least(0), default=3, metavar="N", help="to pick beside them, for each thing to show (3)")
    add("--rounds", type=at_least(0), default=10, metavar="N", help="training steps of each to time; 0 for none (10)")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


def run(options: argparse.Namespace) -> int:
    """Measure, draw, print the table, and write the report."""
    with drawing():
        return _compare(options)


def _compare(options: argparse.Namespace) -> int:
    from omegamax.data import DataError
    from omegamax.tasks.vqa.compare import BLIND, compare, load_contenders

    check_folder(options.out)
    runs = load_contenders(options.runs)
    given = None if options.baseline is None else load_contenders([options.baseline])
    baseline = runs.pop(BLIND, None) if given is None else next(iter(given.values()))
    if not runs:
        raise DataError(f"{options.runs[0]} sees no picture; give networks that do, and this one as --baseline")
    settings = next(iter(runs.values())).task.data_settings
    if not settings:
        raise DataError(f"{options.runs[0]} does not say which data it was trained on; train it with omegamax vqa fit")
    named = ("folder", "features", "pictures", "human")
    changes = {name: getattr(options, name) for name in named if getattr(options, name)}
    if options.pictures and not Path(options.pictures).exists():
        raise CommandError(f"--pictures {options.pictures} does not exist; give a folder or a zip archive")
    data = _data(settings, changes)
    for each in (*runs.values(), *([baseline] if baseline else [])):
        move(each.task, options.device)
    comparison = compare(
        runs,
        data,
        split=options.split,
        baseline=baseline,
        examples=options.examples,
        themed=options.themed,
        rounds=options.rounds,
        title=f"Attention on {settings['class'].removesuffix('Data')}",
        about=f"{len(runs)} networks on the {options.split} part.",
        settings={"data": settings["class"], "split": options.split, "runs": " ".join(map(str, options.runs))},
    )
    write(comparison, options.out)
    return 0


def _data(settings: dict[str, Any], changes: dict[str, str]) -> VQAData:
    from omegamax.tasks.vqa import VQAData

    # A file may be older than a setting of its class.
    known = VQAData.known().get(settings["class"])
    names = settings if known is None else {**settings, **inspect.signature(known).parameters}
    strange = [name for name in changes if name not in names]
    if strange:
        raise CommandError(f"{settings['class']} has no {strange[0]}; leave --{strange[0]} out")
    return VQAData.of(settings, **changes)


def write(comparison: Comparison, out: Path) -> None:
    """Print the table, write ``report.html`` and ``comparison.json``, and say where they are."""
    from omegamax.tasks.vqa.report import summarise, write_report

    out.mkdir(parents=True, exist_ok=True)
    show(comparison)
    said = summarise(comparison)
    if said:
        print(f"\n{textwrap.fill(said, 100)}")
    comparison.save(out / "comparison.json")
    print(f"\nThe report, with curves and maps to look at: {write_report(comparison, out / 'report.html')}")


def show(comparison: Comparison) -> None:
    """Print the table in the terminal."""
    kinds = list(comparison.rows[0].accuracy)
    headers = ["attention", *kinds, "parameters", "ms/step", "JS (bits)", "inside", "zeros", "components K*"]
    rows = [*comparison.rows, *([comparison.baseline] if comparison.baseline else [])]
    _table.show(headers, [_cells(row, kinds) for row in rows])


def _cells(row: Row, kinds: list[str]) -> list[str]:
    histogram = "  ".join(f"{k}: {n}" for k, n in (row.components or {}).items())
    return [
        row.name,
        *(_number(row.accuracy.get(kind), ".3f") for kind in kinds),
        f"{row.parameters:,}",
        _number(row.step_ms, ".1f"),
        *(_number(value, ".3f") for value in (row.divergence, row.inside, row.zero)),
        histogram or "-",
    ]


def _number(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)
