"""The explanation game: which words of a text tell a layperson, and teach a student, what a network decides of it.

    python experiments/text/game.py                             # all that has no row yet
    python experiments/text/game.py --sets sst2 --kinds sparsemax --seeds 0

Rows go to ``results/game.csv`` as they are done, all explainers of a network together. The layperson has the messages,
in training and test; the student has explanations in training alone, and few texts to learn from. Rates of trained
explainers and of students are chosen on the validation part.
"""

from __future__ import annotations

import functools
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from fit import HERE, SETS, Place, Schedule, make_task, read_set, train, validate
from torch import Tensor

from omegamax.data.corpus import SPLITS
from omegamax.metrics import communication_success
from omegamax.models.text import TextConfig, WordsConfig
from omegamax.tasks.experiment import Arguments, silent_training, tell_end
from omegamax.tasks.text import TextTask
from omegamax.tasks.text.game import EXPLAINERS, Student, choose_words
from omegamax.tasks.text.game.explainers import Batch, Classifier, decide, take_words
from omegamax.tasks.text.game.layperson import choose_layperson
from omegamax.tasks.text.game.messages import Score, collect_messages, count_numbers
from omegamax.tasks.text.game.play import WHOLE, GameTexts, make_score, play_one, train_score
from omegamax.tasks.text.game.scaffold import make_steps
from omegamax.tasks.trials import Trials

KINDS = ("softmax", "entmax15", "sparsemax")  # of attention over words, or of the alignment of two sentences
K = {"imdb": 5, "sst2": 5, "sick": 4}
SIZES = {"hidden_dim": 64, "score_dim": 64, "dropout": 0.3}
TRAINING = {  # rate, epochs, texts in a batch
    "imdb": (1e-3, 5, 256),
    "sst2": (1e-3, 6, 64),
    "sick": (1e-3, 8, 32),
}
TEXTS = {"train": 2000, "val": 500, "test": 1000}  # of each set
EPOCHS, BATCH = 3, 32  # of trained explainers; of what they and students learn from
RATES = {"trained": (3e-4, 1e-3), "scaffold": (1e-3,)}  # of the explainers that are trained
# Of students: rates at first, which fall to 0; epochs; batches to learn from, and how often these are drawn.
STUDENT_RATES, STUDENT_EPOCHS, LESSONS, DRAWS = (3.0, 10.0), 20, 8, 3
KEYS = ("set", "kind", "explainer", "seed")
MEASURED = ("success", "accuracy", "words", "penalty", "rate", "val_success", "student", "val_student")
COLUMNS = (*KEYS, "k", "train", "test", *MEASURED, "student_alone", "network_accuracy", "seconds", "device")


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


class School:
    """Teaches students of a network with some of its texts, and asks them about others.

    Args:
        task: the network.
        table: with the texts.
        seed: of which texts they learn from.
    """

    def __init__(self, task: TextTask, table: GameTexts, seed: int) -> None:
        self.model, self.seed = task.model, seed
        self.parts: dict[str, list[tuple[Batch, Tensor]]] = {}
        for split in SPLITS:
            given = (take_words(batch, task.device) for batch in table.batches(split, "student"))
            self.parts[split] = [(batch, decide(task.model, batch)) for batch in given]

    def teach(self, score: Score | None, k: int | None) -> tuple[float, float]:
        """Return how often students agree with the network, in test and validation, at the better rate in the latter.

        The words that an explainer chooses have all the same weight in the explanation. Means over students who learn
        from different texts.
        """
        lessons = [(batch, decided, self._explain(score, batch, k)) for batch, decided in self.parts["train"]]
        found = []
        for rate in STUDENT_RATES:
            students = [self._teach_one(lessons, rate, draw) for draw in range(DRAWS)]
            val, test = (sum(self._ask(each, split) for each in students) / DRAWS for split in ("val", "test"))
            found.append((val, test))
        val, test = max(found, key=lambda each: each[0])
        return test, val

    def _explain(self, score: Score | None, batch: Batch, k: int | None) -> Tensor | None:
        if score is None:
            return None
        chosen = choose_words(score(self.model, batch), k).to(self.model.embedding.weight)
        return chosen / chosen.sum(-1, keepdim=True).clamp(min=1)

    def _teach_one(self, lessons: Sequence[tuple[Batch, Tensor, Tensor | None]], rate: float, draw: int) -> Student:
        generator = torch.Generator().manual_seed(1000 * self.seed + draw)
        drawn = torch.randperm(len(lessons), generator=generator)[:LESSONS]
        student = Student.beginner(self.model)
        for epoch in range(STUDENT_EPOCHS):
            for place in drawn[torch.randperm(len(drawn), generator=generator)].tolist():
                now = rate * (1 - epoch / STUDENT_EPOCHS)
                student = make_steps(student, *lessons[place], steps=1, rate=now, strength=1.0)
        return student

    def _ask(self, student: Student, split: str) -> float:
        guessed = torch.cat([student.guess(batch) for batch, _ in self.parts[split]])
        return float(communication_success(guessed, torch.cat([decided for _, decided in self.parts[split]])))


