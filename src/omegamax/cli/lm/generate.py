"""``omegamax lm generate``: texts that go on with prompts."""

from __future__ import annotations

import argparse
import json
import sys
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import IO

from omegamax.cli._checks import TRAIN, CommandError, at_least, check_file, require
from omegamax.cli._device import move
from omegamax.cli.lm._writing import add_truncation_arguments, add_writing_arguments, read_truncation, read_writing

SUMMARY = "go on with texts, by drawing token after token; sparse outputs need nothing cut"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax lm generate``."""
    add = parser.add_argument
    add("prompts", nargs="*", metavar="PROMPT", help="in quotes; without any, texts from their beginning")
    add("--checkpoint", required=True, type=Path, metavar="RUN", help="folder of a run, .ckpt or .safetensors file")
    add("--out", type=Path, metavar="FILE", help="where to write; without one, the standard output")
    add_writing_arguments(parser, 1, 100)
    add("--min-length", type=at_least(0), default=0, metavar="N", help="tokens before which a text does not end (0)")
    add_truncation_arguments(parser)
    help = "keys in a page of the cache, which is read as far as need be: for attention with zeros (all is read)"
    add("--page", type=at_least(1), metavar="N", help=help)
    add("--json", action="store_true", help="a JSON object a line: prompt, text, log-probability, share of pages read")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


def run(options: argparse.Namespace) -> int:
    """Write texts, each after its prompt."""
    require(TRAIN)
    if options.out is not None:
        check_file(options.out)
    import torch

    from omegamax.data import DataError
    from omegamax.tasks.language import LanguageTask, write
    from omegamax.tasks.run_task import load_tasks

    try:
        config = read_writing(
            options, min_length=options.min_length, truncation=read_truncation(options), page=options.page
        )
        task = next(iter(load_tasks(LanguageTask, [options.checkpoint]).values()))
        move(task, options.device)
        generator = torch.Generator(device=task.device).manual_seed(options.seed)
        with ExitStack() as files:
            sink: IO[str] = sys.stdout
            if options.out is not None:
                sink = files.enter_context(options.out.open("w", encoding="utf-8", newline="\n"))
            for prompt in options.prompts or [""]:
                for each in write(task, prompt, config, generator):
                    text = (
                        json.dumps(asdict(each), ensure_ascii=False)
                        if options.json
                        else _join(prompt, each.text, words=not task.vocabulary.of_bytes)
                    )
                    sink.write(f"{text}\n")
                    sink.flush()
    except (DataError, ValueError, FileNotFoundError) as error:
        raise CommandError(str(error)) from error
    return 0


def _join(prompt: str, text: str, words: bool) -> str:
    """Put a text behind its prompt, with a blank where tokens are words, which have none of their own; bytes do."""
    blank = words and prompt and text and not prompt[-1].isspace() and not text[0].isspace() and text[0].isalnum()
    return f"{prompt} {text}" if blank else prompt + text
