"""``omegamax caption rate``: a page on which people rate captions, and where networks looked for each word."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli._checks import CommandError
from omegamax.cli.caption._runs import add_data_arguments, find_settings, name_runs
from omegamax.cli.comparison import find_data
from omegamax.cli.explanation import drawing
from omegamax.cli.rating import add_arguments as add_shared_arguments
from omegamax.cli.rating import check_page, write_rating

SUMMARY = "make a page on which people rate captions and attention, without their knowing whose they are"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax caption rate``."""
    add_shared_arguments(parser, "folders of runs with captions, as `omegamax caption predict` writes them")
    add_data_arguments(parser)


@drawing()
def run(options: argparse.Namespace) -> int:
    """Read the captions, and write the page."""
    from omegamax.tasks.captioning import CaptionData
    from omegamax.tasks.captioning.rating import survey_captions
    from omegamax.tasks.captioning.runs import find_captions, find_reader, load_network

    check_page(options.out)
    runs = {}
    for name, path in name_runs(options.runs).items():
        found = find_captions(path)
        if found is None:
            advice = "write them with `omegamax caption predict`"
            raise CommandError(f"{path} has no captions, or some that are older than its network; {advice}")
        runs[name] = found
    settings = {} if options.pictures else find_settings(map(load_network, options.runs))
    changes = {"folder": options.folder} if options.folder else {}
    data = find_data(CaptionData, settings, changes) if settings else None
    read = find_reader(data, options.split, [Path(each) for each in options.pictures])
    write_rating(
        survey_captions(runs, read, options.images, options.seed), options.images, options.out, "caption ratings"
    )
    return 0
