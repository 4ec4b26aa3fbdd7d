"""The embedded set: pictures and questions made as they are asked for."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch.utils.data import Dataset

from omegamax._arguments import check_choice, check_integer, check_number, is_integer
from omegamax.data.sample import Sample
from omegamax.data.scenes.ground import ground
from omegamax.data.scenes.layout import place
from omegamax.data.scenes.questions import BASIC_QUESTIONS, MOST_COUNTED, QUESTIONS, WORDS, QuestionPlan, RandomChoices
from omegamax.data.scenes.scene import COLOURS, Scene, Thing
from omegamax.data.scenes.shapes import LEAN, ODD, SHAPES, TURNS, plural
from omegamax.data.vocabulary import Vocabulary

SPLITS = ("train", "val", "test")
_RADII = {False: (0.075, 0.115), True: (0.125, 0.170)}  # of regular and of odd shapes; fractions of the side
_FEWEST, _MOST_OBJECTS, _LEAST_SIDE = 3, 24, 32


@dataclass(frozen=True, eq=False)
class Asked:
    """A scene and the question about it; ``relevant`` numbers the things that the question is about."""

    scene: Scene
    question: str
    answer: str
    template: str
    kind: str
    relevant: tuple[int, ...]

    @property
    def region(self) -> str | None:
        """Return ``"one"``, ``"several"`` or ``"odd"``; None if the question is about nothing that is there."""
        if len(self.relevant) == 1:
            return "odd" if self.scene.things[self.relevant[0]].odd else "one"
        return "several" if self.relevant else None


class Scenes(Dataset[Sample]):
    """Coloured shapes on textured ground, and questions about them whose words do not tell the answer.

    Sample ``i`` is a function of (seed, split, i) alone: it is made when asked for, the same in any process, with the
    same things at the same places at every ``image_size``. Splits draw from streams of their own.

    The relevance of a sample is 1 on the pixels of the things that its question is about: those it names and those it
    asks for; all that it counts or compares the numbers of. It is 0 everywhere where there is no such thing: a "no" to
    "is there a red star?", or a count of 0. ``region`` then is None, else ``"several"`` if these are two or more things
    (far apart unless counted or side by side), ``"odd"`` if it is one of odd shape, or ``"one"``.

    Args:
        size: number of samples.
        seed: an integer from 0 to 2^32 - 1.
        split: ``"train"``, ``"val"`` or ``"test"``.
        image_size: side of the pictures in pixels; at least 32, and things are hard to tell below 64.
        objects: fewest and most things in a picture; counted ones are added where they are more.
        shapes: at least three of :data:`SHAPES`.
        colours: at least three of :data:`COLOURS`.
        questions: names of :data:`QUESTIONS`, all asked equally often; by default :data:`BASIC_QUESTIONS`.
        scale: factor of the sizes of things, at most 1. Many things need small ones: what does not fit is shrunk.

    >>> scenes = Scenes(1000, seed=7, split="val", image_size=64)
    >>> sample = scenes[3]
    >>> sample.id, sample.image.shape, sample.relevance.shape
    ('scenes-7-val-3', torch.Size([3, 64, 64]), torch.Size([64, 64]))
    >>> sample.answer in scenes.vocabulary.answers
    True
    """

    def __init__(
        self,
        size: int,
        seed: int = 0,
        split: str = "train",
        *,
        image_size: int = 112,
        objects: tuple[int, int] = (4, 7),
        shapes: Sequence[str] = SHAPES,
        colours: Sequence[str] = tuple(COLOURS),
        questions: Sequence[str] = BASIC_QUESTIONS,
        scale: float = 1.0,
    ) -> None:
        for argument, value, least in (("size", size, 1), ("seed", seed, 0), ("image_size", image_size, _LEAST_SIDE)):
            check_integer("Scenes", argument, value, least, 2**32 - 1)
        check_choice("Scenes", "split", split, SPLITS)
        if len(objects) != 2 or not all(map(is_integer, objects)) or not 1 <= objects[0] <= objects[1] <= _MOST_OBJECTS:
            wanted = f"two integers, 1 <= fewest <= most <= {_MOST_OBJECTS}"
            raise ValueError(f"Scenes: objects must be {wanted}, got {objects}")
        self.size, self.seed, self.split, self.image_size = int(size), int(seed), split, int(image_size)
        self.objects = int(objects[0]), int(objects[1])
        self.shapes = _subset("shapes", shapes, SHAPES, _FEWEST)
        self.colours = _subset("colours", colours, tuple(COLOURS), _FEWEST)
        self.questions = _subset("questions", questions, tuple(QUESTIONS), 1)
        check_number("Scenes", "scale", scale, above=0, most=1)
        self.scale = float(scale)

    @property
    def vocabulary(self) -> Vocabulary:
        """Return all words and answers that can occur, the same for every seed and split."""
        words = (*WORDS, *self.shapes, *map(plural, self.shapes), *self.colours)
        numbers = map(str, range(MOST_COUNTED + 1))
        return Vocabulary(words, ("yes", "no", *numbers, *self.colours, *self.shapes))

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> Sample:
        index = operator.index(index)
        asked = self.ask(index)
        picture, masks = asked.scene.draw()
        relevance = masks[list(asked.relevant)].any(0)
        return Sample(
            question=asked.question,
            answers={asked.answer: 1.0},
            kind=asked.kind,
            id=f"scenes-{self.seed}-{self.split}-{index % self.size}",
            image=torch.from_numpy(picture.transpose(2, 0, 1).copy()),
            relevance=torch.from_numpy(relevance.astype(np.float32)),
            region=asked.region,
        )

    def ask(self, index: int) -> Asked:
        """Make sample ``index`` before it is drawn: its things, its question and what the question is about."""
        if not -self.size <= index < self.size:
            raise IndexError(f"Scenes: index {index} is out of range for {self.size} samples")
        rng = np.random.default_rng((self.seed, SPLITS.index(self.split), index % self.size))
        draw = RandomChoices(rng, self.shapes, self.colours)
        template = draw.one(self.questions)
        kind, make = QUESTIONS[template]
        plan = make(draw)
        things = place_things(draw, plan, draw.integer(*self.objects), self.scale)
        scene = Scene(things, ground(rng, self.image_size))
        return Asked(scene, plan.text, plan.answer, template, kind, tuple(range(plan.relevant)))

    def __repr__(self) -> str:
        return f"Scenes({self.size}, seed={self.seed}, split={self.split!r}, image_size={self.image_size})"


def place_things(draw: RandomChoices, plan: QuestionPlan, count: int, scale: float) -> tuple[Thing, ...]:
    """Return the cast of a plan and as many others as make up ``count``, placed."""
    pairs = list(plan.cast)
    if count > len(pairs):
        allowed = [(s, c) for s in draw.shapes for c in draw.colours if plan.others(s, c)]
        pairs += [allowed[i] for i in draw.rng.integers(len(allowed), size=count - len(pairs))]
    radii = [scale * draw.rng.uniform(*_RADII[shape in ODD]) for shape, _ in pairs]
    boxes = [*plan.boxes, *[plan.rest] * (len(pairs) - len(plan.boxes))]
    middles, factor = place(draw.rng, radii, boxes, plan.far)
    return tuple(
        Thing(shape, colour, y, x, factor * radius, _angle(draw.rng, shape))
        for (shape, colour), radius, (y, x) in zip(pairs, radii, middles, strict=True)
    )


def _angle(rng: np.random.Generator, shape: str) -> float:
    step, play = TURNS[shape]
    turn = step * rng.integers(360 // step) + rng.uniform(-play, play) + LEAN.get(shape, 0)
    return float(np.deg2rad(turn))


def _subset(argument: str, given: Sequence[str], known: tuple[str, ...], least: int) -> tuple[str, ...]:
    given = (given,) if isinstance(given, str) else tuple(given)
    for name in given:
        check_choice("Scenes", f"each of {argument}", name, known)
    if len(set(given)) != len(given) or len(given) < least:
        raise ValueError(f"Scenes: {argument} must be at least {least} different names, got {given}")
    return given
