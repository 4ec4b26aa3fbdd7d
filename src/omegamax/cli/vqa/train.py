"""``omegamax vqa fit | validate | test | predict``."""

from __future__ import annotations

from collections.abc import Sequence

import lightning as L
from lightning.pytorch.cli import LightningArgumentParser

from omegamax.cli._parser import Parser
from omegamax.cli._run import RunCLI, run_stage
from omegamax.cli.vqa._cnn import lacks_cnn, provide_cnn
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
    map_options = "--model.network.transform_options '{...}'"
    monitor = "val_accuracy"

    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        super().add_arguments_to_parser(parser)
        parser.link_arguments("data.vocabulary", "model.vocabulary", apply_on="instantiate")
        parser.set_defaults({"data": {"class_path": "ScenesData"}})

    def before_instantiate_classes(self) -> None:
        super().before_instantiate_classes()
        if self.subcommand != "fit":
            return
        settings = self.config["fit"]
        if lacks_cnn(settings["model"]):
            settings["model"]["cnn"] = provide_cnn(settings)
            seed = settings["seed_everything"]
            if isinstance(seed, int) and not isinstance(seed, bool):
                # As if the file had been given: the saved settings then make the same run.
                L.seed_everything(seed, workers=True, verbose=False)

    def answers(self) -> QuestionAnswers:
        return QuestionAnswers()


def run(stage: str, arguments: Sequence[str]) -> int:
    """Run one of ``STAGES`` with the arguments after it."""
    return run_stage(VQACLI, stage, arguments, STAGES[stage])
