"""The real sets, for those who have them: the folder that the variable OMEGAMAX_DATA names."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture
def real() -> Callable[[str], Path]:
    """The folder of a set, by its name; the test is skipped where there is none."""

    def find(name: str) -> Path:
        folder = os.environ.get("OMEGAMAX_DATA")
        if not folder:
            pytest.skip("reads the real set: OMEGAMAX_DATA is not set to the folder that holds it")
        if not (Path(folder) / name).is_dir():
            pytest.skip(f"reads the real set: OMEGAMAX_DATA has no folder {name}")
        return Path(folder) / name

    return find
