"""``omegamax vqa rate``: a page on which people rate answers, and where networks looked for them."""

from __future__ import annotations

import argparse

from omegamax.cli._device import move
from omegamax.cli.comparison import find_trained_data
from omegamax.cli.explanation import drawing
from omegamax.cli.rating import add_arguments as add_shared_arguments
from omegamax.cli.rating import check_page, write_rating

SUMMARY = "make a page on which people rate answers and attention, without their knowing whose they are"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa rate``."""
    add_shared_arguments(parser, "networks: folders of runs, .ckpt or .safetensors files")
    add = parser.add_argument
    add("--split", choices=["val", "test"], default="test", help="part of the data to take pictures from (test)")
    add("--folder", metavar="FOLDER", help="of the data, if it is not where it was in training")
    add("--features", metavar="FOLDER", help="of the features, if they are not where they were in training")
    add("--pictures", metavar="FOLDER|ZIP", help="that features were made of (those beside the data)")
    add("--device", default="cpu", help="cpu, cuda, ... (cpu)")


@drawing()
def run(options: argparse.Namespace) -> int:
    """Ask the networks, and write the page."""
    from omegamax.tasks.run_task import load_tasks
    from omegamax.tasks.vqa import VQAData, VQATask
    from omegamax.tasks.vqa.rating import survey_answers

    check_page(options.out)
    tasks = load_tasks(VQATask, options.runs)
    changes = {name: getattr(options, name) for name in ("folder", "features", "pictures")}
    data = find_trained_data(VQAData, options.runs[0], next(iter(tasks.values())), changes)
    for task in tasks.values():
        move(task, options.device)
    survey = survey_answers(tasks, data, options.images, options.seed, options.split)
    write_rating(survey, options.images, options.out, "vqa ratings")
    return 0
