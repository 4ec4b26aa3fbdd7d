"""The part that every ``explain`` shares: load networks, show what they say in a table, write a picture."""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from omegamax.cli import _table
from omegamax.cli._checks import TRAIN, CommandError, check_file, check_picture, require
from omegamax.cli.application import load

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_DPI = 140


class Explanation(NamedTuple):
    """What is shown of networks that were asked: a table, and a picture or a page with a title, if there is one.

    Attributes:
        figure: the picture, or a function that writes a page to a path.
    """

    headers: Sequence[str]
    rows: Sequence[Sequence[str]]
    figure: Figure | Callable[[Path], object] | None
    title: str


def add_checkpoint(parser: argparse.ArgumentParser) -> None:
    """Add the argument that names trained networks."""
    parser.add_argument(
        "--checkpoint",
        dest="runs",
        nargs="+",
        required=True,
        type=Path,
        metavar="RUN",
        help="networks: folders of runs, .ckpt or .safetensors files",
    )


def explain_runs(
    task: str, runs: Sequence[Path], out: Path, ask: Callable[[dict[str, Any]], Explanation], page: bool = False
) -> int:
    """Load trained networks, ask them, print the table and write the picture; return the exit status.

    Args:
        task: class of the networks, ``"module:name"``.
        runs: folders of runs, or files of networks.
        out: the picture; without a suffix, a PNG file.
        ask: from the networks by name to what is shown.
        page: whether ``ask`` gives a page, and ``out`` is an HTML file.
    """
    with drawing():
        from omegamax.tasks.run_task import load_tasks

        out = out if out.suffix else out.with_suffix(".png")
        check_file(out) if page else check_picture(out)
        with warnings.catch_warnings():
            warnings.filterwarnings("always", "omegamax.viz: no installed font has", UserWarning)
            said = ask(load_tasks(load(task), runs))
        _table.show(said.headers, said.rows)
        if said.figure is not None:
            out.parent.mkdir(parents=True, exist_ok=True)
            if callable(said.figure):
                said.figure(out)
            else:
                save_figure(said.figure, out)
            print(f"\n{said.title}: {out}")
    return 0


def save_figure(figure: Figure, path: Path) -> None:
    """Write a picture, and forget it."""
    from omegamax.viz.style import pyplot

    figure.savefig(path, dpi=_DPI)
    pyplot().close(figure)


@contextmanager
def drawing() -> Iterator[None]:
    """Draw without a screen, and refuse in a line what cannot be read."""
    require(TRAIN)
    from omegamax.data import DataError
    from omegamax.viz.style import pyplot

    pyplot().switch_backend("agg")
    try:
        yield
    except (DataError, OSError, ValueError) as error:
        raise CommandError(str(error)) from error
