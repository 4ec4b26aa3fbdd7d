"""Write the tables of explanations.md from results/*.csv."""

from __future__ import annotations

from collections.abc import Sequence

from alignments import ALIGNMENTS
from alignments import runs as alignment_runs
from fit import HERE
from game import KINDS
from game import runs as game_runs
from rationales import FULL, SELECTORS, SHARES
from rationales import runs as rationale_runs

from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.text.game import EXPLAINERS

Rows = Sequence[dict[str, str]]
RESULTS = HERE / "results"


def of(rows: Rows, **wanted: object) -> list[dict[str, str]]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def table_alignments(rows: Rows) -> str:
    """Return accuracy and measures of each alignment, and the difference of accuracy to softmax, paired by seed."""
    lines = []
    for alignment in ALIGNMENTS:
        own, softmax = of(rows, alignment=alignment), of(rows, alignment="softmax")
        line = [alignment, mean(own, "accuracy")]
        line.append("" if alignment == "softmax" else paired_difference(own, softmax, "accuracy"))
        lines.append([*line, *(mean(own, column) for column in ("same", "same_top", "zero"))])
    head = ["alignment", "accuracy", "to softmax", "mass on the same lemma", "most on it", "pairs exactly 0"]
    return table(head, lines)


def table_game(rows: Rows, name: str, column: str) -> str:
    """Return success of explainers by the network's attention."""
    lines = [
        [
            explainer.replace("_", " "),
            *(mean(of(rows, set=name, kind=kind, explainer=explainer), column) for kind in KINDS),
        ]
        for explainer in EXPLAINERS
    ]
    return table(["explainer", *KINDS], lines)


def table_rationales(rows: Rows, name: str) -> str:
    """Return the accuracy by selector and share of words, with the F1 score against marks of Yelp-HAT in brackets."""
    lines = []
    for selector in (FULL, *SELECTORS):
        line = [selector.replace("_", " ")]
        for share in (*SHARES, 1.0):
            own = of(rows, set=name, selector=selector, share=share)
            line.append(f"{mean(own, 'accuracy')}; {mean(own, 'yelp_f1')}" if own else "-")
        lines.append(line)
    return table(["selector", *(f"{100 * share:g} %" for share in (*SHARES, 1.0))], lines)


def main() -> None:
    """Fill the page."""
    games, chosen = game_runs(RESULTS).rows(), rationale_runs(RESULTS).rows()
    made = {"alignments": table_alignments(alignment_runs(RESULTS).rows())}
    for name in ("imdb", "sst2"):
        made |= {
            f"game {name}": table_game(games, name, "success"),
            f"student {name}": table_game(games, name, "student"),
        }
        made[f"rationales {name}"] = table_rationales(chosen, name)
    fill(HERE / "explanations.md", made)


if __name__ == "__main__":
    main()
