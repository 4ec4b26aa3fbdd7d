"""The ``omegamax`` command."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from omegamax import __version__
from omegamax.cli import cite, demo, maps, tour
from omegamax.cli._errors import CommandError
from omegamax.cli._group import STAGES
from omegamax.cli.mil import group as mil
from omegamax.cli.vqa import group as vqa

TRAINING = ("lightning", "jsonargparse", "PIL", "rich", "safetensors", "torchmetrics")
EXTRA = {"matplotlib": "omegamax[viz]", **dict.fromkeys(TRAINING, "omegamax[train]")}
GROUPS = {"vqa": vqa, "mil": mil}
COMMANDS = {"demo": demo, **GROUPS, "tour": tour, "maps": maps, "cite": cite}


def parser() -> argparse.ArgumentParser:
    """The parser of the whole command line."""
    top = argparse.ArgumentParser(
        prog="omegamax", description="Every sparse, structured and continuous alternative to softmax, for PyTorch."
    )
    top.add_argument("--version", action="version", version=f"omegamax {__version__}")
    commands = top.add_subparsers(title="commands", dest="command", metavar="COMMAND", required=True)
    for name, module in COMMANDS.items():
        command = commands.add_parser(name, help=module.SUMMARY, description=module.SUMMARY)
        command.set_defaults(run=module.run, parser=command)
        module.add_arguments(command)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns its exit code, 2 for a request that makes no sense."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if len(arguments) > 1 and arguments[0] in GROUPS and arguments[1] in STAGES:
        return GROUPS[arguments[0]].run_stage(arguments[1], arguments[2:])  # Lightning's parser reads the rest
    options = parser().parse_args(arguments)
    try:
        return options.run(options)
    except CommandError as error:
        print(f"omegamax {options.command}: error: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    except ImportError as error:
        # Our own messages say how to get what is missing; those of the import system do not.
        package = (error.name or "").partition(".")[0]
        remedy = f": pip install '{EXTRA[package]}'" if package in EXTRA else ""
        print(f"omegamax {options.command}: {error}{remedy}", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # `omegamax maps | head` closes the pipe early; nothing is wrong.
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    sys.exit(main())
