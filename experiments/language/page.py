"""Make a page of the texts that networks of run.py have written, side by side, with the numbers of all seeds.

python experiments/language/page.py --vocabulary tokens.json --out report.html
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from run import HERE, MEASURES, runs_of

from omegamax.data.subwords import Subwords
from omegamax.tasks.language.data import load_subwords
from omegamax.tasks.language.report import (
    LanguageComparison,
    LanguageExample,
    LanguageRow,
    WrittenText,
    write_report,
)
from omegamax.tasks.language.write import split_pieces


def name_run(record: dict[str, Any]) -> str:
    """Return the name of a row: the output, what is cut, and what is in attention where it is not softmax."""
    cut = "" if record["decoding"] == "none" else f", {record['decoding']}"
    attention = "" if record["attention"] == "softmax" else f"; {record['attention']} in attention"
    return f"{record['output']}{cut}{attention}"


def make_row(name: str, rows: list[dict[str, str]]) -> LanguageRow:
    """Return the means of all seeds."""
    scores: dict[str, float | None] = {}
    for measure in MEASURES:
        values = [float(row[measure]) for row in rows if row[measure]]
        scores[measure] = sum(values) / len(values) if values else None
    kind = "entmax" if rows[0]["output"] == "learnt" else rows[0]["output"]
    return LanguageRow(name, kind, scores)


def make_example(place: int, records: list[dict[str, Any]], vocabulary: Subwords) -> LanguageExample:
    """Return what all networks wrote after one prompt."""
    looks: dict[str, list[WrittenText]] = {}
    for record in records:
        pieces, at, sizes = split_pieces(vocabulary, tuple(record["text"])), 0, []
        for _, count in pieces:
            sizes.append(record["sizes"][at])
            at += count
        looks[name_run(record)] = [WrittenText([text for text, _ in pieces], sizes, finished=False)]
    prompt, truth = (vocabulary.decode(records[0][key]) for key in ("prompt", "truth"))
    return LanguageExample(f"prompt-{place}", prompt, truth, looks, len(vocabulary))


def main() -> None:
    """Write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabulary", default="tokens.json", help="what corpus.py wrote beside the tokens")
    parser.add_argument("--results", type=Path, default=HERE / "results")
    parser.add_argument("--out", type=Path, default=Path("report.html"))
    options = parser.parse_args()
    vocabulary = load_subwords(options.vocabulary)
    lines = (options.results / "written.jsonl").read_text(encoding="utf-8").splitlines()
    records = [json.loads(line) for line in lines]
    by_name: dict[str, list[dict[str, str]]] = {}
    for row in runs_of(options.results).rows():
        by_name.setdefault(name_run(row), []).append(row)
    prompts = list(dict.fromkeys(tuple(record["prompt"]) for record in records))
    examples = [
        make_example(place, [record for record in records if tuple(record["prompt"]) == prompt], vocabulary)
        for place, prompt in enumerate(prompts)
    ]
    seeds = len({row["seed"] for rows in by_name.values() for row in rows})
    comparison = LanguageComparison(
        "What language models write after IMDB's reviews",
        f"Means of {seeds} seed{'s' if seeds > 1 else ''} in the table; texts of the first seed.",
        [make_row(name, rows) for name, rows in by_name.items()],
        examples,
        {"script": "experiments/language/page.py"},
    )
    print(write_report(comparison, options.out))


if __name__ == "__main__":
    main()
