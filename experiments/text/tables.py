"""Write the tables of README.md from results/*.csv."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import mean as average

import numpy as np
from job import CONTINUOUS, DISCRETE, FUNCTIONS, HERE, KINDS, SHORT, TRANSFORMERS, Settings, grid, unpack_bits
from run import Files, choose, tried_kind
from sets import HUMAN, SENTENCES, SETS

from omegamax.tasks.tables import fill, mean, paired_difference, table

Rows = Sequence[dict[str, str]]
SEEDS = 3
BOOTSTRAPS = 2000
TITLES = {"imdb": "IMDB", "mr": "MR", "sst2": "SST-2", "sst5": "SST-5", "trec": "TREC", "subj": "Subj"}
FORMS = {
    "continuous_softmax": "continuous softmax",
    "continuous_sparsemax": "continuous sparsemax",
    "combined_softmax": "discrete + continuous softmax",
    "combined_sparsemax": "discrete + continuous sparsemax",
}
NAMES = {
    "softmax": "softmax",
    "sparsemax": "sparsemax",
    "entmax": "entmax, learnt alpha",
    "fusedmax": "fusedmax",
    "k_subsets": "k-subsets, k = 5",
    **{f"{form}_{count}": f"{title}, N = {count}" for form, title in FORMS.items() for count in FUNCTIONS},
    "transformer": "transformer, learnt alphas",
    "transformer_softmax": "transformer, softmax heads",
}
# Table 1 of the paper, in percent.
PAPER = {"softmax": 90.78, "sparsemax": 90.58}
for _form, _values in (
    ("continuous_softmax", (90.20, 90.68, 90.52)),
    ("continuous_sparsemax", (90.52, 89.63, 90.90)),
    ("combined_softmax", (90.98, 90.69, 89.62)),
    ("combined_sparsemax", (91.10, 91.18, 90.98)),
):
    PAPER |= {f"{_form}_{count}": value for count, value in zip(FUNCTIONS, _values, strict=True)}


def of(rows: Rows, name: str, kind: str) -> list[dict[str, str]]:
    """Rows of a set and an attention."""
    return [row for row in rows if (row["set"], row["kind"]) == (name, kind)]


def bootstrap(rights: Rows, name: str, kind: str, other: str) -> str:
    """Difference of two attentions in points, and its 95 % interval over test texts, seeds paired and as they are.

    Texts are drawn with replacement; of each, how often the one is right over the seeds less how often the other is.
    In sets whose seeds are folds, all their test texts stand together.
    """
    bits: dict[str, dict[str, np.ndarray]] = {}
    for each in (kind, other):
        bits[each] = {row["seed"]: unpack_bits(row["right"]).astype(float) for row in of(rights, name, each)}
    seeds = [seed for seed in bits[kind] if seed in bits[other]]
    if not seeds:
        return "-"
    falls = [bits[kind][seed] - bits[other][seed] for seed in seeds]
    each_text = np.concatenate(falls) if name in ("mr", "subj") else np.mean(falls, 0)
    draws = np.random.default_rng(0)
    means = [100 * draws.choice(each_text, len(each_text)).mean() for _ in range(BOOTSTRAPS)]
    low, high = np.quantile(means, (0.025, 0.975))
    return f"{100 * each_text.mean():+.2f} [{low:+.2f}, {high:+.2f}]"


def paper_table(rows: Rows) -> str:
    """Table 1: ours over the paper's, three numbers of basis functions side by side."""
    head = ["attention", "ours", "paper", *(f"N = {count}, {who}" for count in FUNCTIONS for who in ("ours", "paper"))]
    lines = []
    for kind in ("softmax", "sparsemax"):
        own = mean(of(rows, "imdb", kind), "accuracy", digits=2, seeds=SEEDS)
        lines.append([f"discrete {kind}", own, f"{PAPER[kind]:.2f}", *[""] * 2 * len(FUNCTIONS)])
    for form, title in FORMS.items():
        cells = []
        for count in FUNCTIONS:
            kind = f"{form}_{count}"
            cells += [mean(of(rows, "imdb", kind), "accuracy", digits=2, seeds=SEEDS), f"{PAPER[kind]:.2f}"]
        lines.append([title, "", "", *cells])
    return table(head, lines)


