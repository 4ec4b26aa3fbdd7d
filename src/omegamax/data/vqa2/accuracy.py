"""Answers against those of ten people: soft scores for training, the official accuracy for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from omegamax.data.vqa2.answers import clean, normalise_answer
from omegamax.data.vqa2.files import Annotation
from omegamax.metrics import vqa_accuracy


def answer_scores(answers: Sequence[str]) -> dict[str, float]:
    """Return the score of each answer that people gave, normalised: what a model is trained to predict.

    >>> answer_scores(["2"] * 7 + ["two", "3", "3"])
    {'2': 1.0, '3': 0.6}
    """
    counts = Counter(normalise_answer(answer) for answer in answers)
    scores = {answer: _score(count, len(answers)) for answer, count in counts.items()}
    return {answer: score for answer, score in scores.items() if answer and score > 0}


def accuracy(answer: str, answers: Sequence[str]) -> float:
    """Compute the official accuracy of an answer in [0, 1]: the mean of min(matches / 3, 1) over nine of ten people.

    As in the official evaluation, answers are normalised on both sides if the people differ, and compared as they are
    if all agree.

    >>> accuracy("Two.", ["2"] * 2 + ["3"] * 8), accuracy("3", ["2"] * 2 + ["3"] * 8)
    (0.6, 1.0)
    """
    people = [clean(given) for given in answers]
    said = clean(answer)
    if len(set(people)) > 1:
        people, said = [normalise_answer(given) for given in people], normalise_answer(said)
    return _score(people.count(said), len(people))


@dataclass(frozen=True)
class Evaluation:
    """Mean accuracies in per cent: all questions, by answer type, by question type; and of each question."""

    overall: float
    by_answer_type: dict[str, float]
    by_question_type: dict[str, float]
    by_question: dict[int, float]


def evaluate(results: Mapping[int, str], annotations: Mapping[int, Annotation]) -> Evaluation:
    """Compute the accuracy of results, an answer for each annotated question, as the official evaluation reports it.

    >>> people = Annotation(7, 1, "is the", "yes/no", "yes", ("yes",) * 9 + ("no",), ("yes",) * 10)
    >>> evaluate({7: "No"}, {7: people}).overall
    30.0
    """
    missing = [number for number in annotations if number not in results]
    if missing:
        raise ValueError(
            f"evaluate: results has no answer to {len(missing)} of {len(annotations)} questions, such as {missing[0]}; "
            "every annotated question needs one"
        )
    unknown = [number for number in results if number not in annotations]
    if unknown:
        raise ValueError(
            f"evaluate: results answers {len(unknown)} questions without annotations, such as {unknown[0]}; "
            "are they of the same split?"
        )
    if not annotations:
        raise ValueError("evaluate: annotations is empty")
    scores = {number: 100 * accuracy(results[number], given.answers) for number, given in annotations.items()}
    answer_types: dict[str, list[float]] = {}
    question_types: dict[str, list[float]] = {}
    for number, score in scores.items():
        answer_types.setdefault(annotations[number].answer_type, []).append(score)
        question_types.setdefault(annotations[number].question_type, []).append(score)
    return Evaluation(_mean(list(scores.values())), _means(answer_types), _means(question_types), scores)


_KNOWN: dict[tuple[int, int], float] = {}


def _score(matches: int, people: int) -> float:
    # A tensor for every answer of a million would be slow; there are eleven values.
    if (matches, people) not in _KNOWN:
        _KNOWN[matches, people] = float(vqa_accuracy(matches, people))
    return _KNOWN[matches, people]


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def _means(groups: Mapping[str, Sequence[float]]) -> dict[str, float]:
    return {name: _mean(values) for name, values in sorted(groups.items())}
