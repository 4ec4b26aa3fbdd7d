"""Write the tables of README.md from the rows in ``results``, between the lines that name them.

python experiments/vqa/tables.py
"""

from __future__ import annotations

import json
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from demo import CHOICES, MEASURES
from job import BLIND, NOTHING, SOFTMAX, chosen_rate
from measure import WIDTHS
from run import BASES, GRID, KINDS, LATER, MATCHED, SCALED, TRIED, WAYS, rows_of

from omegamax.data.scenes import QUESTIONS
from omegamax.tasks.tables import fill, mean, paired_difference, table

HERE = Path(__file__).parent
FILES = {"demo": MEASURES, "demo_lambda": CHOICES}
Row = dict[str, str]
Rows = dict[str, list[Row]]  # by kind

NAMES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax": "entmax, alpha learnt",
    "tvmax": "tvmax",
    "k_subsets": "k-subsets, k = 8",
    "continuous_softmax": "continuous softmax",
    "continuous_sparsemax": "continuous sparsemax",
    "continuous_entmax": "continuous 1.5-entmax",
    "multimodal": "multimodal, random K, lambda = 5",
    "multimodal_0.5": "multimodal, random K, lambda = 0.5",
    "multimodal_2.5": "multimodal, random K, lambda = 2.5",
    "multimodal_5_floor": "the same networks, floor 1e-6, lambda = 5",
    "multimodal_0.625_floor": "the same networks, floor 1e-6, lambda = 0.625",
    "multimodal_papers": "trained with floor 1e-6, random starts, no padding, lambda = 5",
    "2_mca": "2-MCA",
    "4_mca": "4-MCA",
    "blind": "language only",
    "softmax_features": "softmax, with numbers",
    "continuous_softmax_features": "continuous softmax, with numbers",
    "combined_softmax": "continuous softmax, combined",
    "combined_multimodal": "multimodal, lambda = 0.5, combined",
    **{f"{kind}_{x}": f"{kind}, scores times {x}" for kind in ("sparsemax", "tvmax") for x in ("0.1", "0.2")},
    **{f"test_mca_{x}": f"test-MCA, lambda = {x}" for x in ("0.05", "0.5", "2.5", "10", "100", "500")},
    **{f"test_mca_{x}_floor": f"test-MCA, floor 1e-6, lambda = {x}" for x in ("0.625", "10", "100", "500")},
}
DEMO = {
    **{kind: NAMES[kind] for kind in ("softmax", "tvmax", "continuous_softmax")},
    "continuous_softmax_combined": "continuous softmax, combined",
    "continuous_sparsemax": NAMES["continuous_sparsemax"],
    "multimodal": NAMES["multimodal_0.5"],
    "test_mca": NAMES["test_mca_0.5"],
    "blind": NAMES["blind"],
}
ASKED = ("yes_no", "number", "other")
MIXTURES = ("2_mca", "4_mca")
LONG = ("--trainer.max_steps=15000", "--trainer.val_check_interval=1500")
# VQA-v2, test-standard, overall: thesis, Tables 6.2 and 6.3; Farinhas, Martins and Aguiar (2021), Table 1.
THESIS = {
    "softmax": "66.13",
    "continuous_softmax": "66.27",
    "continuous_sparsemax": "66.10",
    "continuous_softmax_49": "66.12",
    "continuous_sparsemax_49": "66.10",
    "2_mca": "66.21",
    "4_mca": "66.14",
    "test_mca_10": "66.21",
    "test_mca_100": "66.25",
    "test_mca_500": "66.27",
}
PAPER = {"softmax": "70.94", "continuous_softmax": "70.73", "multimodal": "70.79"}
# Share of K* = 1, ..., 5 in percent: thesis, Table 6.4; with lambda = 5 the paper, Sec. 6.1.
STARS = {
    "test_mca_10": "58.6 / 20.8 / 8.0 / 6.8 / 5.8",
    "test_mca_100": "84.9 / 11.2 / 2.5 / 1.0 / 0.4",
    "test_mca_500": "96.2 / 3.3 / 0.4 / 0.1 / 0.0",
    "multimodal": "80.8 / 12.4 / 4.4 / 2.4",
}
# The papers' code has this floor.
STARS |= {f"{kind}_floor": STARS[kind] for kind in ("test_mca_10", "test_mca_100", "test_mca_500")}
STARS |= dict.fromkeys(("multimodal_5_floor", "multimodal_papers"), STARS["multimodal"])


