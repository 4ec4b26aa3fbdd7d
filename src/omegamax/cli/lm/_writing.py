"""The arguments of commands that let language models write."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from omegamax.cli._checks import at_least

if TYPE_CHECKING:
    from omegamax.generation import Truncation
    from omegamax.tasks.language import WriteConfig


def add_writing_arguments(parser: argparse.ArgumentParser, samples: int, length: int) -> None:
    """Add how texts are written, with so many samples of so many tokens by default."""
    add = parser.add_argument
    add("--samples", type=at_least(1), default=samples, metavar="N", help=f"texts for each prompt ({samples})")
    add("--max-length", type=at_least(1), default=length, metavar="N", help=f"most tokens of a text ({length})")
    add("--temperature", type=float, default=1.0, metavar="T", help="to divide scores by (1)")
    add("--seed", type=at_least(0), default=0, help="of what is drawn (0)")


def add_truncation_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what predictions may lose before a token is drawn."""
    add = parser.add_argument
    add("--greedy", action="store_true", help="take the most probable token at each step, as --top-k 1")
    add("--top-k", type=at_least(1), metavar="K", help="draw from the K most probable tokens")
    add("--top-p", type=float, metavar="P", help="draw from the fewest tokens that have this probability together")
    add("--min-p", type=float, metavar="P", help="draw from tokens with this share of the largest probability")


def read_truncation(options: argparse.Namespace) -> Truncation:
    """Return what the arguments say of it; ValueError if they make no sense."""
    from omegamax.generation import Truncation

    return Truncation(1 if options.greedy else options.top_k, options.top_p, options.min_p)


def read_writing(options: argparse.Namespace, **more: object) -> WriteConfig:
    """Return what the arguments say of writing; ValueError if they make no sense."""
    from omegamax.tasks.language import WriteConfig

    settings = {"samples": options.samples, "max_length": options.max_length, "temperature": options.temperature}
    return WriteConfig(**settings, **more)  # type: ignore[arg-type]