def differences(rows: Rows, rights: Rows) -> str:
    """Every attention on IMDB less softmax: over seeds, over test texts; and what the paper has."""
    lines = []
    for kind in KINDS:
        if kind == "softmax":
            continue
        seeds = paired_difference(of(rows, "imdb", kind), of(rows, "imdb", "softmax"), "accuracy", digits=2)
        paper = f"{PAPER[kind] - PAPER['softmax']:+.2f}" if kind in PAPER else ""
        lines.append([NAMES[kind], seeds, bootstrap(rights, "imdb", kind, "softmax"), paper])
    return table(["attention less softmax", "over seeds", "over test texts", "paper"], lines)


def others(rows: Rows) -> str:
    """Attentions on IMDB that the paper's table has not."""
    lines = []
    for kind in ("entmax", "fusedmax", "k_subsets"):
        own = of(rows, "imdb", kind)
        alpha = mean(own, "alpha", 1, 2, SEEDS) if kind == "entmax" else ""
        lines.append([NAMES[kind], mean(own, "accuracy", digits=2, seeds=SEEDS), alpha])
    return table(["attention", "accuracy", "alpha"], lines)


def sentences(rows: Rows) -> str:
    """Accuracy on the sets of sentences."""
    lines = [
        [NAMES[kind], *(mean(of(rows, name, kind), "accuracy", seeds=SEEDS) for name in SENTENCES)] for kind in SHORT
    ]
    return table(["attention", *(TITLES[name] for name in SENTENCES)], lines)


def sentence_differences(rows: Rows, rights: Rows) -> str:
    """Differences to softmax on the sets of sentences, over test texts."""
    lines = []
    for kind in SHORT:
        other = "transformer_softmax" if kind in TRANSFORMERS else "softmax"
        if kind != other:
            lines.append([NAMES[kind], *(bootstrap(rights, name, kind, other) for name in SENTENCES)])
    return table(["attention", *(TITLES[name] for name in SENTENCES)], lines)


def zeros(rows: Rows) -> str:
    """Words with exactly no attention, in percent."""
    lines = []
    for kind in (*DISCRETE, *(kind for kind in CONTINUOUS if kind.endswith("_32"))):
        cells = [mean(of(rows, name, kind), "zero", digits=0, seeds=SEEDS) for name in SETS]
        lines.append([NAMES[kind], *cells])
    return table(["attention", *(TITLES[name] for name in SETS)], lines)


def alphas(rows: Rows) -> str:
    """Alphas of the transformer's heads, sorted within a layer: mean over seeds."""
    lines = []
    for name in SENTENCES:
        own = [row for row in rows if row["set"] == name and row["kind"] == "transformer"]
        line = [TITLES[name]]
        for layer in ("0", "1"):
            seeds = sorted({row["seed"] for row in own})
            heads = [sorted(float(r["alpha"]) for r in own if (r["seed"], r["layer"]) == (s, layer)) for s in seeds]
            line.append(" ".join(f"{average(column):.2f}" for column in zip(*heads, strict=True)) if heads else "-")
        lines.append(line)
    return table(["set", "first layer", "second layer"], lines)