def read(name: str, begin: str | None = None, by: str = "kind", options: Sequence[str] = ()) -> Rows:
    """Return the rows of a set that began as said and were run with the settings of the files and these options."""
    found: Rows = {}
    for row in FILES.get(name, rows_of(HERE / "results", name)).rows():
        if row.get("options", "") == " ".join(options) and (begin is None or row["begin"] == begin):
            found.setdefault(row[by], []).append(row)
    return found


def stars(rows: Sequence[Row]) -> str:
    """Return the shares of K* = 1, 2, ... in percent."""
    count: Counter[int] = Counter()
    for row in rows:
        count.update({int(k): n for k, n in json.loads(row["components"] or "{}").items()})
    if not count:
        return "-"
    return " / ".join(f"{100 * count[k] / count.total():.1f}" for k in range(1, max(count) + 1))


def zero(kind: str, rows: Sequence[Row]) -> str:
    """Return cells without attention, in percent. A Gaussian has none: what older rows count is too small a float."""
    dense = ("continuous_softmax", "multimodal", *MIXTURES)
    return "0" if rows and kind.startswith(dense) else mean(rows, "zero", seeds=None)


def apart(rows: Sequence[Row], others: Sequence[Row], column: str = "accuracy") -> str:
    """Return the difference with its interval; nothing for a kind and itself."""
    return "-" if rows is others else paired_difference(rows, others, column)


def rates_table() -> str:
    """Return the trials of rates: validation accuracy, the chosen one in bold."""
    lines = []
    for name in TRIED:
        rows = [row for row in rows_of(HERE / "results", "rates").rows() if row["set"] == name]
        for kind in KINDS:
            mine = {float(row["rate"]): row for row in rows if row["kind"] == kind}
            if mine:
                chosen = float(chosen_rate(name, kind) or "nan")
                cells = []
                for rate in TRIED["scenes"][0]:
                    value = mean([mine[rate]], "val_accuracy", seeds=None) if rate in mine else "-"
                    cells.append(f"**{value}**" if rate == chosen else value)
                lines.append([f"{name}, {NAMES[kind]}", *cells])
    return table(["set, attention", *(f"{rate:g}" for rate in TRIED["scenes"][0])], lines)


def scenes_table() -> str:
    """Return what every kind reaches from nothing, beside softmax and the papers."""
    rows = read("scenes", NOTHING)
    head = ["attention", "all", "less softmax [95 %]", *(each.replace("_", "/") for each in ASKED)]
    head += ["JS to relevant (bits)", "rank correlation", "mass inside", "cells at 0 (%)"]
    lines = []
    for kind in (*KINDS, *SCALED, *WAYS, *MIXTURES, BLIND):
        mine = rows.get(kind, [])
        if not mine:
            continue
        line = [NAMES[kind], mean(mine, "accuracy", seeds=5), apart(mine, rows["softmax"])]
        line += [mean(mine, f"accuracy_{each}", seeds=None) for each in ASKED]
        line += [mean(mine, column, 1, 3, None) for column in ("divergence", "rank", "inside")]
        lines.append([*line, zero(kind, mine)])
    return table(head, lines)


def curves_table() -> str:
    """Return validation accuracy over the steps, means over seeds."""
    rows = read("scenes", NOTHING)
    steps = sorted({step for row in rows["softmax"] for step, _ in json.loads(row["curve"])})
    shown = steps[1::2]
    lines = []
    for kind in (*KINDS, *SCALED, *WAYS, *MIXTURES):
        curves = [dict(json.loads(row["curve"])) for row in rows.get(kind, [])]
        if curves:
            found = [f"{100 * statistics.mean(curve[step] for curve in curves):.1f}" for step in shown]
            lines.append([f"{NAMES[kind]} (n = {len(curves)})", *found])
    return table(["validation after steps", *map(str, shown)], lines)


