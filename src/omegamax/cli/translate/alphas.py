"""``omegamax translate alphas``: where the alphas of a transformer's heads went."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

from omegamax.cli.alphas import SUMMARY as SUMMARY
from omegamax.cli.alphas import HeadAlphas, show_alphas
from omegamax.cli.alphas import add_arguments as add_arguments
from omegamax.cli.explanation import Explanation, explain_runs

if TYPE_CHECKING:
    from omegamax.tasks.translation import TranslationTask

TASK = "omegamax.tasks.translation:TranslationTask"
_PARTS = {"encoder": "encoder", "decoder": "decoder, its own words", "source": "decoder, the source"}


def run(options: argparse.Namespace) -> int:
    """Print the alphas of each layer, and draw them."""
    return explain_runs(TASK, options.runs, options.out, _show)


def _show(tasks: dict[str, TranslationTask]) -> Explanation:
    found = {}
    for name, task in tasks.items():
        for part, alphas in _read(name, task).items():
            found[f"{name}: {part}" if len(tasks) > 1 else part] = alphas
    return show_alphas(found)


def _read(name: str, task: TranslationTask) -> dict[str, HeadAlphas]:
    from omegamax.models.translation import TransformerTranslator

    values = task.model.alphas if isinstance(task.model, TransformerTranslator) else None
    if values is None or not task.config.learn_alpha:
        remedy = "train one with --model.network.attention entmax --model.network.learn_alpha true"
        raise ValueError(f"{name} has no heads whose alphas are learnt; {remedy}")
    start = float(task.config.attention_options.get("alpha", 1.5))
    return {_PARTS[part]: HeadAlphas(alphas.detach().cpu(), start) for part, alphas in values.items()}
