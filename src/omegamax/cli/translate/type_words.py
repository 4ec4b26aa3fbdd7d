"""``omegamax translate type``: a page on this machine in which the words that can follow are seen and taken."""

from __future__ import annotations

import argparse
import signal
import webbrowser
from pathlib import Path

from omegamax.cli._checks import TRAIN, CommandError, at_least, require
from omegamax.cli._device import move
from omegamax.cli._stop import Stopped

SUMMARY = "translate with a network: see all words that can follow what you typed, and only those, and take one"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate type``."""
    add = parser.add_argument
    add("source", nargs="?", default="", metavar="TEXT", help="a sentence to begin with")
    add("--checkpoint", required=True, type=Path, metavar="RUN", help="folder of a run, .ckpt or .safetensors file")
    add("--port", type=at_least(0), default=0, metavar="N", help="of the page; 0: any that is free (0)")
    add("--most", type=at_least(1), default=200, metavar="N", help="words to list (200)")
    add("--no-browser", action="store_true", help="open no browser, only say where the page is")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


def run(options: argparse.Namespace) -> int:
    """Serve the page until Ctrl-C."""
    require(TRAIN)
    from omegamax.data import DataError
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.translation import TranslationTask
    from omegamax.tasks.translation.typing import TypingServer

    try:
        task = next(iter(load_tasks(TranslationTask, [options.checkpoint]).values()))
        move(task, options.device)
        server = TypingServer(task, str(options.checkpoint), options.port, options.source, options.most)
    except (DataError, OSError, OverflowError, ValueError) as error:
        raise CommandError(str(error)) from error
    with server:
        print(f"the page is at {server.address}; Ctrl-C ends it", flush=True)
        if not options.no_browser:
            webbrowser.open(server.address)
        try:
            server.serve_forever()
        except Stopped as stopped:
            if stopped.number != signal.SIGINT:
                raise
            print()
    return 0
