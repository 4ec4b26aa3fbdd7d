"""What a user gets: the installed package, the README, and an install without a compiler."""

import doctest
import faulthandler
import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
from importlib import resources
from pathlib import Path

import pytest

import omegamax
from omegamax.cli._table import replace_between
from omegamax.cli.maps import markdown

PAGES = (
    "attention",
    "extending",
    "generation",
    "gpu",
    "guide",
    "hopfield",
    "index",
    "language",
    "mil",
    "mixed",
    "tour",
    "transformers",
    "vqa",
)
ROOT = Path(__file__).parents[1]
ASSETS = {
    "play/assets": (
        "app.js",
        "bars.js",
        "bounds.js",
        "cards.js",
        "charts.js",
        "clusters.js",
        "controls.js",
        "curve.js",
        "densities.js",
        "dom.js",
        "entmax.js",
        "flow.js",
        "isolines.js",
        "kinds.js",
        "maps.js",
        "mixtures.js",
        "numbers.js",
        "picture.js",
        "play.css",
        "play.html",
        "python.js",
        "sequences.js",
        "simplex.js",
        "state.js",
        "threshold.js",
        "variation.js",
    ),
    "tasks/captioning/report/assets": ("strips.css", "strips.js"),
    "tasks/language/report/assets": ("written.css", "written.js"),
    "tasks/rating/assets": ("rating.css", "answers.js", "rating.js"),
    "tasks/report/assets": (
        "report.css",
        "answers.js",
        "common.js",
        "curves.js",
        "explorer.js",
        "heatmap.js",
        "maps.js",
        "tables.js",
    ),
    "tasks/text/report/assets": ("words.css", "alignment.js", "texts.js", "words.js"),
    "tasks/translation/report/assets": ("translations.css", "translations.js"),
    "tasks/translation/typing/assets": ("typing.css", "typing.js"),
    "tasks/vqa/report/assets": ("pictures.css", "key.js", "looks.js", "panel.js", "sheet.js"),
}
FILES = [f"{folder}/{name}" for folder, names in ASSETS.items() for name in names]
FIRST_USE = """
import warnings, torch, omegamax
from omegamax.kernels import _library
z = torch.tensor([1.0, 0.5, -1.0])
with warnings.catch_warnings(record=True) as caught:
    warnings.simplefilter("always")
    assert omegamax.sparsemax(z).tolist() == [0.75, 0.25, 0.0]
    omegamax.normmax(z), omegamax.entmax15(z), omegamax.k_subsets(z, k=2)
print(omegamax.__file__, _library.is_available('rows'), *(w.category.__name__ for w in caught), sep="\\n")
"""


def run(code: str, **environment: str) -> list[str]:
    """The lines that ``code`` prints in a fresh interpreter."""
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True, cwd=os.sep)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_version_is_the_same_inside_and_outside():
    assert importlib.metadata.version("omegamax") == omegamax.__version__


@pytest.mark.parametrize("name", ["py.typed", "references.bib", *FILES])
def test_package_ships_its_data(name):
    assert resources.files("omegamax").joinpath(name).is_file()


def test_console_script_points_to_the_command_line():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="omegamax")
    from omegamax.cli.main import main

    assert script.load() is main


def test_torch_is_asked_for_by_range_and_not_to_build():
    requirements = importlib.metadata.requires("omegamax") or []
    assert any(r.startswith("torch>=") and "==" not in r for r in requirements)
    build = (ROOT / "pyproject.toml").read_text().split("[project]")[0]
    assert "torch" not in build


def test_every_source_in_cpp_is_named_for_the_build():
    """What pyproject.toml does not name is neither in a source distribution nor a reason to compile again."""
    named = re.findall(r'"(src/omegamax/kernels/[^"]+\.(?:h|cpp))"', (ROOT / "pyproject.toml").read_text())
    there = [str(p.relative_to(ROOT)) for p in (ROOT / "src/omegamax/kernels").rglob("*") if p.suffix in (".h", ".cpp")]
    assert set(named) == set(there) and len(there) > 20


