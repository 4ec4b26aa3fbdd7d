"""Rationales: how accurate a network is that reads only a few words, by their number and by what chooses them.

    python experiments/text/rationales.py --trials             # settings, by validation
    python experiments/text/rationales.py                      # with the best of them, several seeds
    python experiments/text/rationales.py --sets imdb --selectors k_subsets --seeds 0

Rows go to ``results/rationale_trials.csv`` and ``results/rationales.csv`` as they are done. Networks learn from SST-2
or IMDB, and are also asked about the reviews of Yelp-HAT, in which people marked words.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fit import HERE, Place, Schedule, batches, make_task, read_set, read_yelp_hat, train
from torch import Tensor

from omegamax.data.text import PackedTexts
from omegamax.metrics import token_f1
from omegamax.models.text import RationaleConfig, TextConfig
from omegamax.models.text.rationale_config import SELECTORS
from omegamax.tasks.experiment import Arguments, silent_training, tell_end
from omegamax.tasks.text import TextTask
from omegamax.tasks.trials import Trials

SETS = ("sst2", "imdb")
FULL = "all"  # words are read
SHARES = (0.05, 0.1, 0.2, 0.4)
TRIAL_SHARE = 0.2
TEMPERATURES = {"hard_concrete": (0.3, 0.6), "other": (0.1, 0.5)}
RATE = 1e-3
SIZES = {"hidden_dim": 64, "score_dim": 64, "dropout": 0.3}
# Epochs, texts in a batch, and steps in which hard concrete comes down to its length.
TRAINING = {"sst2": (7, 64, 300), "imdb": (6, 256, 250)}
CHOSEN = ("temperature",)
KEYS = ("set", "selector", "share", "seed", *CHOSEN)
TRAINED = ("val_accuracy", "val_loss", "best_epoch", "seconds", "device")
MEASURED = ("accuracy", "read", "run", "yelp_accuracy", "yelp_read", "yelp_f1", "yelp_chance")
COLUMNS = (*KEYS, *MEASURED, *TRAINED)
TRIAL_KEYS = ("set", "selector", *CHOSEN)
TRIAL_COLUMNS = (*TRIAL_KEYS, *TRAINED)


def trials(folder: Path) -> Trials:
    """Return the rows of the validations that settings come from."""
    return Trials(folder / "rationale_trials.csv", TRIAL_COLUMNS, TRIAL_KEYS)


def runs(folder: Path) -> Trials:
    """Return the rows of the table."""
    return Trials(folder / "rationales.csv", COLUMNS, KEYS)


def list_temperatures(selector: str) -> Sequence[float]:
    """Return the temperatures to try; what reads all words has none."""
    return (1.0,) if selector == FULL else TEMPERATURES.get(selector, TEMPERATURES["other"])


def choose(rows: Sequence[Mapping[str, str]], name: str, selector: str) -> dict[str, float]:
    """Return the settings with the best validation on a set; without trials the first."""
    own = [row for row in rows if (row["set"], row["selector"]) == (name, selector)]
    if not own:
        return {"temperature": list_temperatures(selector)[0]}
    best = max(own, key=lambda row: (float(row["val_accuracy"]), -float(row["val_loss"])))
    return {key: float(best[key]) for key in CHOSEN}


def fit(job: Mapping[str, Any], place: Place, seed: int, epochs: int | None) -> tuple[TextTask, dict[str, Any]]:
    """Train a network with the settings of a job."""
    name, selector = job["set"], job["selector"]
    most, size, anneal = TRAINING[name]
    with silent_training():
        texts = read_set(name, place)
        rationale = None
        if selector != FULL:
            settings = {"share": float(job["share"]), "temperature": float(job["temperature"]), "anneal": anneal}
            rationale = RationaleConfig(selector, **settings)
        task = make_task(texts, TextConfig(**SIZES, rationale=rationale), seed)
        schedule = Schedule(RATE, epochs or most, size, patience=epochs or most)
        found = train(task, texts, schedule, place.device, seed)
    return task, {**found, "device": place.name}


@torch.no_grad()
def ask(task: TextTask, packed: PackedTexts, device: str) -> dict[str, float]:
    """Return accuracy, share of words read, mean length of runs of words, and agreement with marks where there are any.

    ``f1`` is the F1 score of the words read against those that at least half of the people marked, and ``chance`` that
    of as many words drawn at random.
    """
    generator = torch.Generator().manual_seed(0)
    found: dict[str, list[Tensor]] = {}
    words = spans = 0
    for batch in batches(packed, 256, device):
        answer, mask = task(batch), batch["words"] != 0
        read = mask if answer.rationale is None else answer.rationale != 0
        words += int(read.sum())
        spans += int((read & ~torch.nn.functional.pad(read, (1, 0))[:, :-1]).sum())
        values = {"accuracy": (answer.logits.argmax(-1) == batch["label"]).double()}
        values["read"] = read.sum(-1) / mask.sum(-1)
        if "marks" in batch:
            marked = batch["marks"] >= 0.5
            noise = torch.rand(mask.shape, generator=generator).to(device).masked_fill(~mask, -1)
            drawn = noise.argsort(-1, descending=True).argsort(-1) < read.sum(-1, keepdim=True)
            values["f1"] = token_f1(read, marked, mask, reduction="none")
            values["chance"] = token_f1(drawn, marked, mask, reduction="none")
        for key, value in values.items():
            found.setdefault(key, []).append(value.double().cpu())
    means = {key: round(float(torch.cat(value).nanmean()), 6) for key, value in found.items()}
    return {**means, "run": round(words / max(spans, 1), 4)}


def try_out(job: Mapping[str, Any], place: Place, epochs: int | None) -> dict[str, Any]:
    """Return the row of a trial."""
    return {**job, **fit({**job, "share": TRIAL_SHARE}, place, 0, epochs)[1]}


def run(job: Mapping[str, Any], place: Place, epochs: int | None) -> dict[str, Any]:
    """Return the row of a network that was trained and tested."""
    task, found = fit(job, place, job["seed"], epochs)
    with silent_training():
        own = ask(task, read_set(job["set"], place).packed("test"), place.device)
        yelp = ask(task, read_yelp_hat(job["set"], place), place.device)
    measured = {"accuracy": own["accuracy"], "read": own["read"], "run": own["run"]}
    measured |= {f"yelp_{key}": yelp[key] for key in ("accuracy", "read", "f1", "chance")}
    return {**job, **measured, **found}


def list_jobs(options: Any) -> list[dict[str, Any]]:
    """Return trials, or runs with the best of them, the same seed of all before another."""
    if options.trials:
        return [
            {"set": name, "selector": selector, "temperature": temperature}
            for name in options.sets
            for selector in options.selectors
            for temperature in list_temperatures(selector)
        ]
    tried = trials(options.results).rows()
    return [
        {"set": name, "selector": selector, "share": share, "seed": seed, **choose(tried, name, selector)}
        for name in options.sets
        for seed in options.seeds
        for selector in options.selectors
        for share in ((1.0,) if selector == FULL else SHARES)
    ]


def main() -> int:
    """Try settings, or run those that did best."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    parser.add_argument("--trials", action="store_true", help="validate settings instead")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=["sst2"])
    parser.add_argument("--selectors", nargs="+", choices=(FULL, *SELECTORS), default=[FULL, *SELECTORS])
    parser.add_argument("--epochs", type=int, help="by default those of the set")
    parser.add_argument("--cache", help="folder for sets as numbers")
    options = parser.parse_args()
    place = Place(options.data, options.device, options.cache)
    file, work = (trials(options.results), try_out) if options.trials else (runs(options.results), run)
    work = functools.partial(work, place=place, epochs=options.epochs)
    failed = file.run(list_jobs(options), work, options.workers, within=options.seconds)
    return tell_end(file, failed)


if __name__ == "__main__":
    sys.exit(main())
