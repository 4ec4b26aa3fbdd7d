"""Lines and cells of the tables."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from on_gpu.peers import NAMES as PEERS

Row = dict[str, str]
PRECISIONS = ("float32", "bfloat16")


def line(rows: list[Row], work: str, shape: str, way: str, first: tuple[str, ...], call: bool = False) -> list[str]:
    """A line of ratios, float32 / bfloat16, or none where ours was not measured."""
    mine = [row for row in rows if row["section"] == "rows" and row["way"] == way]
    if not any(True for dtype in PRECISIONS for _ in find(mine, work, shape, dtype, "omegamax")):
        return []
    cells = [pair(mine, work, shape, name, "over", number) for name in (*PEERS, "omegamax")]
    cells.append(pair(mine, work, shape, "omegamax", "bar", str))
    if call:
        cells.append(pair(mine, work, shape, "omegamax", "call_over", number))
    return [joined(*first, *cells)]


def find(rows: Iterable[Row], work: str, shape: str, dtype: str, name: str) -> list[Row]:
    wanted = {"work": work, "shape": shape, "dtype": dtype, "name": name}
    return [row for row in rows if all(row[key] == value for key, value in wanted.items())]


def pair(rows: list[Row], work: str, shape: str, name: str, column: str, form: Callable[[str], str]) -> str:
    """A cell: float32 / bfloat16."""
    found = [row for dtype in PRECISIONS for row in find(rows, work, shape, dtype, name)]
    cells = [form(row[column]) if row[column] else ("fails" if row["note"] else "") for row in found]
    cells = [cell + _star(row, column) for cell, row in zip(cells, found, strict=True)]
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def ways(rows: list[Row], work: str, shape: str, setting: str, name: str, column: str = "over") -> str:
    """A cell of attention: forward / forward+backward."""
    ways = [f"{setting}, {way}" for way in ("forward", "forward+backward")]
    wanted = {"section": "attention", "work": work, "shape": shape, "name": name}
    mine = [row for row in rows if all(row[key] == value for key, value in wanted.items())]
    found = [row for way in ways for row in mine if row["way"] == way]
    forms = {"over": number, "call_over": number, "ms": number, "peak_mib": lambda x: f"{float(x):,.0f}"}
    form = forms.get(column, str)
    cells = [form(row[column]) if row[column] else ("fails" if row["note"] else "") for row in found]
    cells = [cell + _star(row, column) for cell, row in zip(cells, found, strict=True)]
    return " / ".join(cell or "-" for cell in cells) if any(cells) else ""


def _star(row: Row, column: str) -> str:
    return "*" if column == "over" and row["bar"] and row["ok"] == "no" else ""


def failures(rows: list[Row], section: str) -> list[str]:
    """What did not run, and why."""
    failed = [row for row in rows if row["section"] == section and row["note"] and not row["ms"]]
    stopped = [f"Not all was measured: it {row['note']}." for row in failed if row["work"] == "all"]
    failed = [row for row in failed if row["work"] != "all"]
    what = ("name", "work", "shape", "dtype", "way")
    return stopped + [f"Fails: {', '.join(row[part] for part in what)}: {row['note']}  " for row in failed]


def unique(items: Iterable) -> list:
    return list(dict.fromkeys(items))


def titles(*names: str) -> tuple[str, str]:
    return joined(*names), "|---|" + "---|" * (len(names) - 1)


def joined(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "/") for cell in cells) + " |"


def drop_empty(lines: list[str]) -> list[str]:
    """Return the lines of a table without the columns that are empty below their titles: rivals that were not timed."""
    names, *cells = (line[2:-2].split(" | ") for line in (lines[0], *lines[2:]))
    kept = [place for place in range(len(names)) if any(row[place].strip() for row in cells)]
    head = titles(*(names[place] for place in kept))
    return [*head, *(joined(*(row[place] for place in kept)) for row in cells)]


def number(text: str) -> str:
    value = float(text)
    return f"{value:.2f}" if value < 10 else f"{value:.0f}"


def scientific(text: str) -> str:
    return f"{float(text):.0e}"
