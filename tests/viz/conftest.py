"""Pictures are drawn without a screen, and do not outlive their test."""

import matplotlib
import matplotlib.pyplot as plt
import pytest


@pytest.fixture(autouse=True)
def _agg():
    matplotlib.use("agg")
    yield
    plt.close("all")
