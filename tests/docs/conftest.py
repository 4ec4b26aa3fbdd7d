"""The site, built once without running the gallery, or the one that ``OMEGAMAX_SITE`` names."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def build(folder: Path) -> None:
    """Build the site by a process of its own: Sphinx and pytest both change how Python warns."""
    command = [sys.executable, ROOT / "docs" / "build.py", "--no-gallery", "--jobs", "1"]
    command += ["--out", folder / "site", "--work", folder / "work"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="session")
def site(tmp_path_factory, worker_id) -> Path:
    """The folder of the site. Processes that share the tests share it too: the first that asks builds it."""
    from filelock import FileLock

    if "OMEGAMAX_SITE" in os.environ:
        return Path(os.environ["OMEGAMAX_SITE"]).resolve()
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "built-site"
    with FileLock(f"{folder}.lock"):
        if not folder.is_dir():
            folder.mkdir()
            build(folder)
    return folder / "site"


@pytest.fixture(scope="package")
def reader(site, tmp_path_factory) -> Iterator:
    """A browser that opens pages of the site as a reader does who has it in a folder."""
    from browser import browser

    with browser(tmp_path_factory.mktemp("reader")) as driver:
        yield driver
