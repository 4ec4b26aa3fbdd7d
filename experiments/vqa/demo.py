"""Rows of the tables of the demonstration: lambda on validation questions, and what ``omegamax demo`` measured.

python experiments/vqa/demo.py select 21 22 23          # results/demo_lambda.csv; minutes for each seed
omegamax demo --seed 3 --out demo-3
python experiments/vqa/demo.py add demo-3               # results/demo.csv
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch

from omegamax.data import Ready
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.trials import Trials
from omegamax.tasks.vqa import VQATask, demo
from omegamax.tasks.vqa.report import Comparison
from omegamax.tasks.vqa.scores import Scores

RESULTS = Path(__file__).parent / "results"
LAMBDAS = (5.0, 2.0, 1.0, 0.5, 0.2)
CHOICES = Trials(
    RESULTS / "demo_lambda.csv", ("seed", "selection", "accuracy", "divergence", "components"), ("seed", "selection")
)
KINDS = ("accuracy_yes_no", "accuracy_number", "accuracy_other")
# Of densities besides: accuracy by area of the ellipse, and the area under the ROC curve with narrow as confident.
MAPS = ("divergence", "inside", "zero", "auc", "reliability")
MEASURES = Trials(RESULTS / "demo.csv", ("seed", "kind", "accuracy", *KINDS, *MAPS), ("seed", "kind"))


def select(seed: int, recipe: demo.Recipe) -> Iterator[dict[str, Any]]:
    """Train the networks of the demonstration, and have the mixtures answer validation questions with each lambda."""
    data = recipe.data(seed, workers=demo.processors())
    cnn = demo.train_features(recipe, data, seed, _tell)
    data.featurise(cnn)
    with TemporaryDirectory() as folder:
        demo.train_all(recipe, data, cnn, Path(folder), seed, _tell)
        trained = VQATask.load(Path(folder) / "multimodal" / "model.safetensors")
    questions = data.split("val")
    assert isinstance(questions, Ready)
    for selection in LAMBDAS:
        network = trained.network.replace(output=OutputConfig("multimodal", selection=selection))
        task = VQATask(trained.vocabulary, network, "softmax").eval()
        task.model.load_state_dict(trained.model.state_dict())
        scores = Scores()
        with torch.no_grad():
            for rows in torch.arange(len(questions)).split(250):
                batch = questions.__getitems__(rows.tolist())
                scores.update(task(batch), batch)
        found = {name: round(value, 6) for name, value in scores.compute().items() if name in CHOICES.columns}
        yield {"seed": seed, "selection": selection, **found, "components": json.dumps(scores.components())}


def measured(folder: Path) -> Iterator[dict[str, Any]]:
    """What is in the folder that ``omegamax demo`` wrote."""
    comparison = Comparison.load(folder / "comparison.json")
    seed = int(comparison.settings["command"].split("--seed ")[1].split()[0])
    for row in (*comparison.rows, *([comparison.baseline] if comparison.baseline else [])):
        maps = {"divergence": row.divergence, "inside": row.inside, "zero": row.zero, "auc": row.auc}
        by_kind = {f"accuracy_{kind.replace('/', '_')}": value for kind, value in row.accuracy.items()}
        values = {"accuracy": by_kind.pop("accuracy_overall"), **by_kind, **maps}
        kind = row.kind if row is comparison.baseline else re.sub("[^a-z0-9]+", "_", row.name.lower())
        curve = [[round(point["area"], 5), round(point["accuracy"], 4)] for point in row.reliability]
        yield {"seed": seed, "kind": kind, **_rounded(values), "reliability": json.dumps(curve) if curve else ""}


def _rounded(values: dict[str, float | None]) -> dict[str, float | str]:
    return {name: "" if value is None else round(value, 6) for name, value in values.items()}


def _tell(part: str, done: int) -> None:
    """Nobody waits for it."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("select", help="lambda").add_argument("seeds", type=int, nargs="+")
    commands.add_parser("add", help="what was measured").add_argument("folders", type=Path, nargs="+")
    options = parser.parse_args()
    if options.command == "select":
        recipe = replace(demo.Recipe(), samples=(8000, 2000, 10))
        for seed in options.seeds:
            CHOICES.add(list(select(seed, recipe)))
    else:
        for folder in options.folders:
            MEASURES.add(list(measured(folder)))


if __name__ == "__main__":
    main()