def people(rows: Rows, subset: str) -> str:
    """Agreement with people on a part of Yelp-HAT, and the measures of ERASER."""
    measures = {"accuracy": 100, "js": 1, "auc": 1, "rank": 1, "comprehensiveness": 1, "sufficiency": 1}
    own = [row for row in rows if row["subset"] == subset]
    lines = []
    for kind in KINDS:
        found = [row for row in own if row["kind"] == kind]
        cells = [mean(found, key, scale, 1 if scale == 100 else 3, SEEDS) for key, scale in measures.items()]
        lines.append([NAMES[kind], *cells])
    equal = mean(own[:1], "js_equal", 1, 3, None) if own else "-"
    softmax = [row for row in own if row["kind"] == "softmax"]
    random = [mean(softmax, f"{key}_random", 1, 3, SEEDS) for key in ("comprehensiveness", "sufficiency")]
    lines += [
        ["equal weights", "", equal, "0.500", "", "", ""],
        ["random words, softmax's network", "", "", "", "", *random],
    ]
    return table(["attention", "accuracy", "JS", "AUC", "rank correlation", "comprehensiveness", "sufficiency"], lines)


def people_differences(rows: Rows) -> str:
    """Differences to softmax in agreement with people, over seeds, for all three parts."""
    lines = []
    for kind in KINDS:
        if kind == "softmax":
            continue
        line = [NAMES[kind]]
        for subset in HUMAN:
            own = [[r for r in rows if (r["subset"], r["kind"]) == (subset, each)] for each in (kind, "softmax")]
            line += [paired_difference(*own, "auc", 1, 3), paired_difference(*own, "comprehensiveness", 1, 3)]
        lines.append(line)
    head = [
        f"{subset.removesuffix('words')} words, {what}" for subset in HUMAN for what in ("AUC", "comprehensiveness")
    ]
    return table(["attention less softmax", *head], lines)


def trials(rows: Rows) -> str:
    """Validation of what was tried, and what was chosen."""
    lines = []
    for name in SETS:
        for kind in ("softmax", "transformer"):
            own = of(rows, name, kind)
            if not own:
                continue
            best = choose(list(rows), name, kind)
            tried = "; ".join(f"{say(Settings.of(row))}: {100 * float(row['val_accuracy']):.1f}" for row in own)
            lines.append([f"{TITLES[name]}, {'BiLSTM' if kind == 'softmax' else kind}", say(best), tried])
    return table(["set", "chosen", "all, with validation accuracy"], lines)


def rates(rows: Rows) -> str:
    """Validation of what was tried on IMDB for each attention: what networks start from, and the rate."""
    settings = grid("imdb", "sparsemax")
    lines = []
    for kind in KINDS:
        if tried_kind("imdb", kind) != kind:
            continue
        own = {Settings.of(row): float(row["val_accuracy"]) for row in of(rows, "imdb", kind)}
        best = choose(list(rows), "imdb", kind)
        cells = [f"{100 * own[each]:.1f}" if each in own else "-" for each in settings]
        lines.append(
            [NAMES[kind], *(f"**{c}**" if each == best else c for each, c in zip(settings, cells, strict=True))]
        )
    return table(["attention", *(say(each).rpartition(",")[0] for each in settings)], lines)


def say(settings: Settings) -> str:
    """Settings in a few words."""
    start = "" if settings.start == "vectors" else "LM, "
    return f"{start}{settings.rate:g}, {settings.dropout:g}{', frozen' if settings.freeze else ''}"


def make(folder: Path) -> dict[str, Callable[[], str]]:
    """Return what makes each table."""
    files = Files(folder)
    rows, rights, human = files.runs.rows(), files.right.rows(), files.human.rows()
    return {
        "paper": lambda: paper_table(rows),
        "differences": lambda: differences(rows, rights),
        "others": lambda: others(rows),
        "sentences": lambda: sentences(rows),
        "sentence differences": lambda: sentence_differences(rows, rights),
        "zeros": lambda: zeros(rows),
        "alphas": lambda: alphas(files.alphas.rows()),
        "people": lambda: people(human, "100words"),
        "people differences": lambda: people_differences(human),
        "trials": lambda: trials(files.trials.rows()),
        "rates": lambda: rates(files.trials.rows()),
    }


def main() -> None:
    fill(HERE / "README.md", {name: build() for name, build in make(HERE / "results").items()})


if __name__ == "__main__":
    main()
