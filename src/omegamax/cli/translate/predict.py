"""``omegamax translate predict``: a line for each line, of a file or of the standard input."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omegamax.cli._checks import TRAIN, CommandError, at_least, check_file, require
from omegamax.cli._device import move

if TYPE_CHECKING:
    from omegamax.tasks.translation import SearchConfig, Translation, TranslationTask

SUMMARY = "translate a file, or what is typed or piped in: a line for each line"
_AT_ONCE = 256  # lines that are read before they are translated
_ALL = 10_000  # width of a beam that is to list all there are


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax translate predict``."""
    add = parser.add_argument
    add("file", nargs="?", type=Path, metavar="FILE", help="with a sentence a line; without one, the standard input")
    add("--checkpoint", required=True, type=Path, metavar="RUN", help="folder of a run, .ckpt or .safetensors file")
    add("--out", type=Path, metavar="FILE", help="where to write; without one, the standard output")
    add("--beam", type=at_least(1), default=5, metavar="N", help="sentences that a search follows; 1 is greedy (5)")
    add("--length-penalty", type=float, default=0.0, metavar="A", help="power of the length to divide scores by (0)")
    add("--max-length", type=at_least(1), default=200, metavar="N", help="most subwords of a translation (200)")
    add("--nbest", type=at_least(1), default=1, metavar="N", help="translations of each; more than 1 as JSON (1)")
    add("--samples", type=at_least(0), default=0, metavar="N", help="draw so many instead of searching (0)")
    add("--temperature", type=float, default=1.0, metavar="T", help="to divide scores by (1)")
    add("--seed", type=at_least(0), default=0, help="of what is drawn (0)")
    add("--all", action="store_true", help="all translations with any probability, where they can be listed, as JSON")
    add("--json", action="store_true", help="a JSON object a line: translations, log-probabilities, what is proven")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


def run(options: argparse.Namespace) -> int:
    """Translate line by line, and write a line for each."""
    require(TRAIN)
    _check_files(options.file, options.out)
    if options.samples and (options.all or options.nbest > 1):
        other = "--all" if options.all else "--nbest"
        raise CommandError(f"--samples draws in place of a search; leave out {other}, which is of one")
    from omegamax.data import DataError
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.translation import SearchConfig, TranslationTask

    try:
        beam = max(options.beam, options.nbest, _ALL if options.all else 1)
        numbers = {"length_penalty": options.length_penalty, "temperature": options.temperature}
        search = SearchConfig(beam, max_length=options.max_length, samples=options.samples, **numbers)
        task = next(iter(load_tasks(TranslationTask, [options.checkpoint]).values()))
        if options.all and not task.model.output.sparse:
            given = f"the {task.config.output.label} of {options.checkpoint}"
            raise CommandError(f"--all needs an output with exact zeros, and {given} has none; give --nbest N")
        move(task, options.device)
        with ExitStack() as files:
            source: IO[str] = sys.stdin
            if options.file is not None:
                source = files.enter_context(options.file.open(encoding="utf-8", errors="replace", newline="\n"))
            elif hasattr(source, "reconfigure"):
                source.reconfigure(encoding="utf-8", errors="replace", newline="\n")
            sink: IO[str] = sys.stdout
            if options.out is not None:
                options.out.parent.mkdir(parents=True, exist_ok=True)
                sink = files.enter_context(options.out.open("w", encoding="utf-8", newline="\n"))
            _translate(task, source, sink, search, options)
    except (DataError, ValueError, FileNotFoundError) as error:
        raise CommandError(str(error)) from error
    return 0


def _check_files(source: Path | None, out: Path | None) -> None:
    """Refuse what cannot be read or written, and to write over what is still to be read."""
    if source is not None and not source.exists():
        raise CommandError(f"{source} does not exist; check the path")
    if source is not None and source.is_dir():
        raise CommandError(f"{source} is a folder; give a file with a sentence a line")
    if out is None:
        return
    check_file(out)
    if source is not None and out.exists() and out.samefile(source):
        raise CommandError(f"--out must be another file than {source}, which is read; give a new name")


def _translate(
    task: TranslationTask, source: IO[str], sink: IO[str], search: SearchConfig, options: argparse.Namespace
) -> None:
    import torch

    from omegamax.tasks.translation import translate

    generator = torch.Generator(device=task.device).manual_seed(options.seed)
    returned = search.beam if options.all else options.nbest
    as_json = options.json or options.all or options.nbest > 1 or options.samples > 1
    number = cut = 0
    for lines in _read(source):
        for translation in translate(task, lines, search, returned, generator=generator):
            number += 1
            if translation.cut:
                cut += 1
                print(f"line {number:,}: the last {translation.cut:,} subwords were not read", file=sys.stderr)
            text = json.dumps(_describe(translation), ensure_ascii=False) if as_json else translation.text
            sink.write(f"{text}\n")
        sink.flush()


def _read(source: IO[str]) -> Iterator[list[str]]:
    """Yield lines, many at a time from a file or a pipe, one by one from a terminal."""
    most = 1 if source.isatty() else _AT_ONCE
    while lines := [line.rstrip("\n") for line in islice(source, most)]:
        yield lines


def _describe(found: Translation) -> dict[str, Any]:
    """Return what is known of a line, as plain data."""
    hypotheses = [
        {"text": each.text, "log_prob": each.log_prob, "finished": each.finished} for each in found.hypotheses
    ]
    return {"translations": hypotheses, "exact": found.exact, "complete": found.complete}
