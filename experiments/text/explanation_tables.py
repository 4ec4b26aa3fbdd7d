"""Write the tables of explanations.md from results/*.csv."""

from __future__ import annotations

from collections.abc import Sequence

from alignments import ALIGNMENTS
from alignments import runs as alignment_runs
from fit import HERE, SETS
from game import KINDS
from game import runs as game_runs
from rationales import FULL, SELECTORS, SHARES
from rationales import runs as rationale_runs

from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.text.game import EXPLAINERS

Rows = Sequence[dict[str, str]]
RESULTS = HERE / "results"
ALIGNMENT_SEEDS = 5


def of(rows: Rows, **wanted: object) -> list[dict[str, str]]:
    """Return the rows that have these values."""
    return [row for row in rows if all(row[key] == str(value) for key, value in wanted.items())]


def table_alignments(rows: Rows) -> str:
    """Return accuracy and measures of each alignment, and the difference of accuracy to softmax, paired by seed."""
    lines = []
    for alignment in ALIGNMENTS:
        own, softmax = of(rows, alignment=alignment), of(rows, alignment="softmax")
        line = [alignment, mean(own, "accuracy", seeds=ALIGNMENT_SEEDS)]
        line.append("" if alignment == "softmax" else paired_difference(own, softmax, "accuracy"))
        lines.append([*line, *(mean(own, column, seeds=ALIGNMENT_SEEDS) for column in ("same", "same_top", "zero"))])
    head = ["alignment", "accuracy", "to softmax", "mass on the same lemma", "most on it", "pairs exactly 0"]
    return table(head, lines)


def table_game(rows: Rows, name: str) -> str:
    """Return success of explainers by the network's attention, and what attention is better or worse by."""
    lines = []
    for explainer in EXPLAINERS:
        found = [of(rows, set=name, kind=kind, explainer=explainer) for kind in KINDS]
        line = [explainer.replace("_", " "), *(mean(own, "success") for own in found)]
        told = [float(row["words"]) for own in found for row in own]
        line.append(f"{min(told):.1f} to {max(told):.1f}" if told else "-")
        lines.append([*line, "" if explainer == "attention" else compare_with_attention(rows, name, explainer)])
    return table(["explainer", *KINDS, "words", "attention less this"], lines)


def compare_with_attention(rows: Rows, name: str, explainer: str) -> str:
    """Return by how much attention's success is more, paired by network (kind and seed)."""
    return compare_explainers(rows, name, "attention", explainer, "success")


def compare_explainers(rows: Rows, name: str, explainer: str, other: str, measure: str) -> str:
    """Return by how much a measure of an explainer is more than that of another, paired by network (kind and seed)."""
    both = [of(rows, set=name, explainer=each) for each in (explainer, other)]
    keyed = [[{**row, "network": f"{row['kind']} {row['seed']}"} for row in own] for own in both]
    return paired_difference(*keyed, measure, by="network")


def table_claims(rows: Rows) -> str:
    """Return differences in success and of students that the tables of the sets do not show, for each set."""
    lines = []
    for kind in ("entmax15", "sparsemax"):
        for measure, words in (("success", "success of attention"), ("student", "students of attention")):
            own = (
                [of(rows, set=name, kind=each, explainer="attention") for each in (kind, "softmax")] for name in SETS
            )
            lines.append([f"{words}, {kind} less softmax", *(paired_difference(*both, measure) for both in own)])
    for explainer, other in (("attention", "random"), ("scaffold", "attention")):
        cells = (compare_explainers(rows, name, explainer, other, "student") for name in SETS)
        lines.append([f"students of {explainer} less of {other}", *cells])
    return table(["differences", *SETS], lines)


def table_students(rows: Rows, name: str) -> str:
    """Return how often students agree with the network, by whose words they learn; and without any."""
    lines = []
    for explainer in EXPLAINERS:
        own = [of(rows, set=name, kind=kind, explainer=explainer) for kind in KINDS]
        lines.append([explainer.replace("_", " "), *(mean(each, "student") for each in own)])
        gains = [
            {"network": f"{row['kind']} {row['seed']}", "student": row["student"], "none": row["student_alone"]}
            for each in own
            for row in each
        ]
        none = [{**row, "student": row["none"]} for row in gains]
        lines[-1].append(paired_difference(gains, none, "student", by="network"))
    alone = [mean(of(rows, set=name, kind=kind, explainer="all"), "student_alone") for kind in KINDS]
    return table(["explainer", *KINDS, "less none"], [*lines, ["none", *alone, ""]])


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


def table_selectors(rows: Rows, name: str, measure: str) -> str:
    """Return the difference of each selector to k-subsets in a measure, paired by seed, for each share of words."""
    lines = []
    for selector in SELECTORS:
        if selector != "k_subsets":
            line = [selector.replace("_", " ")]
            for share in SHARES:
                both = [of(rows, set=name, selector=each, share=share) for each in (selector, "k_subsets")]
                line.append(paired_difference(*both, measure))
            lines.append(line)
    return table(["less k subsets", *(f"{100 * share:g} %" for share in SHARES)], lines)


def table_runs(rows: Rows, name: str) -> str:
    """Return how many words in a row each selector reads, on average, for each share of words."""
    lines = []
    for selector in SELECTORS:
        own = [of(rows, set=name, selector=selector, share=share) for share in SHARES]
        lines.append([selector.replace("_", " "), *(mean(each, "run", 1) for each in own)])
    return table(["selector", *(f"{100 * share:g} %" for share in SHARES)], lines)


def main() -> None:
    """Fill the page."""
    games, chosen = game_runs(RESULTS).rows(), rationale_runs(RESULTS).rows()
    made = {"alignments": table_alignments(alignment_runs(RESULTS).rows())}
    made["claims"] = table_claims(games)
    for name in SETS:
        made |= {f"game {name}": table_game(games, name), f"student {name}": table_students(games, name)}
    for name in ("sst2", "imdb"):
        made |= {f"rationales {name}": table_rationales(chosen, name)}
        made |= {f"selectors {name}": table_selectors(chosen, name, "accuracy")}
        made |= {f"marks {name}": table_selectors(chosen, name, "yelp_f1"), f"runs {name}": table_runs(chosen, name)}
    fill(HERE / "explanations.md", made)


if __name__ == "__main__":
    main()