def long_table() -> str:
    """Return networks of the steps of the table, and of three times as many, with the questions about relations."""
    long, lines = read("scenes", NOTHING, options=LONG), []
    short = read("scenes", NOTHING)
    for rows in (short, long):
        for kind in [kind for kind in (*KINDS, *SCALED, *WAYS) if kind in long]:
            seeds = {row["seed"] for row in long[kind]}
            mine = [row for row in rows[kind] if row["seed"] in seeds]
            line = [f"{NAMES[kind]}, {mine[0]['steps']} steps", mean(mine, "accuracy", seeds=5)]
            line += ["-" if kind == "softmax" else apart(mine, rows["softmax"])]
            for each in ASKED:
                column = f"accuracy_{each}"
                less = "" if kind == "softmax" else f", {apart(mine, rows['softmax'], column)}"
                line.append(mean(mine, column, seeds=None) + less)
            for asked in ("beside", "shape_beside"):
                line.append(" / ".join(f"{100 * json.loads(row['by_question'])[asked]:.0f}" for row in _by_seed(mine)))
            lines.append([*line, "-" if rows is short else apart(mine, short[kind]), mean(mine, "probe", seeds=None)])
    head = ["attention", "all", "less softmax [95 %]", *(f"{each.replace('_', '/')}, less softmax" for each in ASKED)]
    head += ["beside, by seed", "shape beside, by seed", "less 5000 steps [95 %]", "count from the context"]
    return table(head, lines)


def _by_seed(rows: Sequence[Row]) -> list[Row]:
    return sorted(rows, key=lambda row: int(row["seed"]))


def trials() -> Rows:
    """Return for each kind the trial of scenes with the rate that was chosen."""
    found: Rows = {}
    for row in rows_of(HERE / "results", "rates").rows():
        if row["set"] == "scenes" and row["rate"] == chosen_rate("scenes", row["kind"]):
            found.setdefault(row["kind"], []).append(row)
    return found


def trials_table() -> str:
    """Return what every kind has reached after the steps of a trial, from nothing."""
    rows, lines = trials(), []
    for kind in KINDS:
        mine = rows[kind]
        line = [
            NAMES[kind],
            *(mean(mine, f"accuracy{each}", seeds=1) for each in ("", *(f"_{each}" for each in ASKED))),
        ]
        line += [mean(mine, column, 1, 3, 1) for column in ("divergence", "rank", "inside")]
        lines.append([*line, zero(kind, mine)])
    head = ["attention", "all", *(each.replace("_", "/") for each in ASKED)]
    return table([*head, "JS to relevant (bits)", "rank correlation", "mass inside", "cells at 0 (%)"], lines)


def start_table() -> str:
    """Return what becomes of the weights of softmax in 1000 steps."""
    rows, lines = read("scenes", f"{SOFTMAX}-1000"), []
    for kind in (*KINDS, *MIXTURES):
        mine = rows[kind]
        line = [NAMES[kind], mean(mine, "accuracy"), apart(mine, rows["softmax"])]
        line += [mean(mine, f"accuracy_{each}") for each in ASKED]
        lines.append([*line, mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3), zero(kind, mine)])
    head = ["attention", "all", "less softmax [95 %]", *(each.replace("_", "/") for each in ASKED)]
    return table([*head, "JS (bits)", "mass inside", "cells at 0 (%)"], lines)


def later_table() -> str:
    """Return what becomes of the weights of the softmax networks that were trained from nothing, by steps."""
    lines = []
    for steps in LATER:
        plain, matched = read("scenes", f"{SOFTMAX}-{steps}"), read("scenes", f"{MATCHED}-{steps}")
        for kind in GRID["scenes"][f"{SOFTMAX}-{steps}"]:
            for suffix, rows in (("", plain), (", matched", matched)):
                mine = rows.get(kind, [])
                if mine:
                    line = [steps, NAMES[kind] + suffix, mean(mine, "accuracy"), apart(mine, plain["softmax"])]
                    line += [mean(mine, f"accuracy_{each}") for each in ASKED]
                    line += [mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3), zero(kind, mine)]
                    lines.append(line)
    head = ["steps", "attention", "all", "less softmax [95 %]", *(each.replace("_", "/") for each in ASKED)]
    return table([*head, "JS (bits)", "mass inside", "cells at 0 (%)"], lines)


# What a claim of the text rests on: a kind, the one it is compared with, the column.
CLAIMS = (
    ("combined_softmax", "continuous_softmax", "accuracy"),
    ("combined_softmax", "continuous_softmax", "accuracy_number"),
    ("continuous_softmax_features", "continuous_softmax", "accuracy"),
    ("continuous_softmax_features", "continuous_softmax", "accuracy_number"),
    ("multimodal", "continuous_softmax", "accuracy"),
    ("4_mca", "continuous_softmax", "accuracy"),
    ("4_mca", "continuous_softmax", "accuracy_number"),
    ("continuous_sparsemax", "continuous_softmax", "accuracy"),
    ("multimodal_0.5", "multimodal", "accuracy"),
    ("sparsemax_0.1", "sparsemax", "accuracy"),
    ("tvmax_0.1", "tvmax", "accuracy"),
    ("tvmax_0.2", "tvmax", "accuracy"),
)


