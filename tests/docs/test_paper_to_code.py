"""The page from the papers to the code: every numbered item has its row, and every name and path exists."""

from __future__ import annotations

import re

import pytest

from docs.pages import DOCS, ROOT, find_broken_links, find_names, read, resolve

PAGE = DOCS / "paper_to_code.md"


def numbered(kind: str, *numbers: str | int) -> list[str]:
    return [f"{kind} {number}" for number in numbers]


# What is numbered in the texts, which are not in the repository; the slides are named by their titles.
ITEMS: dict[str, list[str]] = {
    "Sparse and continuous attention mechanisms": [
        *numbered("Definition", 1, 2),
        *numbered("Proposition", 1, 2, 3),
        *numbered("Lemma", 1),
        *numbered("Algorithm", 1),
        *numbered("Figure", *range(1, 8)),
        *numbered("Table", *range(1, 6)),
    ],
    "Visual attention with sparse and continuous transformations": [
        *numbered("Theorem", 1),
        *numbered("Lemma", 1),
        *numbered("Algorithm", 1, 2, 3, 4),
        *numbered("Figure", "1.1", "2.1", "3.1", "5.1", *(f"6.{i}" for i in range(1, 12))),
        *numbered("Table", "2.1", "4.1", "6.1", "6.2", "6.3", "6.4", "B.1"),
    ],
    "Multimodal continuous visual attention mechanisms": [
        *numbered("Algorithm", 1),
        *numbered("Figure", *range(1, 8)),
        *numbered("Table", 1, 2),
    ],
    "Sparse and structured visual attention": [
        *numbered("Definition", 1),
        *numbered("Proposition", 1, 2),
        *numbered("Algorithm", 1),
        *numbered("Figure", *range(1, 6)),
        *numbered("Table", 1, 2),
    ],
    "From sparse modeling to sparse communication": [
        "John's Life",
        "Softmax and Argmax",
        "Sparsemax",
        "Sparsemax in 2D and 3D",
        "Regularized Argmax",
        "Entmax",
        "Entmax in 2D",
        "Sparse Transformations",
        "Sparse Attention for Machine Translation",
        "Sparse Attention for Explainability",
        "LP-SparseMAP",
        "Latent Structured Alignments",
        "Sparse and Continuous Attention",
        "From Discrete to Continuous Attention",
        "Sparse and Continuous",
        "Regularized Prediction Map",
        "Multivariate q-Gaussians",
        "Visual Question Answering",
        "Loss Functions",
        "Entmax Losses",
        "Fenchel-Young Losses",
        "Loss Margin",
        "Entmax Transformations and Losses",
        "Machine Translation",
        "Entmax Sampling",
        "What are Hopfield Networks?",
        "Hopfield Networks",
        "Dense Associative Memories",
        "Modern Hopfield Networks",
        "Sensitivity to Temperature",
        "Sparse and Structured Transformations",
        "Hopfield-Fenchel-Young Energy",
        "Exact Convergence to Single Pattern",
        "Storage Capacity with Exact Retrieval",
        "Hopfield Dynamics and Basins",
        "Structured Hopfield Networks",
        "Multiple Instance Learning",
        "Mixed Distributions",
        "Densities over the Simplex",
        "Truncated Densities",
        "Face Stratification",
        "Mixed Random Variables",
        "Extrinsic vs Intrinsic",
        "K-D Hard Concrete",
        "Gaussian-Sparsemax",
        "Logistic-Normal vs Gaussian-Sparsemax",
        "Information Theory",
        "Emergent Communication",
    ],
}
# The last equation of each chapter, or of the text.
EQUATIONS: dict[str, dict[str, int]] = {
    "Sparse and continuous attention mechanisms": {"": 81},
    "Visual attention with sparse and continuous transformations": {"2.": 16, "3.": 20, "4.": 14, "5.": 20, "A.": 41},
    "Multimodal continuous visual attention mechanisms": {"": 15},
    "Sparse and structured visual attention": {"": 18},
    "From sparse modeling to sparse communication": {},
}


def rows(paper: str) -> list[list[str]]:
    """Return the cells of each row of the table of a paper."""
    section = read(PAGE).split(f"\n## {paper}\n")[1].split("\n## ")[0]
    lines = [line for line in section.splitlines() if line.startswith("| ")]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[1:]]


@pytest.mark.parametrize("paper", ITEMS)
def test_every_numbered_item_has_one_row(paper):
    named = [cells[0] for cells in rows(paper) if not re.match(r"Eqs?\. ", cells[0])]
    assert sorted(named) == sorted(ITEMS[paper])


@pytest.mark.parametrize("paper", EQUATIONS)
def test_groups_of_equations_cover_each_once(paper):
    covered = []
    for cells in rows(paper):
        found = re.fullmatch(r"Eqs?\. (\w\.)?(\d+)(?:-(?:\w\.)?(\d+))?", cells[0])
        if found:
            chapter, first, last = found.groups()
            covered += [(chapter or "") + str(i) for i in range(int(first), int(last or first) + 1)]
    assert sorted(covered) == sorted(f"{c}{i}" for c, last in EQUATIONS[paper].items() for i in range(1, last + 1))


@pytest.mark.parametrize("paper", ITEMS)
def test_every_row_says_where_or_that_it_is_not_here(paper):
    for cells in rows(paper):
        assert len(cells) == 3 and all(cells), cells
        if "**not here**" in cells[2]:
            assert len(cells[2]) > len("**not here**: ") + 10, cells  # with the reason
        else:
            assert re.search(r"`|\]\(|^as |^see |^the same|^figure |^torch$", cells[2]), cells


def test_names_of_code_are_there():
    names = find_names(read(PAGE))
    assert len(names) > 80
    for name in names:
        resolve(name)


def test_paths_are_there():
    folders = "benchmarks|docs|examples|experiments|src|tests"
    paths = set(re.findall(rf"`((?:{folders})(?:/[\w.\-]+)*)`", read(PAGE)))
    assert len(paths) > 50
    missing = [path for path in paths if not (ROOT / path).exists()]
    assert not missing


def test_links_lead_somewhere():
    assert not find_broken_links(PAGE)


def test_figures_that_are_named_are_drawn():
    """Names of figures are those that ``omegamax vqa figures`` gives."""
    from omegamax.tasks.vqa.report import figures

    source = read(ROOT / "src/omegamax/tasks/vqa/report/figures.py")
    assert figures.draw_figures.__doc__ is not None
    for name in set(re.findall(r"figures? `([a-z-]+)`", read(PAGE))):
        assert f"``{name}``" in source, name
