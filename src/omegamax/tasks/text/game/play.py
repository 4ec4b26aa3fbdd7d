"""The game: a classifier decides, an explainer tells some words, and a layperson guesses the decision."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch

from omegamax._arguments import check_choice, check_integer
from omegamax.data.corpus import SPLITS
from omegamax.data.text import NO_LABEL, PackedTexts, collate_texts
from omegamax.metrics import communication_success
from omegamax.tasks.batches import LengthOrder
from omegamax.tasks.progress import progress
from omegamax.tasks.text.data import TextData
from omegamax.tasks.text.game import explainers
from omegamax.tasks.text.game.layperson import choose_layperson
from omegamax.tasks.text.game.messages import Messages, Score, collect_messages, count_numbers
from omegamax.tasks.text.game.scaffold import train_scaffold
from omegamax.tasks.text.game.trained import RATE, train_explainer
from omegamax.tasks.text.task import TextTask

EXPLAINERS = (
    "attention",
    "support",
    "gradient",
    "variation",
    "leave_one_out",
    "erasure",
    "trained",
    "scaffold",
    "random",
    "all",
)
WHOLE = ("support", "all")  # whose messages are as long as they are, whatever k


@dataclass(frozen=True)
class GameResult:
    """What came of the game with one explainer.

    Args:
        explainer: its name.
        k: most words of a message; None: no limit.
        success: share of test texts of which the layperson guessed what the classifier decided.
        accuracy: share of which the guess is the true class.
        words: mean number of words in a message.
        train, test: texts that the layperson learnt from, and was asked about.
        penalty: of the layperson's training, chosen on the validation part.
    """

    explainer: str
    k: int | None
    success: float
    accuracy: float
    words: float
    train: int
    test: int
    penalty: float


class GameTexts:
    """The texts that a game is played with: of each part all, or so many, drawn at random.

    Args:
        task: whose vocabulary numbers the words.
        data: with the parts.
        texts: most of each part, one number or one for each name of a part; None: all.
        seed: of which.
        batch_size: texts in a batch; None: that of the data.
        read: the parts as numbers of that vocabulary, where they have been read; None: they are read.
    """

    def __init__(
        self,
        task: TextTask,
        data: TextData,
        texts: int | Mapping[str, int] | None = None,
        seed: int = 0,
        batch_size: int | None = None,
        read: Mapping[str, PackedTexts] | None = None,
    ) -> None:
        self.batch_size = batch_size or data.batch_size
        self._parts: dict[str, tuple[PackedTexts, torch.Tensor]] = {}
        for split in SPLITS:
            packed = None if read is None else read[split]
            if packed is None:
                rows = progress(data.read(split), f"reading {split}")
                packed = PackedTexts(rows, task.vocabulary, data.length, split)
            order = torch.randperm(len(packed), generator=torch.Generator().manual_seed(seed))
            self._parts[split] = packed, order[: texts.get(split) if isinstance(texts, Mapping) else texts]

    def batches(self, split: str, what: str) -> Iterator[dict[str, Any]]:
        """Yield the texts of a part, the longest first, in batches of about one length."""
        packed, drawn = self._parts[split]
        for places in progress(LengthOrder(packed.lengths[drawn], self.batch_size), what):
            yield collate_texts([packed[int(drawn[place])] for place in places])

    def shuffle(self, epoch: int, seed: int) -> Iterator[dict[str, Any]]:
        """Yield the texts of the training part in another order for each epoch."""
        packed, drawn = self._parts["train"]
        order = LengthOrder(packed.lengths[drawn], self.batch_size, seed)
        order.set_epoch(epoch)
        for places in progress(order, f"trained, epoch {epoch + 1}"):
            yield collate_texts([packed[int(drawn[place])] for place in places])


def play(
    task: TextTask,
    data: TextData,
    names: Sequence[str] = EXPLAINERS,
    *,
    k: int = 5,
    texts: int | None = None,
    seed: int = 0,
    epochs: int = 5,
    faithful: float = 0.0,
) -> list[GameResult]:
    """Play the explanation game with a trained classifier, once for each explainer.

    The explainer turns each text into a bag of words; a layperson learns from the messages of the training part what
    the classifier decided, with a penalty chosen on the validation part, and is then asked about the test part.
    ``attention`` tells the k words with most attention, ``support`` all that have any, ``gradient`` those with the
    largest gradient times input, ``variation`` those without which the probabilities of the classes change most,
    ``leave_one_out`` those without which the decision loses most, ``erasure`` the same one word after the other,
    ``trained`` those that a network with sparse attention has learnt to tell, see
    :func:`~omegamax.tasks.text.game.trained.train_explainer`, ``scaffold`` those from which students learn most, see
    :func:`~omegamax.tasks.text.game.scaffold.train_scaffold`. ``random`` and ``all`` are what to compare with: any k
    words, and the whole text as a bag. Of pairs of sentences words of the first are told; the layperson knows the
    second.

    Args:
        task: in evaluation mode, as :meth:`TextTask.load` leaves it.
        data: with the three parts.
        names: explainers, of :data:`EXPLAINERS`.
        k: most words of a message.
        texts: most of each part, drawn at random; None: all. Leaving out reads a text once for each of its words,
            erasure k times as often.
        seed: of what is drawn.
        epochs: of the trained explainers.
        faithful: of ``trained``.

    Reference: Treviso and Martins, "The explanation game: towards prediction explainability through sparse
    communication" (BlackboxNLP 2020).
    """
    check_integer("play", "k", k, least=1)
    if texts is not None:
        check_integer("play", "texts", texts, least=1)
    for name in names:
        check_choice("play", "names", name, EXPLAINERS)
    table = GameTexts(task, data, texts, seed)
    results = []
    for name in names:
        if name in ("trained", "scaffold"):
            score = train_score(name, task, table, epochs, faithful, seed)
        else:
            score = make_score(name, k, seed)
        results.append(play_one(task, table, name, score, None if name in WHOLE else k))
    return results


def train_score(
    name: str, task: TextTask, table: GameTexts, epochs: int, faithful: float, seed: int, rate: float = RATE
) -> Score:
    """Return the function that scores words for an explainer that is trained first, by its name."""

    def shuffle(epoch: int) -> Iterator[dict[str, Any]]:
        return table.shuffle(epoch, seed)

    if name == "scaffold":
        explainer = train_scaffold(task.model, shuffle, epochs=epochs, explainer_rate=rate, seed=seed)
    else:
        explainer = train_explainer(task.model, shuffle, epochs=epochs, faithful=faithful, rate=rate, seed=seed)
    return lambda model, batch: explainers.score_by_attention(explainer, batch)


def make_score(name: str, k: int, seed: int = 0) -> Score:
    """Return the function that scores words for an explainer that needs no training, by its name."""
    generator = torch.Generator().manual_seed(seed)
    known: dict[str, Score] = {
        "attention": explainers.score_by_attention,
        "support": explainers.score_by_attention,
        "gradient": explainers.score_by_gradient,
        "variation": explainers.score_by_variation,
        "leave_one_out": explainers.score_by_leaving_out,
        "erasure": partial(explainers.score_by_erasing, k=k),
        "random": lambda model, batch: explainers.score_at_random(batch, generator),
        "all": lambda model, batch: (
            torch.zeros_like(batch["words"]).float().masked_fill(batch["words"] == 0, -torch.inf)
        ),
    }
    check_choice("make_score", "name", name, tuple(known))
    return known[name]


def play_one(task: TextTask, table: GameTexts, name: str, score: Score, most: int | None) -> GameResult:
    """Play the game with one explainer, whose messages have ``most`` words, or with None any number."""

    def collect(split: str) -> Messages:
        return collect_messages(task.model, table.batches(split, f"{name}, {split}"), score, most)

    train, val, test = (collect(split) for split in SPLITS)
    layperson, penalty = choose_layperson(train, val, count_numbers(task.model), task.config.classes)
    guessed = layperson.guess(test)
    known = test.label != NO_LABEL
    return GameResult(
        name,
        most,
        float(communication_success(guessed, test.decided)),
        float(communication_success(guessed[known], test.label[known])),
        float(test.told.double().mean()),
        len(train.starts),
        len(test.starts),
        penalty,
    )
