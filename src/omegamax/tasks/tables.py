"""Tables of experiments in Markdown, and tensors for their pictures, from rows of results."""

from __future__ import annotations

import os
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path

import torch


def mean(
    rows: Sequence[Mapping[str, str]], column: str, scale: float = 100, digits: int = 1, seeds: int | None = 3
) -> str:
    """Return mean and standard deviation of a column, and the number of values where it is not ``seeds``.

    >>> mean([{"accuracy": "0.5"}, {"accuracy": "0.6"}, {"accuracy": "0.7"}], "accuracy")
    '60.0 ± 10.0'
    >>> mean([{"accuracy": "0.5"}], "accuracy"), mean([], "accuracy")
    ('50.0 (n = 1)', '-')
    """
    values = [scale * float(row[column]) for row in rows if row[column]]
    if not values:
        return "-"
    spread = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    count = "" if seeds is None or len(values) == seeds else f" (n = {len(values)})"
    return f"{statistics.mean(values):.{digits}f}{spread}{count}"


# Quantiles of 97.5 % of Student's t distribution, by degrees of freedom.
_QUANTILES = (
    12.706205,
    4.302653,
    3.182446,
    2.776445,
    2.570582,
    2.446912,
    2.364624,
    2.306004,
    2.262157,
    2.228139,
    2.200985,
    2.178813,
    2.160369,
    2.144787,
    2.131450,
)


def paired_difference(
    rows: Sequence[Mapping[str, str]],
    others: Sequence[Mapping[str, str]],
    column: str,
    scale: float = 100,
    digits: int = 1,
    by: str = "seed",
) -> str:
    """Return the mean difference of a column to other rows, paired by ``by``, and its 95 % interval.

    The interval is that of Student's t for the mean of the differences; it needs two to sixteen pairs.

        >>> ours = [{"seed": str(i), "accuracy": str(a)} for i, a in enumerate((0.5, 0.6, 0.7))]
        >>> theirs = [{"seed": str(i), "accuracy": str(a)} for i, a in enumerate((0.4, 0.5, 0.5))]
        >>> paired_difference(ours, theirs, "accuracy"), paired_difference(ours[:1], theirs, "accuracy")
        ('+13.3 [-1.0, +27.7]', '+10.0 (n = 1)')
    """
    known = {row[by]: float(row[column]) for row in others if row[column]}
    pairs = [scale * (float(row[column]) - known[row[by]]) for row in rows if row[column] and row[by] in known]
    if not pairs:
        return "-"
    middle = statistics.mean(pairs)
    if len(pairs) == 1:
        return f"{middle:+.{digits}f} (n = 1)"
    if len(pairs) > len(_QUANTILES) + 1:
        raise ValueError(f"paired_difference: needs at most {len(_QUANTILES) + 1} pairs, got {len(pairs)}")
    half = _QUANTILES[len(pairs) - 2] * statistics.stdev(pairs) / len(pairs) ** 0.5
    return f"{middle:+.{digits}f} [{middle - half:+.{digits}f}, {middle + half:+.{digits}f}]"


def table(head: Sequence[str], lines: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table whose first column is text and whose others are numbers.

    >>> print(table(["kind", "all"], [["softmax", "77.6"]]))
    | kind | all |
    | --- | ---: |
    | softmax | 77.6 |
    """
    rule = ["---", *["---:"] * (len(head) - 1)]
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, rule, *lines))


def fill(page: str | os.PathLike[str], tables: Mapping[str, str]) -> None:
    """Write tables into a page, each between the lines ``<!-- table NAME -->`` and ``<!-- end -->``.

    The page is written once all have a place.
    """
    path = Path(page)
    text = path.read_text(encoding="utf-8")
    for name, new in tables.items():
        before, begin, rest = text.partition(f"<!-- table {name} -->\n")
        _, end, after = rest.partition("<!-- end -->")
        if not end:
            raise ValueError(
                f"fill: {path} must have a place for the table {name!r}: <!-- table {name} --> ... <!-- end -->"
            )
        text = f"{before}{begin}{new}\n{end}{after}"
    path.write_text(text, encoding="utf-8")


def stack_alphas(rows: Sequence[Mapping[str, str]]) -> torch.Tensor:
    """Return the alphas of a transformer's heads, ``[seeds, layers, heads]``.

    >>> stack_alphas([{"seed": "0", "layer": "0", "head": str(h), "alpha": a} for h, a in enumerate(("1.25", "1.5"))])
    tensor([[[1.2500, 1.5000]]])
    """
    found = {(int(row["seed"]), int(row["layer"]), int(row["head"])): float(row["alpha"]) for row in rows}
    seeds, layers, heads = (sorted(set(each)) for each in zip(*found, strict=True))
    return torch.tensor([[[found[s, n, h] for h in heads] for n in layers] for s in seeds])
