"""The scripts of the gallery run and end in one figure, and have the form that a gallery is built from."""

import ast
import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

from omegamax.tasks import steps

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*/plot_*.py"))
LONG = {  # train networks
    "plot_anneal",
    "plot_bags",
    "plot_caption_strip",
    "plot_possible_words",
    "plot_rationale_length",
    "plot_where_words_come_from",
    "plot_words_with_density",
}
STEPS = 20  # of a training by a trainer of ours
# By default, one of each folder.
QUICK = {script.parent: script for script in reversed(SCRIPTS) if script.stem not in LONG}.values()
CASES = [pytest.param(script, id=script.stem, marks=() if script in QUICK else pytest.mark.slow) for script in SCRIPTS]


@pytest.mark.parametrize("script", CASES)
def test_gallery_script_ends_in_one_figure(script, monkeypatch):
    matplotlib.use("agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    # Nobody looks at the figure here: that of a network that has hardly learnt anything is a figure, too.
    make = steps.make_trainer
    monkeypatch.setattr(steps, "make_trainer", lambda count, *more: make(min(count, STEPS), *more))
    threads = torch.get_num_threads()
    try:
        runpy.run_path(str(script))
    finally:
        torch.set_num_threads(threads)  # some take one
        plt.close("all")
    assert len(shown) == 1


@pytest.mark.parametrize("script", [pytest.param(script, id=script.stem) for script in SCRIPTS])
def test_gallery_script_has_a_title_words_and_cells(script):
    text = script.read_text(encoding="utf-8")
    _, title, underline, blank, *words = ast.get_docstring(ast.parse(text), clean=False).split("\n")
    assert title and underline == "=" * len(title) and not blank and len(" ".join(words)) > 40
    assert "\n# %%\n# " in text and text.count("plt.show()") == 1


def test_every_folder_of_the_gallery_says_what_is_in_it():
    for folder in {script.parent for script in SCRIPTS}:
        title, blank, *words = (folder / "README.md").read_text(encoding="utf-8").splitlines()
        assert title.startswith("# ") and not blank and len(" ".join(words)) > 40, folder.name