def test_no_two_libraries_are_compiled_from_one_source():
    """Objects are named after their sources, and the libraries are compiled side by side."""
    sources = re.findall(r"^sources = \[(.*)\]$", (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert len(sources) == len(set(sources)) == 5


def test_constraints_pin_everything_torch_first():
    lines = [x for x in (ROOT / "constraints.txt").read_text().splitlines() if x and not x.startswith("#")]
    assert lines[0].startswith("torch==")
    assert all("==" in line and "+" not in line for line in lines)


@pytest.mark.parametrize("page", ["README.md", *(f"docs/{page}.md" for page in PAGES)])
def test_code_on_the_page_runs_and_prints_what_it_says(page, tmp_path):
    text = (ROOT / page).read_text(encoding="utf-8")
    # What speaks of an installed package is run where it is installed, by tests/maps/test_plugin.py.
    shown = tmp_path / "page.md"
    shown.write_text(re.sub(r"^## A map\n.*?(?=^## )", "", text, flags=re.MULTILINE | re.DOTALL), encoding="utf-8")
    failed, tried = doctest.testfile(str(shown), module_relative=False, optionflags=doctest.ELLIPSIS)
    assert tried and not failed


def test_readme_table_is_that_of_the_register():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme == replace_between(readme, "maps", markdown()), "run `make readme`"


def test_readme_has_room_for_the_speed_table_and_its_picture():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    assert readme.index("<!-- speed:begin -->") < readme.index("<!-- speed:end -->")
    picture = ROOT / "docs/assets/maps.png"
    assert f"]({picture.relative_to(ROOT)})" in readme and picture.stat().st_size < 200_000


def test_reference_backend_can_be_asked_for():
    probe = "import torch, omegamax; print(omegamax.sparsemax(torch.tensor([1.0, 0.5, -1.0])).tolist())"
    assert run(probe, OMEGAMAX_BACKEND="reference") == ["[0.75, 0.25, 0.0]"]


@pytest.fixture(scope="module")
def without_compiler(tmp_path_factory):
    """A folder with omegamax installed from a copy of the sources, where no compiler could be found."""
    folder = tmp_path_factory.mktemp("install")
    source = folder / "source"
    # Without what an earlier build left: a library of this machine would hide that none was built.
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.so", "*.egg-info", "__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    missing = str(folder / "no-such-compiler")
    tools = dict.fromkeys(("CC", "CXX", "LDSHARED", "LDCXXSHARED"), missing)
    environment = {**os.environ, **tools, "PATH": str(Path(sys.executable).parent)}
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation"]
    target = folder / "site"
    done = subprocess.run([*command, "--target", target, source], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return target


@pytest.mark.slow
def test_install_without_a_compiler_leaves_the_kernels_out(without_compiler):
    assert (without_compiler / "omegamax" / "py.typed").is_file()
    for folder, names in ASSETS.items():
        assert sorted(path.name for path in (without_compiler / "omegamax" / folder).iterdir()) == sorted(names)
    assert not list(without_compiler.rglob("*.so"))


@pytest.mark.slow
def test_maps_without_compiled_kernels_work_and_warn_once(without_compiler):
    file, available, *warned = run(FIRST_USE, PYTHONPATH=str(without_compiler))
    assert Path(file).is_relative_to(without_compiler)
    assert available == "False"
    assert warned == ["RuntimeWarning"]


@pytest.mark.slow
def test_asking_for_compiled_kernels_that_are_not_there_is_an_error(without_compiler):
    probe = (
        "import warnings, torch, omegamax; warnings.simplefilter('ignore')\n"
        "try: omegamax.sparsemax(torch.ones(3))\n"
        "except RuntimeError as error: print(error)"
    )
    (message,) = run(probe, PYTHONPATH=str(without_compiler), OMEGAMAX_BACKEND="cpu")
    assert "'cpu'" in message and "reference" in message


# What is installed only by an extra, or by nobody: a plain install on a machine without a GPU has none of it.
EXTRAS = ("triton", "lightning", "matplotlib", "transformers", "torchmetrics", "jsonargparse", "PIL", "rich")
EXTRAS += ("sacrebleu", "safetensors", "fastapi", "uvicorn", "sklearn")
CORE = ("maps", "losses", "nn", "compat", "contracts/test_inputs.py", "contracts/test_tensors.py")


# Each in a few of its cases: that a map is right in all of them without compiled kernels, tests/contracts compares.
FEW = "2"


@pytest.fixture(scope="module")
def hidden_extras() -> dict[str, str]:
    return {"OMEGAMAX_HIDDEN": ",".join(EXTRAS)}


def core_tests(paths, site: Path | None, hidden: dict[str, str], *options: str) -> subprocess.CompletedProcess:
    """Run tests where the extras cannot be imported, on the package in ``site`` or on this one."""
    path = [*([str(site)] if site else []), str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "bare_environment", "-p", "no:cacheprovider"]
    command += ["-m", "not slow", "-W", "ignore:omegamax. no compiled:RuntimeWarning", *options]
    environment = {**os.environ, **hidden, "OMEGAMAX_CASES": FEW, "PYTHONPATH": os.pathsep.join(filter(None, path))}
    for name in ("PYTEST_XDIST_WORKER", "PYTEST_XDIST_WORKER_COUNT"):
        environment.pop(name, None)
    return subprocess.run(
        [*command, *(str(ROOT / "tests" / p) for p in paths)],
        env=environment,
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=1500,
    )


@pytest.mark.slow
@pytest.mark.long
def test_core_needs_neither_a_compiler_nor_an_extra(without_compiler, hidden_extras):
    faulthandler.cancel_dump_traceback_later()  # in a process with a limit of its own for each test
    # What installs a package or starts Python by itself does not see this one.
    done = core_tests(CORE, without_compiler, hidden_extras, f"--ignore={ROOT}/tests/maps/test_plugin.py")
    assert done.returncode == 0, done.stdout[-5000:]
    assert int(re.search(r"(\d+) passed", done.stdout)[1]) > 500


def test_losses_need_no_triton(hidden_extras):
    done = core_tests(["losses/test_linear.py"], None, hidden_extras)
    assert done.returncode == 0, done.stdout[-5000:]


def test_package_imports_without_extras(hidden_extras):
    names = ("functional", "losses", "nn", "densities", "basis", "mixtures", "structured", "mixed")
    names += ("hopfield", "generation", "maps", "kernels", "compat.entmax", "compat.adasplash")
    probe = "import bare_environment\n" + "".join(f"import omegamax.{name}\n" for name in names) + "print('done')"
    path = os.pathsep.join([str(ROOT / "tests"), os.environ.get("PYTHONPATH", "")])
    assert run(probe, PYTHONPATH=path, **hidden_extras) == ["done"]
