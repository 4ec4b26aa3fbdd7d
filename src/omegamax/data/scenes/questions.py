"""Questions: what is asked, and what a scene must hold for the answer that was drawn first.

The answer is drawn before the scene, evenly over all that its question could have: the words of a question say nothing
about it. The scene is then built around it, and everything else in it is drawn from what leaves the question with one
answer.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from omegamax.data.scenes.layout import ANYWHERE, OPPOSITE, Box, beyond, level
from omegamax.data.scenes.shapes import plural

Pair = tuple[str, str]  # shape and colour
MOST_COUNTED = 4  # things that a question counts
SIDES = tuple(OPPOSITE)
_CLEAR = 0.13  # a thing that is left of another is so by this much, middle to middle


@dataclass(frozen=True, eq=False)
class QuestionPlan:
    """A question with its answer, and the rules for its scene."""

    text: str
    answer: str
    cast: Sequence[Pair]  # things that the scene must hold
    relevant: int  # how many of them, from the first on, the question is about
    others: Callable[[str, str], bool]  # whether one more thing of this shape and colour leaves the answer as it is
    boxes: Sequence[Box] = ()  # where the first of the cast lie
    rest: Box = ANYWHERE  # where all others lie
    far: bool = False  # whether the first two are to be far apart


class RandomChoices:
    """Random choices among the shapes and colours in use."""

    def __init__(self, rng: np.random.Generator, shapes: Sequence[str], colours: Sequence[str]) -> None:
        self.rng, self.shapes, self.colours = rng, shapes, colours

    def integer(self, low: int, high: int) -> int:
        """Draw an integer from ``low`` to ``high``, both included."""
        return int(self.rng.integers(low, high + 1))

    def coin(self) -> bool:
        return bool(self.rng.random() < 0.5)

    def one(self, values: Sequence[str], *but: str) -> str:
        """Return one of the values, other than ``but``."""
        left = [value for value in values if value not in but] if but else values
        return left[self.integer(0, len(left) - 1)]

    def shape(self, *but: str) -> str:
        return self.one(self.shapes, *but)

    def colour(self, *but: str) -> str:
        return self.one(self.colours, *but)


def _exists(draw: RandomChoices) -> QuestionPlan:
    shape, colour, yes = draw.shape(), draw.colour(), draw.coin()
    cast = [(shape, colour)] if yes else []
    # Half of the time there is something of that shape, or colour: neither alone gives the answer away.
    if draw.coin():
        cast.append((shape, draw.colour(colour)))
    if draw.coin():
        cast.append((draw.shape(shape), colour))
    article = "an" if colour[0] in "aeiou" else "a"
    text = f"is there {article} {colour} {shape}?"
    return QuestionPlan(text, _yes(yes), cast, int(yes), lambda s, c: (s, c) != (shape, colour))


def _has_colour(draw: RandomChoices) -> QuestionPlan:
    shape, colour, yes = draw.shape(), draw.colour(), draw.coin()
    cast = [(shape, colour if yes else draw.colour(colour))]
    if draw.coin():
        cast.append((draw.shape(shape), colour))
    return QuestionPlan(f"is the {shape} {colour}?", _yes(yes), cast, 1, lambda s, c: s != shape)


def _beside(draw: RandomChoices) -> QuestionPlan:
    yes, side = draw.coin(), draw.one(SIDES)
    first = draw.shape(), draw.colour()
    second = (draw.shape(), draw.colour(first[1])) if draw.coin() else (draw.shape(first[0]), draw.colour())
    cut = float(draw.rng.uniform(0.35, 0.65))
    where = side if yes else OPPOSITE[side]
    boxes = beyond(where, cut - _CLEAR / 2), beyond(OPPOSITE[where], 1 - cut - _CLEAR / 2)
    text = f"is the {_name(first)} {side} the {_name(second)}?"
    return QuestionPlan(
        text, _yes(yes), [first, second], 2, lambda s, c: (s, c) not in (first, second), boxes, far=True
    )


def _more(draw: RandomChoices) -> QuestionPlan:
    yes, first = draw.coin(), draw.shape()
    second = draw.shape(first)
    counts = [(a, b) for a in range(4) for b in range(4) if (a > b) == yes and 1 <= a + b <= 5]
    a, b = counts[draw.integer(0, len(counts) - 1)]
    cast = [(shape, draw.colour()) for shape in [first] * a + [second] * b]
    text = f"are there more {plural(first)} than {plural(second)}?"
    return QuestionPlan(text, _yes(yes), cast, a + b, lambda s, c: s not in (first, second))


def _same_colour(draw: RandomChoices) -> QuestionPlan:
    yes, first, colour = draw.coin(), draw.shape(), draw.colour()
    second = draw.shape(first)
    cast = [(first, colour), (second, colour if yes else draw.colour(colour))]
    text = f"do the {first} and the {second} have the same colour?"
    return QuestionPlan(text, _yes(yes), cast, 2, lambda s, c: s not in (first, second), far=True)


def _count_shape(draw: RandomChoices) -> QuestionPlan:
    count, shape = draw.integer(0, MOST_COUNTED), draw.shape()
    cast = [(shape, draw.colour()) for _ in range(count)]
    return QuestionPlan(f"how many {plural(shape)} are there?", str(count), cast, count, lambda s, c: s != shape)


def _count_colour(draw: RandomChoices) -> QuestionPlan:
    count, colour = draw.integer(0, MOST_COUNTED), draw.colour()
    cast = [(draw.shape(), colour) for _ in range(count)]
    return QuestionPlan(f"how many {colour} objects are there?", str(count), cast, count, lambda s, c: c != colour)


def _count_pair(draw: RandomChoices) -> QuestionPlan:
    count, pair = draw.integer(0, MOST_COUNTED), (draw.shape(), draw.colour())
    shape, colour = pair
    # As in _exists: something has the shape alone, or the colour alone, half of the time at least.
    cast = [pair] * count
    if draw.coin():
        cast.append((shape, draw.colour(colour)))
    if draw.coin():
        cast.append((draw.shape(shape), colour))
    text = f"how many {colour} {plural(shape)} are there?"
    return QuestionPlan(text, str(count), cast, count, lambda s, c: (s, c) != pair)


def _colour_of(draw: RandomChoices) -> QuestionPlan:
    shape, colour = draw.shape(), draw.colour()
    return QuestionPlan(f"what colour is the {shape}?", colour, [(shape, colour)], 1, lambda s, c: s != shape)


def _shape_of(draw: RandomChoices) -> QuestionPlan:
    shape, colour = draw.shape(), draw.colour()
    return QuestionPlan(f"what shape is the {colour} object?", shape, [(shape, colour)], 1, lambda s, c: c != colour)


def _shape_beside(draw: RandomChoices) -> QuestionPlan:
    side, answer = draw.one(SIDES), draw.shape()
    known = draw.shape(), draw.colour()
    cut = float(draw.rng.uniform(0.34, 0.46))
    # The known thing lies on a line, the asked one to its side of it, and all others beyond it.
    boxes = level(side, cut), beyond(side, cut - _CLEAR)
    rest = beyond(OPPOSITE[side], 1 - cut - _CLEAR)
    asked = answer, draw.colour(known[1]) if answer == known[0] else draw.colour()
    text = f"what shape is {side} the {_name(known)}?"
    return QuestionPlan(text, answer, [known, asked], 2, lambda s, c: (s, c) != known, boxes, rest)


def _colour_of_both(draw: RandomChoices) -> QuestionPlan:
    shape, colour = draw.shape(), draw.colour()
    text = f"what colour are both {plural(shape)}?"
    return QuestionPlan(text, colour, [(shape, colour)] * 2, 2, lambda s, c: s != shape, far=True)


def _shape_of_same_colour(draw: RandomChoices) -> QuestionPlan:
    shape, colour = draw.shape(), draw.colour()
    answer = draw.shape(shape)
    text = f"what shape has the same colour as the {shape}?"
    cast = [(shape, colour), (answer, colour)]
    return QuestionPlan(text, answer, cast, 2, lambda s, c: s != shape and c != colour, far=True)


QUESTIONS: dict[str, tuple[str, Callable[[RandomChoices], QuestionPlan]]] = {
    "exists": ("yes/no", _exists),
    "has_colour": ("yes/no", _has_colour),
    "beside": ("yes/no", _beside),
    "more": ("yes/no", _more),
    "same_colour": ("yes/no", _same_colour),
    "count_shape": ("number", _count_shape),
    "count_colour": ("number", _count_colour),
    "colour_of": ("other", _colour_of),
    "shape_of": ("other", _shape_of),
    "shape_beside": ("other", _shape_beside),
    "colour_of_both": ("other", _colour_of_both),
    "shape_of_same_colour": ("other", _shape_of_same_colour),
    "count_pair": ("number", _count_pair),
}
BASIC_QUESTIONS = tuple(name for name in QUESTIONS if name != "count_pair")  # asked by default
# Every word that occurs beside the shapes and colours.
WORDS = (
    "is there a an the above below left right of are more than do and have has same colour how many objects object "
    "what shape both as"
).split()


def _yes(value: bool) -> str:
    return "yes" if value else "no"


def _name(pair: Pair) -> str:
    return f"{pair[1]} {pair[0]}"
