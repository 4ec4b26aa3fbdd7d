"""``fit | validate | test | predict`` of an application as a command, with what it tells the user."""

from __future__ import annotations

import json
import os
import shlex
import signal
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from lightning.pytorch.utilities.exceptions import MisconfigurationException, SIGTERMException

from omegamax.cli._checks import CommandError, os_reason
from omegamax.cli._config import guard_imports
from omegamax.cli._program import program
from omegamax.cli._run import RunCLI, SaveConfig, parser_for
from omegamax.cli._stop import Stopped, advise_on_stop
from omegamax.cli.application import Application
from omegamax.data.errors import printable
from omegamax.tasks.finite import NotFiniteError
from omegamax.tasks.quiet import quiet


def run_stage(application: Application, stage: str, arguments: Sequence[str]) -> int:
    """Run ``fit`` or its like with the arguments after it; 2 if they, or the files they name, make no sense.

    With the environment variable ``OMEGAMAX_TRACEBACK`` set, such an error is shown with the line it came from.
    """
    name = application.name
    full = "--help.full" in arguments
    if full:
        arguments = ["--help"]
    try:
        advised = advise_on_stop(lambda: _advice(name, stage, arguments))
        with quiet(), guard_imports(), _command_line([name, stage, *arguments]), advised:
            done = RunCLI(
                application,
                stage=stage,
                seed_everything_default=0,
                save_config_callback=SaveConfig,
                parser_class=parser_for(application, full),
                parser_kwargs={
                    "prog": f"omegamax {name}",
                    "default_env": False,
                    stage: _help(name, stage, application.stages[stage]),
                },
                args=[stage, *arguments],
            )
    except SIGTERMException:
        raise Stopped(signal.SIGTERM, _advice(name, stage, arguments)) from None
    except NotFiniteError as error:
        remedy = "the last checkpoint stays as it was; try a lower rate, or --trainer.gradient_clip_val 1"
        print(f"omegamax {name} {stage}: error: {error}, and training stopped; {remedy}", file=sys.stderr)
        return 1
    except (CommandError, ValueError, OSError, MisconfigurationException) as error:
        if os.environ.get("OMEGAMAX_TRACEBACK") or isinstance(error, BrokenPipeError):
            raise
        print(f"omegamax {name} {stage}: error: {_reason(error)}", file=sys.stderr)
        return error.status if isinstance(error, CommandError) else 2
    if stage == "fit" and done.trainer.is_global_zero:
        _tell_results(done)
    return 0


def _advice(name: str, stage: str, arguments: Sequence[str]) -> str:
    """Tell how to go on after a stop: the same command, from the last checkpoint if one was written."""
    if stage != "fit":
        return "nothing was written"
    given = iter(arguments)
    same = []
    for word in given:
        if word == "--ckpt_path":
            next(given, None)
        elif not word.startswith("--ckpt_path="):
            same.append(word)
    return f"go on with: {program()} {shlex.join([name, stage, *same, '--ckpt_path', 'last'])}"


def _tell_results(done: RunCLI) -> None:
    """Say how good the network is, where the files of the run are, and what to do with them."""
    out, name, monitor = Path(done.trainer.default_root_dir), done.application.name, done.application.monitor
    if (out / "curve.json").is_file():
        points = json.loads((out / "curve.json").read_text(encoding="utf-8"))
        known = [point for point in reversed(points) if monitor in point]  # of equal ones the last
        best = max(known, key=lambda p: p[monitor], default=None)
        if best is not None:
            print(f"best {monitor}: {best[monitor]:.3f}, after {best['step']} steps")
    if (out / "model.safetensors").is_file():
        print(f"The network is in {out / 'model.safetensors'}; checkpoints, curve.json and config.yaml are beside it.")
    if (out / "config.yaml").is_file():
        config = shlex.quote(str(out / "config.yaml"))
        print(f"Measure it on the test part: {program()} {name} test --config {config}")


def _help(name: str, stage: str, what: str) -> dict[str, str]:
    """Return what a command does, and how it is called, which would fill a page if every setting were named."""
    how = "[--config FILE ...] [--out FOLDER] [--data CLASS] [--data.NAME VALUE ...] [--model.NAME VALUE ...] ..."
    return {"description": f"{what.capitalize()}.", "usage": f"omegamax {name} {stage} {how}"}


def _reason(error: BaseException) -> str:
    """Return the message on one line; of an argument that was tried as one type after the other, that of the first."""
    if isinstance(error, OSError):
        return os_reason(error)
    while str(error).startswith("Does not validate against any of the Union subtypes") and error.__cause__:
        error = error.__cause__
    return printable(" ".join(str(error).split()))


@contextmanager
def _command_line(arguments: list[str]) -> Iterator[None]:
    """Let processes that Lightning starts for other devices run the same command; they read it from here."""
    before = sys.argv
    sys.argv = [before[0], *arguments]
    try:
        yield
    finally:
        sys.argv = before
