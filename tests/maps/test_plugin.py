"""A map in a package of its own, one file: installed, it is there in all of the library, and keeps every contract."""

from __future__ import annotations

import faulthandler
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omegamax

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
SECTION = re.split(r"^## ", PAGE, flags=re.MULTILINE)[1]  # "A map"
LIBRARY_IMPORTS = """
from omegamax.maps.entmax import Tsallis
from omegamax.maps.omega import Omega
from omegamax.maps.record import Learnable
from omegamax.maps.registry import register
"""


def block(language: str) -> str:
    """The first block of the section in that language."""
    return re.search(rf"^```{language}\n(.*?)^```", SECTION, re.MULTILINE | re.DOTALL)[1]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the package of docs/extending.md is installed."""
    source, target = tmp_path_factory.mktemp("tempered"), tmp_path_factory.mktemp("site")
    (source / "tempered.py").write_text(block("python"), encoding="utf-8")
    (source / "pyproject.toml").write_text(block("toml"), encoding="utf-8")
    command = [sys.executable, "-m", "pip", "install", "--no-build-isolation", "--no-deps", "--no-index", "-q"]
    done = subprocess.run([*command, "--target", target, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in target.glob("*.py")] == ["tempered.py"]
    return target


def run(site: Path, *command: str) -> subprocess.CompletedProcess:
    """Run Python with the packages of ``site``."""
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH")]))
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    return subprocess.run(
        [sys.executable, *command],
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=1500,
    )


def test_page_shows_what_the_package_does(site: Path, tmp_path: Path):
    (tmp_path / "section.md").write_text(SECTION, encoding="utf-8")
    program = "import doctest, sys, tempered, omegamax; globals = {'tempered': omegamax.tempered}; "
    program += "print(doctest.testfile(sys.argv[1], module_relative=False, globs=globals))"
    done = run(site, "-c", program, str(tmp_path / "section.md"))
    assert "TestResults(failed=0" in done.stdout, done.stdout + done.stderr


def test_package_is_loaded_when_its_map_is_asked_for_and_not_before(site: Path):
    program = """
import sys
import omegamax
from omegamax import data, nn, viz
omegamax.get("sparsemax"), nn.Entmax(), omegamax.losses.entmax_loss
assert "tempered" not in sys.modules
import pickle
made = omegamax.nn.Tempered(0.5)
assert "tempered" in sys.modules and type(pickle.loads(pickle.dumps(made))) is omegamax.nn.Tempered
assert viz.colour("tempered") == "#0f6e56"
"""
    done = run(site, "-c", program)
    assert done.returncode == 0, done.stderr


def test_command_line_knows_the_map(site: Path):
    program = "from omegamax.cli.main import main; "
    program += "print(main(['maps']), main(['maps', '--markdown']), main(['cite', 'tempered']))"
    shown = run(site, "-c", program).stdout
    assert re.search(r"tempered\s+1\.5-entmax, sharper", shown)
    assert "| `tempered` |" in shown and "peters2019sparse" in shown and shown.endswith("0 0 0\n")


@pytest.mark.slow
def test_map_of_a_package_keeps_every_contract(site: Path):
    faulthandler.cancel_dump_traceback_later()  # minutes, in a process with a limit of its own for each test
    done = run(site, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--all-cases", "tests/contracts", "-k", "tempered")
    assert done.returncode == 0, done.stdout[-5000:]
    count = int(re.search(r"(\d+) passed", done.stdout)[1])
    assert count > 150


def test_map_of_the_library_is_one_file(tmp_path: Path):
    package = Path(omegamax.__file__).parent
    shutil.copytree(package, tmp_path / "omegamax", ignore=shutil.ignore_patterns("__pycache__"))
    text = block("python").replace("import omegamax\nfrom omegamax.maps import Learnable\n", LIBRARY_IMPORTS)
    for name in ("register", "Omega", "Tsallis"):
        text = text.replace(f"omegamax.{name}(", f"{name}(").replace(f"(omegamax.{name})", f"({name})")
    (tmp_path / "omegamax" / "maps" / "tempered.py").write_text(text)
    program = """
import omegamax, torch
assert list(omegamax.maps.records())[-1] == "tempered"
z, target = torch.randn(3, 5), torch.tensor([0, 1, 2])
assert torch.equal(omegamax.tempered(z, 0.5), omegamax.nn.Tempered(0.5)(z))
assert torch.equal(omegamax.losses.tempered_loss(z, target, 0.5), omegamax.nn.TemperedLoss(0.5)(z, target))
print(omegamax.__file__)
"""
    done = run(tmp_path, "-c", program)
    assert done.returncode == 0 and str(tmp_path) in done.stdout, done.stderr


def test_package_that_fails_is_named_and_harms_no_other(tmp_path: Path):
    information = tmp_path / "broken_maps-0.1.dist-info"
    information.mkdir()
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: broken-maps\nVersion: 0.1\n")
    (information / "entry_points.txt").write_text("[omegamax.maps]\nbroken = no_such_module\n")
    program = """
import warnings
import omegamax
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert "softmax" in omegamax.maps.records()
    assert "softmax" in omegamax.maps.records()
print(*[w.message for w in caught], sep="\\n")
try:
    omegamax.get("broken")
except ValueError as error:
    print(error)
"""
    done = run(tmp_path, "-c", program)
    assert done.returncode == 0, done.stderr
    warned, refused = done.stdout.splitlines()
    failure = "the entry point 'broken' = 'no_such_module' of package 'broken-maps' could not be loaded: ModuleNotFound"
    assert warned.startswith(f"omegamax: {failure}") and failure in refused and "no map is called 'broken'" in refused
