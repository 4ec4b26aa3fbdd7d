"""The enumeration of kinds is one: what C++ calls a kind is what Python calls it, with the same value."""

from __future__ import annotations

import re
from pathlib import Path

from omegamax import kernels
from omegamax.kernels.kinds import Kind
from omegamax.kernels.rows import cpu as rows
from omegamax.kernels.structures import cpu

FOLDER = Path(kernels.__file__).parent


def test_kinds_of_the_compiled_rows_are_those_of_python():
    source = (FOLDER / "rows/cpp/rows.h").read_text(encoding="utf-8")
    (body,) = re.findall(r"enum class Kind : int \{(.*?)\}", source, re.DOTALL)
    stated = {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", body)}
    assert set(stated) == {"ENTMAX", "NORMMAX", "K_SUBSETS"}
    assert stated == {name: Kind[name].value for name in stated}


def test_sums_of_the_compiled_rows_are_those_of_python():
    source = (FOLDER / "rows/cpp/entmax_alpha.h").read_text(encoding="utf-8")
    (body,) = re.findall(r"enum class RowSum : int \{(.*?)\}", source, re.DOTALL)
    assert {name: int(value) for name, value in re.findall(r"(\w+) = (\d+)", body)} == dict(rows.RowSum.__members__)


def test_kinds_of_structures_are_in_the_order_of_python():
    source = (FOLDER / "structures/cpp/structures.cpp").read_text(encoding="utf-8")
    (body,) = re.findall(r"enum class StructureKind \{(.*?)\}", source, re.DOTALL)
    assert tuple(re.findall(r"\w+", body)) == cpu.KINDS
