"""The site, built once without running the gallery, or the one that ``OMEGAMAX_SITE`` names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def site(tmp_path_factory) -> Path:
    """The folder of the site. Built by a process of its own: Sphinx and pytest both change how Python warns."""
    if "OMEGAMAX_SITE" in os.environ:
        return Path(os.environ["OMEGAMAX_SITE"])
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, ROOT / "docs" / "build.py", "--no-gallery", "--jobs", "1"]
    command += ["--out", folder / "site", "--work", folder / "work"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "site"


@pytest.fixture(scope="package")
def reader(site, tmp_path_factory) -> Iterator:
    """A browser that opens pages of the site as a reader does who has it in a folder."""
    from tasks.vqa.report.reader import browser

    with browser(tmp_path_factory.mktemp("reader")) as driver:
        yield driver
