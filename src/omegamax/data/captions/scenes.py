"""Scenes with captions, and which things each word is about."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch.utils.data import Dataset

from omegamax.data.captions.sample import CaptionSample
from omegamax.data.scenes.dataset import SPLITS, Scenes, place_things
from omegamax.data.scenes.ground import ground
from omegamax.data.scenes.layout import ANYWHERE, OPPOSITE, beyond
from omegamax.data.scenes.questions import SIDES, QuestionPlan, RandomChoices
from omegamax.data.scenes.scene import COLOURS, Scene
from omegamax.data.scenes.shapes import SHAPES, plural

_STREAM = 0xCA9  # so that scenes with captions are others than those with questions
_CLEAR = 0.16  # a thing that is left of another is so by this much, middle to middle
_NUMBERS = {1: "a", 2: "two", 3: "three"}
_MOST = 3  # things of one kind
CAPTIONS = 5  # of each picture


class Group(NamedTuple):
    """Some things of one shape and colour, and their numbers in the scene."""

    shape: str
    colour: str
    things: tuple[int, ...]

    def name(self, article: str | None = None) -> list[str]:
        """Return the words that name them: ``a red star``, ``two red stars``; with an article, ``the red star``."""
        several = len(self.things) > 1
        number = _NUMBERS[len(self.things)] if article is None or several else article
        if number == "a" and self.colour[0] in "aeiou":
            number = "an"
        first = [article, number] if article is not None and several else [number]
        return [*first, self.colour, plural(self.shape) if several else self.shape]


class Told(NamedTuple):
    """A scene, its captions, and of each word the numbers of the things that it is about."""

    scene: Scene
    captions: tuple[tuple[str, ...], ...]
    mentions: tuple[tuple[tuple[int, ...], ...], ...]
    objects: tuple[str, ...]


class SceneCaptions(Dataset[CaptionSample]):
    """Two groups of coloured shapes on textured ground, and five captions that say what and where they are.

    Sample ``i`` is a function of (seed, split, i) alone, made when it is asked for. Each group has one to three things
    of one shape and colour; one group is left of, right of, above or below the other. A caption says so from the side
    of either group, and of each word it is known which things it is about: of the words that name a group the group, of
    those that say where it is both, of others (``there``, ``are``) none.

    Args:
        size: number of pictures.
        seed, split, image_size, shapes, colours, scale: as for :class:`Scenes`.
        most: things of a group, at most 3.

        >>> sample = SceneCaptions(100, seed=1, image_size=64)[0]
        >>> sample.references[0]
        'two red bars below a blue bar'
        >>> sample.mentions[0]
        ((0, 1), (0, 1), (0, 1), (0, 1, 2), (2,), (2,), (2,))
        >>> sample.region(0, 6).shape
        torch.Size([64, 64])
    """

    def __init__(
        self,
        size: int,
        seed: int = 0,
        split: str = "train",
        *,
        image_size: int = 112,
        most: int = 2,
        shapes: Sequence[str] = SHAPES,
        colours: Sequence[str] = tuple(COLOURS),
        scale: float = 1.0,
    ) -> None:
        # Checks all that both kinds of scenes share, and says so in the same words.
        same = Scenes(size, seed, split, image_size=image_size, shapes=shapes, colours=colours, scale=scale)
        if type(most) is not int or not 1 <= most <= _MOST:
            raise ValueError(f"SceneCaptions: most must be an integer from 1 to {_MOST}, got {most!r}")
        self.size, self.seed, self.split, self.image_size = same.size, same.seed, split, same.image_size
        self.shapes, self.colours, self.scale, self.most = same.shapes, same.colours, same.scale, most

    @property
    def words(self) -> tuple[str, ...]:
        """Return all words that can occur, the same for every seed and split."""
        numbers = (*(_NUMBERS[count] for count in range(1, self.most + 1)), "an")
        sides = dict.fromkeys(word for side in SIDES for word in side.split())
        named = (*self.shapes, *(map(plural, self.shapes) if self.most > 1 else ()), *self.colours)
        verbs = ("is", "are") if self.most > 1 else ("is",)
        return (*numbers, "the", "there", *verbs, *sides, *named)

    def __len__(self) -> int:
        return self.size

    def __getitem__(self, index: int) -> CaptionSample:
        index = operator.index(index)
        told = self.tell(index)
        picture, masks = told.scene.draw()
        return CaptionSample(
            id=f"scenes-{self.seed}-{self.split}-{index % self.size}",
            captions=told.captions,
            image=torch.from_numpy(picture.transpose(2, 0, 1).copy()),
            objects=told.objects,
            masks=torch.from_numpy(masks),
            mentions=told.mentions,
        )

    def tell(self, index: int) -> Told:
        """Make sample ``index`` before it is drawn."""
        if not -self.size <= index < self.size:
            raise IndexError(f"SceneCaptions: index {index} is out of range for {self.size} samples")
        rng = np.random.default_rng((_STREAM, self.seed, SPLITS.index(self.split), index % self.size))
        draw = RandomChoices(rng, self.shapes, self.colours)
        first = draw.shape(), draw.colour()
        second = (draw.shape(), draw.colour(first[1])) if draw.coin() else (draw.shape(first[0]), draw.colour())
        counts = draw.integer(1, self.most), draw.integer(1, self.most)
        side, cut = draw.one(SIDES), float(rng.uniform(0.4, 0.6))
        boxes = [beyond(side, cut - _CLEAR / 2)] * counts[0]
        boxes += [beyond(OPPOSITE[side], 1 - cut - _CLEAR / 2)] * counts[1]
        cast = [first] * counts[0] + [second] * counts[1]
        plan = QuestionPlan("", "", cast, len(cast), lambda shape, colour: False, boxes, ANYWHERE)
        scene = Scene(place_things(draw, plan, len(cast), self.scale), ground(rng, self.image_size))
        left = Group(*first, tuple(range(counts[0])))
        right = Group(*second, tuple(range(counts[0], sum(counts))))
        told = [_unfold(parts) for parts in _phrase(left, right, side)]
        objects = tuple(dict.fromkeys((first[0], second[0])))
        return Told(scene, tuple(words for words, _ in told), tuple(about for _, about in told), objects)

    def __repr__(self) -> str:
        return f"SceneCaptions({self.size}, seed={self.seed}, split={self.split!r}, image_size={self.image_size})"


Part = tuple[Sequence[str], tuple[int, ...]]  # words, and what they are about


def _phrase(first: Group, second: Group, side: str) -> list[list[Part]]:
    """Return five ways to say that the first group is at a side of the second."""
    both, none = first.things + second.things, ()
    here, there = side.split(), OPPOSITE[side].split()
    is_first, is_second = ("is" if len(group.things) == 1 else "are" for group in (first, second))
    one, other = (first.name(), first.things), (second.name(), second.things)
    return [
        [one, (here, both), other],
        [other, (there, both), one],
        [(["there", is_first], none), one, (here, both), other],
        [(first.name("the"), first.things), ([is_first], none), (here, both), (second.name("the"), second.things)],
        [other, ([is_second], none), (there, both), one],
    ]


def _unfold(parts: Sequence[Part]) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    words = tuple(word for some, _ in parts for word in some)
    return words, tuple(about for some, about in parts for _ in some)
