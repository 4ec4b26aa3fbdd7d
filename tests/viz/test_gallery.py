"""The scripts of the gallery run and end in a figure."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest
import torch

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*/plot_*.py"))
LONG = {  # train networks
    "plot_anneal",
    "plot_caption_strip",
    "plot_possible_words",
    "plot_rationale_length",
    "plot_where_words_come_from",
    "plot_words_with_density",
}
CASES = [
    pytest.param(script, id=script.stem, marks=pytest.mark.slow if script.stem in LONG else ()) for script in SCRIPTS
]


@pytest.mark.parametrize("script", CASES)
def test_gallery_script_ends_in_a_figure(script, monkeypatch):
    matplotlib.use("agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    threads = torch.get_num_threads()
    runpy.run_path(str(script))
    torch.set_num_threads(threads)  # some take one
    assert shown
    plt.close("all")
