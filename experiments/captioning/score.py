"""Score the captions of results/captions by pycocoevalcap: rows of results/scores.csv.

    pip install 'omegamax[captions]'
    python experiments/captioning/score.py --data FOLDER

``FOLDER`` holds ``flickr8k``. Words are those of the Penn Treebank's tokeniser, which needs Java, as does METEOR.
"""

from __future__ import annotations

import argparse
import json
import lzma
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from job import HERE, KEYS, name
from run import runs

from omegamax.data.captions import read_flickr8k
from omegamax.metrics import caption_scores, missing_scores
from omegamax.tasks.experiment import VARIABLE, tell_end
from omegamax.tasks.trials import Trials

SCORES = ("BLEU-1", "BLEU-2", "BLEU-3", "BLEU-4", "METEOR", "ROUGE-L", "CIDEr", "SPICE")


def scores(folder: Path) -> Trials:
    """Return the rows of scores, with the keys of the networks."""
    return Trials(folder / "scores.csv", (*KEYS, *SCORES), KEYS)


def read_captions(path: Path) -> dict[str, str]:
    """Return the captions of a file by the names of the pictures."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        return {line["image"]: line["caption"] for line in map(json.loads, file)}


def main() -> int:
    """Score what has no row yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get(VARIABLE), required=VARIABLE not in os.environ)
    parser.add_argument("--results", type=Path, default=HERE / "results")
    options = parser.parse_args()
    entries = read_flickr8k(Path(options.data) / "flickr8k", "test")
    for score, reason in missing_scores().items():
        print(f"no {score}: {reason}", file=sys.stderr)

    def work(job: Mapping[str, Any]) -> dict[str, Any]:
        said = read_captions(options.results / "captions" / f"{name(job)}.jsonl.xz")
        texts, known = [said[entry.image] for entry in entries], [entry.references for entry in entries]
        return {**dict.fromkeys(SCORES, ""), **job, **caption_scores(texts, known, tokeniser="ptb")}

    table = scores(options.results)
    jobs = [{key: row[key] for key in KEYS} for row in runs(options.results).rows()]
    return tell_end(table, table.run(jobs, work))


if __name__ == "__main__":
    sys.exit(main())
