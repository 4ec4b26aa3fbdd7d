"""The folder that Sphinx reads: copies of the pages of the repository, at the paths they have there.

Links between pages are then right as they stand, and what is generated (reference, gallery) lies beside them and not
in the checkout.
"""

from __future__ import annotations

import re
import shutil
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FRONT = "docs/index.md"  # stands at the root of the site
PAGES = ("docs", "experiments", "benchmarks/results", "README.md", "CHANGELOG.md", "CONTRIBUTING.md")
SHOWN = ("*.md", "*.png")
SCRIPT = "plot_*.py"


def lay_out(source: Path) -> None:
    """Make the folder, and leave what is generated in it for the next build."""
    source.mkdir(parents=True, exist_ok=True)
    for name in PAGES:
        place = source / name
        shutil.rmtree(place) if place.is_dir() else place.unlink(missing_ok=True)
        for file in find_files(ROOT / name):
            copy = source / file.relative_to(ROOT)
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(file, copy)  # with its time, by which Sphinx knows what is new
    (source / FRONT).replace(source / "index.md")


def find_files(path: Path) -> list[Path]:
    """Return the pages and pictures of a folder, or the file itself."""
    if path.is_file():
        return [path]
    found = [file for pattern in SHOWN for file in path.rglob(pattern)]
    return [file for file in found if not {"cache", "runs"} & set(file.relative_to(path).parts)]


def link(path: Path, target: Path) -> None:
    """Make ``path`` a symbolic link to ``target``, whatever it was."""
    if path.is_symlink():
        path.unlink()
    path.symlink_to(target)


def lay_out_examples(folder: Path) -> None:
    """Make the folder that the gallery reads: the scripts, and what their READMEs say in the markup it wants."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    (folder / "GALLERY_HEADER.rst").write_text(
        "Gallery\n=======\n\nScripts that end in a figure. Each runs by itself, and can be downloaded from its page.\n",
        encoding="utf-8",
    )
    for chapter in sorted(ROOT.glob("examples/*/")):
        scripts = sorted(chapter.glob(SCRIPT))
        if not scripts:
            continue
        (folder / chapter.name).mkdir()
        words = (chapter / "README.md").read_text(encoding="utf-8")
        (folder / chapter.name / "GALLERY_HEADER.rst").write_text(as_rst(words), encoding="utf-8")
        for script in scripts:
            link(folder / chapter.name / script.name, script)


def as_rst(words: str) -> str:
    """Return the title of a chapter and plain paragraphs of Markdown as reStructuredText.

    >>> print(as_rst("# Maps\\n\\nWith `alpha`.\\n"))
    Maps
    ----
    <BLANKLINE>
    With ``alpha``.
    <BLANKLINE>
    """
    words = re.sub(r"`([^`]+)`", r"``\1``", words)
    return re.sub(r"^# (.*)$", lambda m: f"{m[1]}\n{'-' * len(m[1])}", words, count=1, flags=re.M)


def chapter_number(path: str) -> int:
    """Return the number that the folder of a chapter begins with, for the gallery to sort by."""
    return int(re.match(r"\d+", Path(path).name)[0])


def page_of(path: str, docnames: set[str]) -> str | None:
    """Return the page of a path of the repository, if there is one.

    >>> page_of("docs/index.md", set()), page_of("experiments/vqa", {"experiments/vqa/README"})
    ('index', 'experiments/vqa/README')
    >>> page_of("examples/1_transforms/plot_simplex.py", {"gallery/1_transforms/plot_simplex"})
    'gallery/1_transforms/plot_simplex'
    """
    if path == FRONT:
        return "index"
    name = path.removesuffix(".md")
    if path.partition("/")[0] == "examples":
        name = "gallery" + path.removeprefix("examples").removesuffix(".py").removesuffix("/README.md")
    return next((each for each in (name, f"{name}/README", f"{name}/index") if each in docnames), None)
