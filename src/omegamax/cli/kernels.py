"""``omegamax kernels``: which kernel runs for which call, as two tables."""

from __future__ import annotations

import argparse
from pathlib import Path

from omegamax.cli import _table

SUMMARY = "list the kernels: which one runs for which operation, parameters, precision and length of a row"
GPU_HEADERS = ("operation", "when", "precision", "length K of a row", "on a GPU")
CPU_HEADERS = ("operation", "on a CPU", "on a GPU")
PRECISIONS = {(2,): "half", (4,): "float32", (2, 4): "half, float32", (8,): "float64", (4, 8): "float32, float64"}
PRECISIONS[2, 4, 8] = "any"
BUILDS = {"rows": "C++ (AVX-512, AVX2, baseline)", "variation": "C++", "structures": "C++"}
BUILDS |= dict.fromkeys(("attention", "bounds", "contour", "isotonic", "mixtures"), BUILDS["rows"])


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Add what ``omegamax kernels`` takes."""
    parser.add_argument("--markdown", action="store_true", help="print Markdown tables")
    marks = "<!-- kernels:begin --> and <!-- kernels:end -->"
    parser.add_argument("--into", type=Path, metavar="FILE", help=f"write them between {marks} of FILE")


def run(options: argparse.Namespace) -> int:
    """Print the tables, or write them into a file."""
    if options.into is not None:
        _table.write_between(options.into, "kernels", markdown())
    elif options.markdown:
        print(markdown())
    else:
        _table.show(CPU_HEADERS, list_operations(here=True))
        print()
        _table.show(GPU_HEADERS, list_rules())
    return 0


def markdown() -> str:
    """Return both tables as they stand in the documentation, the same on every machine."""
    operations = _table.markdown(CPU_HEADERS, list_operations(here=False))
    return f"{operations}\n\n{_table.markdown(GPU_HEADERS, list_rules())}"


def list_operations(here: bool) -> list[list[str]]:
    """Return a line for each operation and what implements it; ``here``: on this machine, with its build."""
    from omegamax import kernels
    from omegamax.kernels.choice import RULES

    table = {**kernels.TABLE, "attention": {"triton": "attention"}}
    ruled = {rule.operation for rule in RULES}
    assert ruled <= {*table, "soft_entmax_loss", "soft_entmax_loss_vjp"}
    lines = []
    for operation, packages in table.items():
        package = packages.get("cpu")
        cpu = "plain torch"
        if package is not None and here:
            build = kernels.name_build(package)
            cpu = "plain torch (not compiled)" if build is None else f"C++ ({build})"
        elif package is not None:
            cpu = BUILDS[package]
        gpu = "Triton, by the table below" if "triton" in packages else "plain torch"
        if package in ("variation", "structures") and "triton" not in packages:
            gpu = "C++ on the CPU"
        lines.append([operation, cpu, gpu])
    return lines


def list_rules() -> list[list[str]]:
    """Return a line for each rule of the choice among kernels for a GPU."""
    from omegamax.kernels.choice import RULES, describe, shortest

    lines = []
    for rule in RULES:
        first, last = shortest(rule), rule.longest
        length = "any" if first == 1 and last is None else f"{first} ..." if last is None else f"{first} ... {last}"
        where = {"reference": "plain torch", "host": "C++ on the CPU"}
        kernels = [f"{where[name.split('.')[0]]}, {name}" if "." in name else name for name in rule.kernels]
        lines.append([rule.operation, describe(rule.cases), PRECISIONS[rule.bytes], length, ", ".join(kernels)])
    return lines