def claims_table() -> str:
    """Return differences between other kinds than softmax, from nothing, paired by seed."""
    rows, lines = read("scenes", NOTHING), []
    for kind, other, column in CLAIMS:
        mine = rows[kind]
        seeds = {row["seed"] for row in mine} & {row["seed"] for row in rows[other]}
        asked = column.removeprefix("accuracy").strip("_") or "all"
        lines.append([NAMES[kind], NAMES[other], asked, str(len(seeds)), apart(mine, rows[other], column)])
    return table(["attention", "less", "questions", "seeds", "difference [95 %]"], lines)


def matched_table() -> str:
    """Return the same at the size of the demonstration, with and without matched sharpness."""
    plain, matched, lines = read("small", f"{SOFTMAX}-300"), read("small", f"{MATCHED}-300"), []
    for kind in ("softmax", "sparsemax", "tvmax", "continuous_softmax", "combined_softmax"):
        for suffix, rows in (("", plain), (", matched", matched)):
            mine = rows.get(kind, [])
            if mine:
                line = [NAMES[kind] + suffix, mean(mine, "accuracy", seeds=None), apart(mine, plain["softmax"])]
                line += [mean(mine, f"accuracy_{each}", seeds=None) for each in ASKED]
                lines.append(
                    [*line, mean(mine, "divergence", 1, 3, None), mean(mine, "inside", 1, 3, None), zero(kind, mine)]
                )
    head = ["attention", "all", "less softmax [95 %]", *(each.replace("_", "/") for each in ASKED)]
    return table([*head, "JS (bits)", "mass inside", "cells at 0 (%)"], lines)


def counting_table() -> str:
    """Return what is left of numbers, and whether the context tells a count."""
    long, short, lines = read("scenes", NOTHING), trials(), []
    for rows, kinds in ((long, (*KINDS, *SCALED, *WAYS, *MIXTURES)), (short, KINDS)):
        for kind in kinds:
            mine = [row for row in rows.get(kind, []) if row["probe"]]
            if mine:
                line = [NAMES[kind], mine[0]["steps"], str(len(mine)), mean(mine, "accuracy", seeds=None)]
                line += [mean(mine, column, seeds=None) for column in ("accuracy_number", "probe", "probe_hidden")]
                lines.append(line)
    head = ["attention", "steps", "seeds", "all", "number", "count from the context, linear", "with 16 hidden units"]
    return table(head, lines)


def blurred() -> Rows:
    """Return for each kind the rows with blurred maps: those of 5000 steps or, where there is none, its trial."""
    long, short = read("scenes", NOTHING), trials()
    kinds = (*KINDS, "multimodal_0.5", *SCALED, *WAYS, *MIXTURES)
    found = {kind: [row for row in long.get(kind) or short.get(kind, []) if row["rank_blurred"]] for kind in kinds}
    return {kind: rows for kind, rows in found.items() if rows}


def blur_table() -> str:
    """Return the divergence from relevance maps that are blurred, by the width of the blur."""
    lines = []
    for column, name in (("divergence_blurred", "JS (bits)"), ("rank_blurred", "rank correlation")):
        for kind, rows in blurred().items():
            found = [json.loads(row[column]) for row in rows]
            means = [f"{statistics.mean(each):.3f}" for each in zip(*found, strict=True)]
            steps = f", {rows[0]['steps']} steps" if rows[0]["steps"] != "5000" else ""
            lines.append([f"{name}: {NAMES[kind]} (n = {len(rows)}{steps})", *means])
    return table(["width of the blur, pixels of 64", *map(str, WIDTHS)], lines)


