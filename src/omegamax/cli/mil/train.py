"""``omegamax mil fit | validate | test | predict``."""

from __future__ import annotations

from collections.abc import Sequence

from lightning.pytorch.cli import LightningArgumentParser

from omegamax.cli._parser import Parser
from omegamax.cli._run import RunCLI, run_stage
from omegamax.tasks.callbacks import Answers
from omegamax.tasks.mil import BagsData, MILTask

STAGES = {
    "fit": "train a network",
    "validate": "measure a trained network on the bags for validation",
    "test": "measure a trained network on the bags for test",
    "predict": "classify the bags for test, with the weights of their instances, into answers.json in the run's folder",
}


class MILParser(Parser):
    """The parser, which knows the sets of bags."""

    def sets(self) -> Sequence[str]:
        return tuple(BagsData.known())


class MILCLI(RunCLI):
    """Runs of multiple-instance learning."""

    task, data, parser_type = MILTask, BagsData, MILParser
    epochs = 50
    map_options = "--model.options '{...}'"
    monitor = "val_auc"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        super().add_arguments_to_parser(parser)
        parser.link_arguments("data.features", "model.features", apply_on="instantiate")
        parser.set_defaults({"data": {"class_path": "MNISTBagsData"}, "trainer.gradient_clip_val": 1.0})

    def answers(self) -> Answers:
        return Answers(asked="bags")


def run(stage: str, arguments: Sequence[str]) -> int:
    """Run one of ``STAGES`` with the arguments after it."""
    return run_stage(MILCLI, stage, arguments, STAGES[stage])
