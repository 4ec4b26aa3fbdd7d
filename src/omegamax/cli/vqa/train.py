"""``omegamax vqa fit | validate | test | predict``."""

from __future__ import annotations

from collections.abc import Sequence

from lightning.pytorch.cli import LightningArgumentParser

from omegamax.cli._parser import Parser
from omegamax.cli._run import RunCLI, run_stage
from omegamax.tasks.vqa import VQAData, VQATask
from omegamax.tasks.vqa.answers import QuestionAnswers

STAGES = {
    "fit": "train a network",
    "validate": "measure answers and maps of a trained network on the validation part",
    "test": "measure answers and maps of a trained network on the test part",
    "predict": "answer the questions of the test part, into answers.json in the run's folder",
}


class VQAParser(Parser):
    """The parser, which knows the sets of questions."""

    def sets(self) -> Sequence[str]:
        return tuple(VQAData.known())


class VQACLI(RunCLI):
    """Runs of visual question answering."""

    task, data, parser_type = VQATask, VQAData, VQAParser
    epochs = 13  # as in the papers
    monitor = "val_accuracy"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        super().add_arguments_to_parser(parser)
        parser.link_arguments("data.vocabulary", "model.vocabulary", apply_on="instantiate")
        parser.set_defaults({"data": {"class_path": "ScenesData"}})

    def answers(self) -> QuestionAnswers:
        return QuestionAnswers()


def run(stage: str, arguments: Sequence[str]) -> int:
    """Run one of ``STAGES`` with the arguments after it."""
    return run_stage(VQACLI, stage, arguments, STAGES[stage])