def order_table() -> str:
    """Return differences of the divergence by the width of the blur, paired by seed: the order of the 2021 paper."""
    rows, lines = blurred(), []
    first = "continuous_softmax"
    pairs = (first, "softmax"), ("multimodal", first), ("multimodal_0.5", first), ("4_mca", first)
    for kind, other in pairs:
        for column, name in (("divergence_blurred", "JS (bits)"), ("rank_blurred", "rank correlation")):
            cells = []
            for place in range(len(WIDTHS)):
                first, second = (
                    [{"seed": row["seed"], column: str(json.loads(row[column])[place])} for row in rows[each]]
                    for each in (kind, other)
                )
                cells.append(paired_difference(first, second, column, 1, 3))
            seeds = len({row["seed"] for row in rows[kind]} & {row["seed"] for row in rows[other]})
            lines.append([f"{name}: {_short(kind)} less {_short(other)} (n = {seeds})", *cells])
    return table(["width of the blur, pixels of 64", *map(str, WIDTHS)], lines)


def _short(kind: str) -> str:
    return NAMES[kind].replace(", random K", "")


def stars_table() -> str:
    """Return lambda against the number of components."""
    rows, lines = read("scenes", f"{SOFTMAX}-1000"), []
    tested = [f"test_mca_{x}" for x in ("0.05", "0.5", "2.5", "10", "100", "500")]
    for kind in ("continuous_softmax", *tested, *MIXTURES, "multimodal", "multimodal_2.5", "multimodal_0.5"):
        mine = rows[kind]
        line = [NAMES[kind], mean(mine, "accuracy"), mean(mine, "divergence", 1, 3), stars(mine)]
        lines.append([*line, THESIS.get(kind) or PAPER.get(kind, "-"), STARS.get(kind, "-")])
    head = ["attention", "all", "JS (bits)", "K* = 1 / 2 / ... (%)", "VQA-v2, papers", "K*, papers (%)"]
    return table(head, lines)


def floor_table() -> str:
    """Return what the floor under covariances makes of lambda, for networks from nothing."""
    rows, lines = read("scenes", NOTHING), []
    tested = [
        f"test_mca_{x}" for x in ("0.05", "0.5", "2.5", "10", "0.625_floor", "10_floor", "100_floor", "500_floor")
    ]
    trained = ["multimodal", "multimodal_2.5", "multimodal_0.5", "multimodal_5_floor", "multimodal_0.625_floor"]
    for kind in ("continuous_softmax", *tested, *trained, "multimodal_papers"):
        mine = rows.get(kind, [])
        if mine:
            first = "continuous_softmax" if kind.startswith("test_mca") else "multimodal"
            line = [NAMES[kind], mean(mine, "accuracy", seeds=None), apart(mine, rows[first])]
            line = line if kind not in (first, "continuous_softmax") else [*line[:2], "-"]
            lines.append([*line, mean(mine, "divergence", 1, 3, None), stars(mine), STARS.get(kind, "-")])
    head = ["attention", "all", "less lambda = 5, or one density [95 %]", "JS (bits)", "K* = 1 / 2 / ... (%)"]
    return table([*head, "K*, papers (%)"], lines)


def crowds_table() -> str:
    """Return the crowded scenes by question."""
    rows = read("crowds", NOTHING)
    asked = [name for name in QUESTIONS if any(name in json.loads(r["by_question"]) for k in rows.values() for r in k)]
    lines = []
    for kind in GRID["crowds"][NOTHING]:
        mine = rows.get(kind, [])
        if not mine:
            continue
        each = [json.loads(row["by_question"]) for row in mine]
        line = [NAMES[kind], mean(mine, "accuracy"), apart(mine, rows["softmax"])]
        line += [f"{100 * statistics.mean(row[name] for row in each):.1f}" for name in asked]
        lines.append([*line, mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3)])
    head = ["attention", "all", "less softmax [95 %]", *(name.replace("_", " ") for name in asked)]
    return table([*head, "JS (bits)", "mass inside"], lines)


def set_table(name: str) -> str:
    """Return accuracies of a real set, and how many cells have no attention."""
    first = BLIND, "softmax"
    begun, later = (read(name, "scenes") or read(name, NOTHING)), read(name, SOFTMAX)
    rows = {"start": begun["softmax"], **later, BLIND: read(name, NOTHING)[first[0]]}
    present = [column for column in ASKED if any(row[f"accuracy_{column}"] for each in rows.values() for row in each)]
    present = present if len(present) > 1 else []  # all are of one kind
    head = ["attention", "all", "less softmax [95 %]", *(column.replace("_", "/") for column in present)]
    head += ["training", "validation", "cells at 0 (%)"]
    lines = []
    for kind in ("start", *KINDS, BLIND):
        mine = rows[kind]
        line = ["(the start: softmax)" if kind == "start" else NAMES[kind], mean(mine, "accuracy")]
        line += [apart(mine, rows["softmax"]), *(mean(mine, f"accuracy_{column}") for column in present)]
        lines.append([*line, *(mean(mine, part) for part in ("train_accuracy", "val_accuracy")), zero(kind, mine)])
    return table(head, lines)