def validate_success(task: TextTask, table: GameTexts, score: Score, k: int | None) -> float:
    """Return the communication success of an explainer on the validation part."""
    train, val = (collect_messages(task.model, table.batches(split, "choice"), score, k) for split in ("train", "val"))
    layperson, _ = choose_layperson(train, val, count_numbers(task.model), task.config.classes)
    return float(communication_success(layperson.guess(val), val.decided))


def choose_score(
    explainer: str, task: TextTask, table: GameTexts, k: int, seed: int
) -> tuple[Score, float | str, float | str]:
    """Return what scores words for an explainer, and if it is trained its rate and its success in validation."""
    most = None if explainer in WHOLE else k
    if explainer not in RATES:
        return Remembered(make_score(explainer, k, seed)), "", ""
    tried: list[tuple[Score, float, float]] = []
    for rate in RATES[explainer]:
        score: Score = Remembered(train_score(explainer, task, table, EPOCHS, 0.0, seed, rate))
        tried.append((score, rate, validate_success(task, table, score, most)))
    return max(tried, key=lambda each: each[2])


def play_all(job: Mapping[str, Any], place: Place, texts: int | None, epochs: int | None) -> list[dict[str, Any]]:
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
        packed = {split: read.packed(split) for split in SPLITS}
        table = GameTexts(task, read.data, TEXTS if texts is None else texts, seed, BATCH, packed)
        school = School(task, table, seed)
        alone, _ = school.teach(None, None)
        same = {"set": name, "kind": kind, "seed": seed, "network_accuracy": accuracy, "student_alone": alone}
        rows = []
        for explainer in EXPLAINERS:
            began = time.perf_counter()
            score, chosen, val_success = choose_score(explainer, task, table, K[name], seed)
            most_words = None if explainer in WHOLE else K[name]
            result = play_one(task, table, explainer, score, most_words)
            student, val_student = school.teach(score, most_words)
            row = {column: getattr(result, column) for column in ("explainer", "train", "test", "success", "accuracy")}
            row |= {"words": round(result.words, 3), "penalty": result.penalty, "k": most_words or "", "rate": chosen}
            row |= {"val_success": val_success, "student": student, "val_student": val_student}
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
    parser.add_argument("--texts", type=int, help=f"of each part; by default {TEXTS}")
    parser.add_argument("--epochs", type=int, help="of the networks; by default those of the set")
    parser.add_argument("--cache", help="folder for sets as numbers")
    options = parser.parse_args()
    place = Place(options.data, options.device, options.cache)
    jobs = [
        {"set": name, "kind": kind, "seed": seed, "explainer": EXPLAINERS[-1]}
        for seed in options.seeds
        for name in options.sets
        for kind in options.kinds
    ]
    file = runs(options.results)
    work = functools.partial(play_all, place=place, texts=options.texts, epochs=options.epochs)
    return tell_end(file, file.run(jobs, work, options.workers, within=options.seconds))


if __name__ == "__main__":
    sys.exit(main())
