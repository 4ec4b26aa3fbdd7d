"""The explanation game: which words of a text tell a layperson, and teach a student, what a network decides of it.

    python experiments/text/game.py                             # all that has no row yet
    python experiments/text/game.py --sets sst2 --kinds sparsemax --seeds 0

Rows go to ``results/game.csv`` as they are done, all explainers of a network together. The layperson has the messages,
in training and test; the student has explanations in training alone.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from fit import HERE, SETS, Place, Schedule, make_task, read_set, train, validate
from torch import Tensor

from omegamax.data.text.texts import SPLITS
from omegamax.metrics import communication_success
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.experiment import Arguments, silent_training, tell_end
from omegamax.tasks.text import TextTask
from omegamax.tasks.text.game import EXPLAINERS, Student, choose_words, teach_student
from omegamax.tasks.text.game.explainers import Batch, Classifier, decide
from omegamax.tasks.text.game.messages import Score
from omegamax.tasks.text.game.play import WHOLE, GameTexts, make_score, play_one, train_score
from omegamax.tasks.trials import Trials

KINDS = ("softmax", "entmax15", "sparsemax")  # of attention over words, or of the alignment of two sentences
K = {"imdb": 5, "sst2": 5, "sick": 4}
SIZES = {"hidden_dim": 64, "score_dim": 64, "dropout": 0.3}
TRAINING = {  # rate, epochs, texts in a batch
    "imdb": (1e-3, 5, 256),
    "sst2": (1e-3, 6, 64),
    "sick": (1e-3, 8, 32),
}
TEXTS, EPOCHS, BATCH = 1000, 10, 32  # of each part; of trained explainers; of what they and students learn from
KEYS = ("set", "kind", "explainer", "seed")
MEASURED = ("success", "accuracy", "words", "penalty", "student", "student_alone")
COLUMNS = (*KEYS, "k", "train", "test", *MEASURED, "network_accuracy", "seconds", "device")


def runs(folder: Path) -> Trials:
    """Return the rows of the tables."""
    return Trials(folder / "game.csv", COLUMNS, KEYS)


class Remembered:
    """Scores of words that are computed once for each batch: erasure takes long, and is asked twice.

    Args:
        score: of the words.
    """

    def __init__(self, score: Score) -> None:
        self.score = score
        self._known: dict[bytes, Tensor] = {}

    def __call__(self, model: Classifier, batch: Batch) -> Tensor:
        key = b"".join(batch[name].cpu().numpy().tobytes() for name in ("words", "second") if name in batch)
        if key not in self._known:
            self._known[key] = self.score(model, batch)
        return self._known[key]


def ask_student(student: Student, task: TextTask, table: GameTexts) -> float:
    """Return how often a student says of test texts what the network does."""
    guessed, decided = [], []
    for given in table.batches("test", "student"):
        batch = {key: given[key].to(task.device) for key in ("words", "second") if key in given}
        guessed.append(student.guess(batch).cpu())
        decided.append(decide(task.model, batch).cpu())
    return float(communication_success(torch.cat(guessed), torch.cat(decided)))


def teach(task: TextTask, table: GameTexts, score: Score | None, k: int | None, seed: int) -> float:
    """Teach a student with the words that an explainer chooses, all of one weight, and return how often they agree."""

    def explain(batch: Batch) -> Tensor:
        assert score is not None
        chosen = choose_words(score(task.model, batch), k).to(task.model.embedding.weight)
        return chosen / chosen.sum(-1, keepdim=True).clamp(min=1)

    lessons = list(table.batches("train", "student"))
    order = torch.randperm(len(lessons), generator=torch.Generator().manual_seed(seed)).tolist()
    student = teach_student(task.model, [lessons[place] for place in order], None if score is None else explain)
    return ask_student(student, task, table)


def play_all(job: Mapping[str, Any], place: Place, texts: int, epochs: int | None) -> list[dict[str, Any]]:
    """Train a network, and return the rows of its games with all explainers."""
    name, kind, seed = job["set"], job["kind"], job["seed"]
    rate, most, size = TRAINING[name]
    with silent_training():
        read = read_set(name, place)
        network = (
            TextConfig(**SIZES, attention=_attend(kind)) if name != "sick" else TextConfig(**SIZES, alignment=kind)
        )
        task = make_task(read, network, seed)
        found = train(task, read, Schedule(rate, epochs or most, size), place.device, seed)
        accuracy, _ = validate(task, read.packed("test"), place.device)
        table = GameTexts(task, read.data, texts, seed, BATCH, {split: read.packed(split) for split in SPLITS})
        alone = teach(task, table, None, None, seed)
        same = {"set": name, "kind": kind, "seed": seed, "network_accuracy": accuracy, "student_alone": alone}
        rows = []
        for explainer in EXPLAINERS:
            began = time.perf_counter()
            if explainer in ("trained", "scaffold"):
                score = train_score(explainer, task, table, EPOCHS, 0.0, seed)
            else:
                score = make_score(explainer, K[name], seed)
            score, most_words = Remembered(score), None if explainer in WHOLE else K[name]
            result = play_one(task, table, explainer, score, most_words)
            row = {column: getattr(result, column) for column in ("explainer", "train", "test", "success", "accuracy")}
            row |= {"words": round(result.words, 3), "penalty": result.penalty, "k": most_words or ""}
            row |= {"student": teach(task, table, score, most_words, seed)}
            rows.append({**same, **row, "seconds": round(time.perf_counter() - began, 1), "device": place.name})
        print(f"{name} {kind} {seed}: trained in {found['seconds']} s", flush=True)
    return rows


def _attend(kind: str) -> WordsConfig:
    return WordsConfig("entmax", alpha=1.5) if kind == "entmax15" else WordsConfig(kind)


def main() -> int:
    """Play what has no row yet."""
    parser = Arguments(__doc__, HERE / "results", workers=1)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--texts", type=int, default=TEXTS, help=f"of each part ({TEXTS})")
    parser.add_argument("--epochs", type=int, help="of the networks; by default those of the set")
    parser.add_argument("--cache", help="folder for sets as numbers")
    options = parser.parse_args()
    place = Place(options.data, options.device, options.cache)
    jobs = [
        {"set": name, "kind": kind, "seed": seed, "explainer": EXPLAINERS[-1]}
        for name in options.sets
        for seed in options.seeds
        for kind in options.kinds
    ]
    file = runs(options.results)
    work = functools.partial(play_all, place=place, texts=options.texts, epochs=options.epochs)
    return tell_end(file, file.run(jobs, work, options.workers))


if __name__ == "__main__":
    sys.exit(main())
