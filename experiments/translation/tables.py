"""Write the tables of README.md from results/*.csv and results/outputs.

python experiments/translation/tables.py --data sets      # with sets/multi30k: BLEU is computed from the outputs
python experiments/translation/tables.py --data sets --results results/small --page small.md

A page has the tables that it has a place for.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from statistics import mean as average

from job import HERE, OUTPUTS, RECURRENT, TRANSFORMERS, WIDTHS, Settings, read_lines, tried_kind
from run import Files, choose
from sets import FORMS

from omegamax.data.text import split_words
from omegamax.data.translation import Multi30k, SentencePair
from omegamax.metrics import rep_score
from omegamax.tasks.experiment import VARIABLE
from omegamax.tasks.tables import fill, mean, paired_difference, table
from omegamax.tasks.translation import WordAligner, compare_bleu, measure_bleu

Rows = Sequence[dict[str, str]]
SEEDS = 3
SAMPLES = 1000
TITLES = {
    "softmax": "softmax",
    "entmax15": "entmax 1.5, attention and output",
    "sparsemax": "sparsemax output",
    "adaptive": "attention with learnt alphas",
    "softmax_cased": "softmax, cased",
    "recurrent": "softmax",
    "continuous_softmax": "softmax + continuous softmax",
    "continuous_sparsemax": "softmax + continuous sparsemax",
    "recurrent_sparsemax": "sparsemax",
    "constrained_softmax": "constrained softmax, fertility 2",
    "constrained_sparsemax": "constrained sparsemax, fertility 2",
    "constrained_sparsemax_table": "constrained sparsemax, fertility by a table",
}
SEARCHED = {
    "BLEU": ("bleu", 1, 2),
    "length": ("brevity", 1, 3),
    "proven exact, %": ("exact", 100, 1),
    "empty, %": ("empty", 100, 1),
    "repeated, %": ("repeated", 100, 1),
}
PARTS = {"encoder": "encoder", "decoder": "decoder, its own words", "source": "decoder, the source"}


class Results:
    """Rows and translations of a folder, and the pairs that they are measured on; None: only rows are read."""

    def __init__(self, folder: Path, data: str | None, pairs: int | None = None) -> None:
        self.files, self.outputs = Files(folder), folder / "outputs"
        self.folder = None if data is None else Path(data, "multi30k")
        self.test = [] if self.folder is None else list(Multi30k(self.folder, "test"))[:pairs]
        self.rows = self.files.runs.rows()

    def of(self, kind: str) -> list[dict[str, str]]:
        """Return the rows of a kind, with BLEU, REP and DROP of its translations if there are references."""
        own = [row for row in self.rows if row["kind"] == kind]
        return [{**row, **self.measure(kind, row["seed"])} for row in own] if self.test else own

    def lines(self, kind: str, seed: str) -> list[str]:
        """Return the translations of a network."""
        return read_lines(self.outputs / f"{kind}-{seed}.txt.xz")

    def pairs(self, kind: str, seed: str) -> dict[str, tuple[str, str]]:
        """Return translations and references by the ids of the sentences."""
        lines = zip(self.lines(kind, seed), self.test, strict=True)
        return {pair.id: (line, pair.target) for line, pair in lines}

    @cache  # noqa: B019, there is one for a process
    def measure(self, kind: str, seed: str) -> dict[str, str]:
        """Return measures of the translations of a network."""
        lines, form = self.lines(kind, seed), FORMS["cased" if kind.endswith("cased") else "lower"]
        references = [pair.target for pair in self.test]
        report = measure_bleu(lines, references, form)
        said, wanted = ([split_words(form(text).lower()) for text in side] for side in (lines, references))
        # To the digits of the rows, so that a cell is the same with the references and without.
        found = {"bleu": round(report.score, 3), "rep": float(rep_score(said, wanted)), "signature": report.signature}
        if kind in RECURRENT:
            found["drop"] = self.aligner.measure_drop([pair.source for pair in self.test], lines, references)
        return {key: str(value) for key, value in found.items()}

    @property
    @cache  # noqa: B019
    def aligner(self) -> WordAligner:
        """Return the aligner that DROP is measured by."""
        assert self.folder is not None
        pairs: list[SentencePair] = list(Multi30k(self.folder, "train"))
        return WordAligner(pairs)


def networks(results: Results, kinds: Sequence[str]) -> str:
    """BLEU of kinds of network."""
    lines = []
    for kind in kinds:
        own = results.of(kind)
        val = mean(own, "val_bleu", 1, 2, SEEDS)
        sizes = dict.fromkeys(f"{int(row['parameters']) / 1e6:.1f}" for row in own)
        lines.append([TITLES[kind], mean(own, "bleu", 1, 2, SEEDS), val, " ".join(sizes) or "-"])
    return table(["network", "test BLEU", "validation BLEU", "million weights"], lines)


def bootstrap(results: Results, kinds: Sequence[str], other: str) -> str:
    """Differences of BLEU to another kind: of each seed, with the p-value of sacrebleu's paired bootstrap, and in all.

    The intervals are Student's, of the mean over seeds.
    """
    lines = []
    for kind in kinds:
        own, theirs = ({row["seed"] for row in results.rows if row["kind"] == each} for each in (kind, other))
        cells = []
        for seed in map(str, range(SEEDS)):
            if seed not in own & theirs:
                cells.append("-")
                continue
            gain, p_value = compare_bleu(results.pairs(other, seed), results.pairs(kind, seed), FORMS["lower"], SAMPLES)
            cells.append(f"{gain:+.2f} (p = {p_value:.3f})")
        sides = results.of(kind), results.of(other)
        means = [paired_difference(*sides, name, 1, 2) for name in ("bleu", "val_bleu")]
        lines.append([TITLES[kind], *cells, *means])
    head = [f"less {TITLES[other]}", *(f"seed {seed}" for seed in range(SEEDS)), "test, mean", "validation, mean"]
    return table(head, lines)


def searches(results: Results) -> str:
    """What searches with a beam of 5 know."""
    lines = []
    for kind in OUTPUTS:
        own = results.of(kind)
        shares = [mean(own, name, 100, 1, SEEDS) for name in ("exact", "complete", "empty", "repeated")]
        smoothing = dict.fromkeys(f"{float(row['smoothing']):g}" for row in own)
        lines.append([TITLES[kind], " ".join(smoothing) or "-", mean(own, "support", 1, 1, SEEDS), *shares])
    head = ["output", "smoothing", "words that can follow"]
    return table([*head, "proven exact, %", "only one possible, %", "empty, %", "repeated, %"], lines)


def widths(results: Results) -> str:
    """Measures of searches by the width of the beam, without a penalty."""
    rows = results.files.widths.rows()
    lines = []
    for kind in OUTPUTS:
        own = [[row for row in rows if (row["kind"], row["beam"]) == (kind, str(beam))] for beam in WIDTHS]
        for title, (name, scale, digits) in SEARCHED.items():
            lines.append([f"{TITLES[kind]}: {title}", *(mean(each, name, scale, digits, SEEDS) for each in own)])
    return table(["output", *(f"beam {beam}" for beam in WIDTHS)], lines)


def fertility(results: Results) -> str:
    """REP, DROP and BLEU of recurrent networks, and what they are more than those of softmax, paired by seed."""
    lines, names = [], ("rep", "drop", "bleu")
    for kind in RECURRENT:
        if not kind.startswith("continuous"):
            own, others = results.of(kind), results.of("recurrent")
            more = ["" if kind == "recurrent" else paired_difference(own, others, name, 1, 2) for name in names]
            cells = [(mean(own, name, 1, 2, SEEDS), each) for name, each in zip(names, more, strict=True)]
            lines.append([TITLES[kind], *(cell for pair in cells for cell in pair)])
    head = [text for title in ("REP", "DROP", "BLEU") for text in (title, "less softmax")]
    return table(["attention", *head], lines)


def alphas(results: Results) -> str:
    """Alphas of heads, sorted within a layer: mean over seeds."""
    rows = results.files.alphas.rows()
    lines = []
    for part, title in PARTS.items():
        own = [row for row in rows if row["part"] == part]
        for layer in sorted({int(row["layer"]) for row in own}):
            here = [row for row in own if row["layer"] == str(layer)]
            seeds = sorted({row["seed"] for row in here})
            heads = [sorted(float(row["alpha"]) for row in here if row["seed"] == seed) for seed in seeds]
            means = [average(column) for column in zip(*heads, strict=True)]
            lines.append([f"{title}, layer {layer + 1}", " ".join(f"{value:.2f}" for value in means)])
    return table(["heads", "alphas, the smallest first"], lines or [["-", "-"]])


def trials(results: Results) -> str:
    """What was tried, and what was chosen."""
    rows = results.files.trials.rows()
    head = ["kind", "subwords", "D", "hidden", "layers", "dropout", "BPE dropout", "rate", "smoothing"]
    head += ["steps", "tokens", "BLEU"]
    names = ("size", "dim", "hidden", "layers", "dropout", "merges", "rate", "smoothing", "steps", "tokens")
    bold = {id(chosen(results, rows, kind)) for kind in {row["kind"] for row in rows}}
    lines = []
    for row in rows:
        cells = {**row, "merges": "0.1" if row["merges"] == "1" else "0", "rate": f"{row['rate']} {row['fall']}"}
        score = f"{float(row['val_bleu']):.2f}"
        lines.append([row["kind"], *(cells[name] for name in names), f"**{score}**" if id(row) in bold else score])
    return table(head, lines or [["-"] * len(head)])


def chosen(results: Results, rows: Rows, kind: str) -> dict[str, str] | None:
    """Return the trial whose settings the networks of a kind have, or would have."""
    done = next((row for row in results.rows if row["kind"] == kind), None)
    settings = choose(list(rows), kind) if done is None else Settings.of(done)
    names = ("smoothing", "dropout") if tried_kind(kind) != kind else tuple(settings.columns)

    def agrees(row: dict[str, str]) -> bool:
        return all(Settings.of(row).columns[name] == settings.columns[name] for name in names)

    same = [row for row in rows if row["kind"] == kind and agrees(row)]
    return max(same, key=lambda row: float(row["val_bleu"]), default=None)


def make(results: Results) -> dict[str, Callable[[], str]]:
    """Return the tables by name."""
    lower = [kind for kind in TRANSFORMERS if not kind.endswith("cased")]
    density = ("recurrent", "continuous_softmax", "continuous_sparsemax")
    return {
        "transformers": lambda: networks(results, list(TRANSFORMERS)),
        "bootstrap": lambda: bootstrap(results, lower[1:], "softmax"),
        "recurrent": lambda: networks(results, density),
        "densities": lambda: bootstrap(results, density[1:], "recurrent"),
        "searches": lambda: searches(results),
        "widths": lambda: widths(results),
        "fertility": lambda: fertility(results),
        "alphas": lambda: alphas(results),
        "trials": lambda: trials(results),
    }


def main() -> None:
    """Fill the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get(VARIABLE), required=VARIABLE not in os.environ)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--page", type=Path, default=HERE / "README.md")
    options = parser.parse_args()
    results = Results(options.results, options.data)
    page = options.page.read_text(encoding="utf-8")
    fill(options.page, {name: made() for name, made in make(results).items() if f"<!-- table {name} -->" in page})


if __name__ == "__main__":
    main()
