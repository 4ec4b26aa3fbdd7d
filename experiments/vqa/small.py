"""Rows at the size of the demonstration, on a CPU: what becomes of the weights of softmax, and K* by lambda and floor.

    python experiments/vqa/small.py 0 1 2                  # seeds; results/small.csv, some minutes each

Features, a softmax network of 450 steps, and from its weights 300 steps of every kind: the recipe of ``omegamax demo``.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning as L
import torch
import yaml
from job import COLUMNS, HERE, KEYS, MATCHED, MATCHED_ON, NOTHING, SOFTMAX
from measure import measure
from training import Schedule, train

from omegamax.data import Ready
from omegamax.models.mcan import MCANConfig, OutputAttention, OutputConfig
from omegamax.tasks.experiment import silent_training
from omegamax.tasks.rate import Rate
from omegamax.tasks.trials import Trials
from omegamax.tasks.vqa import VQATask, demo

ROWS = Trials(HERE / "results" / "small.csv", COLUMNS, KEYS)
LATER = {
    SOFTMAX: ("softmax", "sparsemax", "tvmax", "continuous_softmax", "combined_softmax", "multimodal"),
    MATCHED: ("sparsemax", "tvmax"),
}
AGAIN = ("multimodal_0.5", "multimodal_5_floor", "multimodal_0.625_floor")


def output_of(kind: str) -> OutputConfig:
    """Return the attention that a file describes."""
    settings = yaml.safe_load((HERE / "attention" / f"{kind}.yaml").read_text(encoding="utf-8"))
    return OutputConfig(**settings["model"]["network"]["output"])


def make_task(data: Any, network: MCANConfig, kind: str, rate: Rate, seed: int) -> VQATask:
    """Return a network with new weights."""
    L.seed_everything(seed, verbose=False)
    return VQATask(data.vocabulary, network.replace(output=output_of(kind), pixels=False), "softmax", rate=rate)


def rows_of_seed(seed: int, recipe: demo.Recipe) -> Iterator[dict[str, Any]]:
    """Train and measure everything of a seed."""
    data = recipe.data(seed, workers=0)
    data.featurise(demo.train_features(recipe, data, seed, lambda part, done: None))
    splits: dict[str, Ready] = {name: data.split(name) for name in ("train", "val", "test")}
    network, weights = recipe.network("softmax"), {}
    for begin, kinds in ((NOTHING, ("softmax",)), *LATER.items()):
        steps = recipe.start_steps if begin == NOTHING else recipe.steps
        schedule = Schedule(steps, recipe.every, 1.0, 64, seed)
        first = begin == NOTHING
        rate = Rate(3e-3 if first else 2e-3, warmup=100 if first else 20, fall="cosine", interval="step")
        for kind in kinds:
            task = make_task(data, network, kind, rate, seed)
            if weights:
                task.model.load_state_dict(weights, strict=False)
            if begin == MATCHED:
                source = OutputAttention(network.hidden_dim, network.flat_dim, output_of("softmax"))
                own = {name: value for name, value in weights.items() if name.startswith("output.")}
                source.load_state_dict({name.removeprefix("output."): value for name, value in own.items()})
                task.model.match(splits["train"].__getitems__(range(MATCHED_ON)), source.eval())
            trained = train(task, splits, schedule)
            keys = {"set": "small", "begin": begin if first else f"{begin}-{steps}", "seed": seed, "options": ""}
            same = {
                "val_accuracy": round(trained.val_accuracy, 6),
                "best_step": trained.best_step,
                "steps": steps,
                "rate": rate.peak,
                "curve": json.dumps([[step, round(value, 4)] for step, value in trained.curve]),
                "parameters": task.parameters_learnt,
                "seconds": round(trained.seconds, 1),
                "device": "cpu",
            }
            yield {**keys, "kind": kind, **measure(task, splits["test"]), **same}
            if first:
                weights = task.model.state_dict()
            for other in AGAIN if kind == "multimodal" else ():
                again = make_task(data, network, other, rate, seed)
                again.model.load_state_dict(task.model.state_dict())
                yield {**keys, "kind": other, **measure(again, splits["test"]), **same}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("seeds", type=int, nargs="+")
    parser.add_argument("--results", type=Path, default=ROWS.path.parent)
    options = parser.parse_args()
    torch.set_num_threads(1)
    rows = Trials(options.results / "small.csv", COLUMNS, KEYS)
    recipe = replace(demo.Recipe(), samples=(8000, 500, 2000))
    with silent_training():
        for seed in options.seeds:
            for row in rows_of_seed(seed, recipe):
                rows.add([row])


if __name__ == "__main__":
    main()
