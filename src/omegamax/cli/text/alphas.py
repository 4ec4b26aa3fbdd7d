"""``omegamax text alphas``: where the alphas of a transformer's heads went."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from omegamax.cli.alphas import SUMMARY as SUMMARY
from omegamax.cli.alphas import HeadAlphas, show_alphas
from omegamax.cli.alphas import add_arguments as add_arguments
from omegamax.cli.explanation import explain_runs

if TYPE_CHECKING:
    from omegamax.tasks.text import TextTask

TASK = "omegamax.tasks.text:TextTask"


def run(options: argparse.Namespace) -> int:
    """Print the alphas of each layer, and draw them."""
    return explain_runs(
        TASK, options.runs, options.out, lambda tasks: show_alphas({name: _read(name, t) for name, t in tasks.items()})
    )


def _read(name: str, task: TextTask) -> HeadAlphas:
    values = task.model.alphas
    if values is None:
        remedy = "train one with --model.network.encoder transformer"
        raise ValueError(f"{name} has no heads whose alphas are learnt; {remedy}")
    return HeadAlphas(values.detach().cpu(), task.config.alpha)