def nlvr_table() -> str:
    """Return statements about boxes of things."""
    rows, lines = read("nlvr", NOTHING), []
    for kind in GRID["nlvr"][NOTHING]:
        mine = rows.get(kind, [])
        line = [NAMES[kind], mean(mine, "accuracy"), apart(mine, rows.get("softmax", []))]
        lines.append([*line, *(mean(mine, part) for part in ("train_accuracy", "val_accuracy")), zero(kind, mine)])
    return table(["attention", "all", "less softmax [95 %]", "training", "validation", "cells at 0 (%)"], lines)


def bases_table() -> str:
    """Return the number of basis functions, with and without padding."""
    rows, lines = read("scenes", f"{SOFTMAX}-1000"), []
    for kind in ("continuous_softmax", "continuous_sparsemax"):
        for name in (kind, *(other for other in BASES if other.startswith(kind))):
            mine = rows.get(name, [])
            count, padded = ("49" if "49" in name else "100"), ("no" if "unpadded" in name else "yes")
            line = [NAMES[kind], count, padded, mean(mine, "accuracy"), apart(mine, rows[kind])]
            line += [mean(mine, "accuracy_number"), mean(mine, "divergence", 1, 3)]
            lines.append([*line, THESIS.get(name, "-")])
    head = ["attention", "N", "padding", "all", "less N = 100, padded [95 %]", "number", "JS (bits)", "VQA-v2, thesis"]
    return table(head, lines)


def demo_table() -> str:
    """Return what ``omegamax demo`` measures."""
    rows, lines = read("demo"), []
    for kind, name in DEMO.items():
        mine = rows.get(kind, [])
        line = [name, mean(mine, "accuracy"), apart(mine, rows["softmax"])]
        line += [mean(mine, f"accuracy_{each}") for each in ASKED]
        lines.append([*line, mean(mine, "divergence", 1, 3), mean(mine, "inside", 1, 3), zero(kind, mine)])
    head = ["attention", "all", "less softmax [95 %]", *(each.replace("_", "/") for each in ASKED)]
    return table([*head, "JS (bits)", "mass inside", "cells at 0 (%)"], lines)


def confidence_table() -> str:
    """Return whether the area of the ellipse tells if the answer is right: eighths of the questions, narrow to wide."""
    rows, lines = read("demo"), []
    for kind, name in DEMO.items():
        mine = [row for row in rows.get(kind, []) if row["reliability"]]
        if mine:
            curves = [[value for _, value in json.loads(row["reliability"])] for row in mine]
            eighths = [f"{100 * statistics.mean(each):.0f}" for each in zip(*curves, strict=True)]
            lines.append([name, mean(mine, "auc", 1, 2), *eighths])
    return table(["attention", "area under the ROC curve", *(f"eighth {n}" for n in range(1, 9))], lines)


def lambda_table() -> str:
    """Return how lambda of the demonstration was chosen."""
    lines = [
        [f"{float(value):g}", mean(rows, "accuracy"), mean(rows, "divergence", 1, 3), stars(rows)]
        for value, rows in read("demo_lambda", by="selection").items()
    ]
    return table(["lambda", "all, validation", "JS (bits)", "K* = 1 / 2 / ... (%)"], lines)


def main() -> None:
    made = {name: set_table(name) for name in ("easy_vqa", "shapes", "daquar")}
    made |= {"rates": rates_table(), "scenes": scenes_table(), "trials": trials_table(), "curves": curves_table()}
    made |= {"start": start_table(), "matched": matched_table(), "counting": counting_table(), "blur": blur_table()}
    made |= {"crowds": crowds_table(), "bases": bases_table(), "components": stars_table(), "floor": floor_table()}
    made |= {"demo": demo_table(), "lambda": lambda_table(), "later": later_table(), "claims": claims_table()}
    made |= {"order": order_table(), "nlvr": nlvr_table(), "long": long_table()}
    made["confidence"] = confidence_table()
    fill(sys.argv[1] if len(sys.argv) > 1 else HERE / "README.md", made)


if __name__ == "__main__":
    main()
