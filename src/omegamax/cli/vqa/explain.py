"""``omegamax vqa explain``: answers to one question, and a picture of where they were read from."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from omegamax.cli._checks import CommandError, at_least
from omegamax.cli.explanation import Explanation, add_checkpoint, explain_runs

if TYPE_CHECKING:
    from matplotlib.figure import Figure
    from torch import Tensor

    from omegamax.data import Sample
    from omegamax.tasks.vqa import VQATask
    from omegamax.tasks.vqa.explain import VQAExplanation

SUMMARY = "ask trained networks about a picture: their answers, and where each looked"
TASK = "omegamax.tasks.vqa:VQATask"
_SHARP = 1000  # pixels along a side that a panel can show


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of ``omegamax vqa explain``."""
    add = parser.add_argument
    add("image", type=Path, metavar="IMAGE", help="a picture; or features, .npz or .pth, for networks that want them")
    add("question", metavar="QUESTION", help='in quotes, "what colour is the star?"')
    add_checkpoint(parser)
    add(
        "--picture",
        type=Path,
        metavar="FILE",
        help="what to draw on where IMAGE is features (that of the data, or grey)",
    )
    add("--out", type=Path, default=Path("where.png"), metavar="PNG", help="the picture (where.png)")
    add("--top", type=at_least(1), default=3, metavar="N", help="answers to tell of each (3)")


def run(options: argparse.Namespace) -> int:
    """Ask, print the answers, and write the picture."""
    return explain_runs(TASK, options.runs, options.out, lambda tasks: _ask(tasks, options))


def _ask(tasks: dict[str, VQATask], options: argparse.Namespace) -> Explanation:
    from omegamax.data import tokenise
    from omegamax.tasks.vqa.explain import explain, find_unknown_words

    if not tokenise(options.question):
        raise CommandError(f'the question {options.question!r} has no words; ask one, "what colour is the star?"')
    sample = _sample(options.image, options.question)
    for name, task in tasks.items():
        strange = find_unknown_words(task, options.question)
        if strange:
            print(f"{name}: words it was not trained with: {', '.join(strange)}", file=sys.stderr)
    said = {name: explain(task, sample, options.top) for name, task in tasks.items()}
    rows = [[name, *(f"{answer} {p:.2f}" for answer, p in each.answers)] for name, each in said.items()]
    width = max(map(len, rows))
    ranks = ["answer", *(f"{rank}." for rank in range(2, width))]
    looked = {name: each for name, each in said.items() if not tasks[name].blind}
    figure = _draw(sample, looked, *_picture(sample, looked, tasks, options.picture)) if looked else None
    return Explanation(
        ["attention", *ranks], [row + [""] * (width - len(row)) for row in rows], figure, "Where they looked"
    )


def _sample(path: Path, question: str) -> Sample:
    from omegamax.data import Sample
    from omegamax.data.pictures import read_picture
    from omegamax.data.vqa2 import read_features

    if path.suffix in (".npz", ".pth"):
        stems = (path.stem, Path(path.stem).stem)  # of picture.npz, and of picture.jpg.npz
        cells, boxes = read_features(path)
        return Sample(question, {}, "other", str(path), features=cells, pictures=stems, boxes=boxes)
    return Sample(question, {}, "other", str(path), image=read_picture(path))


def _picture(
    sample: Sample, looked: Iterable[str], tasks: Mapping[str, VQATask], given: Path | None
) -> tuple[Tensor, str]:
    """Return what to draw on, and its heading: a file, what the sample has, or the picture in the data of a network."""
    from omegamax.data.pictures import read_picture, shrink
    from omegamax.tasks.vqa import VQAData
    from omegamax.tasks.vqa.photographs import Photographs

    if given is not None:
        return shrink(read_picture(given), _SHARP), "picture"
    if sample.image is not None:
        return shrink(sample.image, _SHARP), "picture"
    settings = [tasks[name].data_settings for name in looked]
    # A set of somebody's own may not be known here.
    sources = [VQAData.of(each).photographs for each in settings if each.get("class") in VQAData.known()]
    found = [photographs.of(sample, _SHARP) for photographs in (*sources, Photographs([]))]
    image, note = next((each for each in found if each.note is None), found[0])
    if note is not None:
        print(f"{note}; give the picture with --picture", file=sys.stderr)
    return image, "picture" if note is None else "no picture found"


def _draw(sample: Sample, said: Mapping[str, VQAExplanation], image: Tensor, heading: str) -> Figure:
    from omegamax import viz
    from omegamax.tasks.vqa.photographs import PALE

    looks = {name: each.look for name, each in said.items()}
    return viz.looks(
        image,
        looks,
        question=sample.question,
        answers={name: f"{each.answers[0][0]} ({each.answers[0][1]:.2f})" for name, each in said.items()},
        index=0,
        heading=heading,
        vmax=viz.shared_vmax(looks, index=0, least=PALE),
    )
