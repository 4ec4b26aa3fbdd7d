"""The ``omegamax`` command."""

from __future__ import annotations

import argparse
import itertools
import os
import signal
import sys
from collections.abc import Mapping, Sequence

from omegamax import __version__
from omegamax.cli import cite, demo, features, kernels, maps, play, tour
from omegamax.cli._checks import CommandError, os_reason
from omegamax.cli._stop import Stopped, raise_on_signals
from omegamax.cli._warnings import show_plainly
from omegamax.cli.application import Application
from omegamax.cli.caption.application import CAPTION
from omegamax.cli.lm.application import LM
from omegamax.cli.mil.application import MIL
from omegamax.cli.text.application import TEXT
from omegamax.cli.translate.application import TRANSLATE
from omegamax.cli.vqa.application import VQA

APPLICATIONS = {application.name: application for application in (VQA, CAPTION, MIL, TEXT, TRANSLATE, LM)}
COMMANDS = {
    "demo": demo,
    "tour": tour,
    "play": play,
    "features": features,
    "maps": maps,
    "kernels": kernels,
    "cite": cite,
}


def parser(arguments: Sequence[str], applications: Mapping[str, Application]) -> argparse.ArgumentParser:
    """Make the parser of the command line, with the arguments of the command that is asked for."""
    top = argparse.ArgumentParser(
        prog="omegamax", description="Every sparse, structured and continuous alternative to softmax, for PyTorch."
    )
    top.add_argument("--version", action="version", version=f"omegamax {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        command.set_defaults(run=module.run, parser=command)
        if name in arguments[:1]:
            module.add_arguments(command)
    for name, application in applications.items():
        group = commands.add_parser(name, help=application.summary, description=application.summary)
        application.add_arguments(group, arguments[1:] if name in arguments[:1] else ())
    return top


def main(arguments: Sequence[str] | None = None, applications: Mapping[str, Application] = APPLICATIONS) -> int:
    """Run one command and return its exit status.

    It is 2 for a request that makes no sense, 1 for what went wrong on the way, 130 after Ctrl-C and 143 after a
    request to terminate.

    Args:
        arguments: of the command line; None: those of this process.
        applications: by name; others than those of the library, for a program of one's own.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = " ".join(itertools.takewhile(lambda word: not word.startswith("-"), arguments[:2]))
    try:
        with raise_on_signals(), show_plainly(name):
            if (
                len(arguments) > 1
                and arguments[0] in applications
                and arguments[1] in applications[arguments[0]].stages
            ):
                # Lightning's parser reads the rest.
                return applications[arguments[0]].run_stage(arguments[1], arguments[2:])
            options = parser(arguments, applications).parse_args(arguments)
            name = options.command
            return options.run(options)
    except (Stopped, KeyboardInterrupt) as stop:
        stop = stop if isinstance(stop, Stopped) else Stopped(signal.SIGINT)
        return _tell(f"\nomegamax {name}: {stop.message}", stop.status)
    except CommandError as error:
        return _tell(f"omegamax {name}: error: {' '.join(str(error).split())}", error.status)
    except ImportError as error:
        return _tell(f"omegamax {name}: {' '.join(str(error).split())}", 1)
    except BrokenPipeError:
        # `omegamax maps | head` closes the pipe early; nothing is wrong.
        sys.stderr.close()
        return 0
    except OSError as error:
        if os.environ.get("OMEGAMAX_TRACEBACK"):
            raise
        return _tell(f"omegamax {name}: error: {os_reason(error)}", 1)


def _tell(line: str, status: int) -> int:
    """Print a line to the error stream; return the status."""
    print(line, file=sys.stderr)
    return status


if __name__ == "__main__":
    sys.exit(main())
