"""The scripts of the gallery run and end in a figure."""

import runpy
from pathlib import Path

import matplotlib
import matplotlib.pyplot as plt
import pytest

SCRIPTS = sorted((Path(__file__).parents[2] / "examples").glob("*/plot_*.py"))
LONG = {"plot_anneal"}  # trains a language model
CASES = [
    pytest.param(script, id=script.stem, marks=pytest.mark.slow if script.stem in LONG else ()) for script in SCRIPTS
]


@pytest.mark.parametrize("script", CASES)
def test_gallery_script_ends_in_a_figure(script, monkeypatch):
    matplotlib.use("agg")
    shown = []
    monkeypatch.setattr(plt, "show", lambda: shown.extend(plt.get_fignums()))
    runpy.run_path(str(script))
    assert shown
    plt.close("all")
