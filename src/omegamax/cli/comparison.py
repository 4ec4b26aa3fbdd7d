"""The part that every ``compare`` shares: its arguments, the data, and what is printed and written."""

from __future__ import annotations

import argparse
import inspect
import textwrap
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegamax.cli import _table
from omegamax.cli._checks import CommandError, at_least, check_folder
from omegamax.cli._device import move

if TYPE_CHECKING:
    from omegamax.tasks.report.contenders import Contender, Kind


def add_arguments(parser: argparse.ArgumentParser, examples: str) -> None:
    """Add the arguments that all have: networks, where to write, and on what to measure.

    Args:
        examples: what ``--examples`` asks for.
    """
    add = parser.add_argument
    add("runs", nargs="+", type=Path, metavar="RUN", help="folders of runs, .ckpt or .safetensors files")
    add("--out", type=Path, default=Path("comparison"), metavar="FOLDER", help="where to write (comparison)")
    add("--split", choices=["val", "test"], default="test", help="part of the data to measure on (test)")
    add("--folder", metavar="FOLDER", help="of the data, if it is not where it was in training")
    add("--examples", type=at_least(0), default=24, metavar="N", help=f"{examples} (24)")
    add("--rounds", type=at_least(0), default=10, metavar="N", help="training steps of each to time; 0 for none (10)")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


def find_data(kind: type[Any], settings: Mapping[str, Any], changes: Mapping[str, str]) -> Any:
    """Return the data that a network was trained on, with these settings changed; refuse one that it does not have.

    Args:
        kind: of the data, a subclass of :class:`~omegamax.tasks.run_data.RunData`.
    """
    # A file may be older than a setting of its class.
    known = kind.known().get(settings["class"])
    names = settings if known is None else {**settings, **inspect.signature(known).parameters}
    strange = [name for name in changes if name not in names]
    if strange:
        raise CommandError(f"{settings['class']} has no {strange[0]}; leave --{strange[0]} out")
    return kind.of(settings, **changes)


def find_trained_data(kind: type[Any], run: object, task: Any, changes: Mapping[str, Any]) -> Any:
    """Return the data that a network was trained on, see :func:`find_data`; refuse a network that does not say.

    Args:
        run: where the network is, for the message.
        task: the network.
        changes: settings; those that are None or empty were not given.
    """
    if not task.data_settings:
        remedy = f"train it with omegamax {task.kind} fit"
        raise CommandError(f"{run} does not say which data it was trained on; {remedy}")
    return find_data(kind, task.data_settings, {name: value for name, value in changes.items() if value})


def load_compared(kind: type[Kind], options: argparse.Namespace) -> tuple[dict[str, Contender[Kind]], Any]:
    """Load the networks that are compared, by name, on their device, and the data that the first was trained on.

    Args:
        kind: of the networks.
    """
    from omegamax.tasks.report import load_contenders

    check_folder(options.out)
    runs = load_contenders(kind, options.runs)
    first = next(iter(runs.values())).task
    data = find_trained_data(kind.data_type, options.runs[0], first, {"folder": options.folder})
    for each in runs.values():
        move(each.task, options.device)
    return runs, data


def shared_settings(runs: Mapping[str, Any], data: Any, options: argparse.Namespace) -> dict[str, Any]:
    """Return the arguments that every ``compare`` has: what is measured, and what the page says of it."""
    depends = {"data": type(data).__name__, "split": options.split, "runs": " ".join(map(str, options.runs))}
    about = describe_networks(len(runs), options.split)
    chosen = {name: getattr(options, name) for name in ("split", "examples", "rounds")}
    return {**chosen, "about": about, "settings": depends}


def describe_networks(count: int, split: str) -> str:
    """Say how many networks are compared on what.

    >>> describe_networks(1, "test")
    '1 network on the test part.'
    """
    return f"{count} network{'s' if count > 1 else ''} on the {split} part."


def write_comparison(
    comparison: Any,
    write_report: Callable[[Any, Path], Path],
    out: Path,
    headers: Sequence[str],
    rows: Sequence[Sequence[str]],
    what: str,
    said: str = "",
) -> None:
    """Print the table and what it shows, write ``comparison.json`` and ``report.html``, and say where they are.

    Args:
        comparison: to be saved.
        write_report: writes its page to a path.
        what: there is to look at in the page.
        said: in words; may be empty.
    """
    out.mkdir(parents=True, exist_ok=True)
    _table.show(headers, rows)
    if said:
        print(f"\n{textwrap.fill(said, 100)}")
    comparison.save(out / "comparison.json")
    print(f"\nThe report, with curves and {what} to look at: {write_report(comparison, out / 'report.html')}")


def fill_table(rows: Sequence[Any], columns: Sequence[Any], first: str) -> tuple[list[str], list[list[str]]]:
    """Return headers and cells of the table of a page, for a terminal.

    Args:
        columns: of the page, a :class:`~omegamax.tasks.report.table.Column` each.
        first: header of the names.
    """
    cells = [[row.name, *(column.shown(row).replace("\u2013", "-") for column in columns)] for row in rows]
    return [first, *(column.title for column in columns)], cells


def show_number(value: float | None, form: str) -> str:
    """Write a number for the table, a hyphen if it is not known.

    >>> show_number(0.5, ".3f"), show_number(None, ".3f")
    ('0.500', '-')
    """
    return "-" if value is None else format(value, form)
