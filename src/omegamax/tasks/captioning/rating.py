"""Captions that networks wrote, and where they looked for each word, for people to rate."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from omegamax.data import DataError
from omegamax.tasks.captioning.predictions import CaptionPrediction, CaptionPredictions
from omegamax.tasks.progress import progress
from omegamax.tasks.rating import RatedLook, RatedPicture, Survey, find_content_words


def survey_captions(
    runs: Mapping[str, CaptionPredictions], read: Callable[[str], Tensor], count: int, seed: int = 0
) -> Survey:
    """Return a survey of the captions of networks of ``count`` photographs, drawn at random.

    The attention is rated for each word that is no stop word, see
    :func:`~omegamax.tasks.rating.find_content_words`.

    Args:
        runs: captions by the names of the table, with their maps.
        read: returns a photograph ``[3, H, W]`` by its name.
        seed: of the draw, and of the orders in the survey.

    Reference: Martins et al., "Sparse and structured visual attention" (2020), App. B.
    """
    if not runs:
        raise ValueError("survey_captions: runs must have the captions of a network at least, got none")
    first, *others = runs.values()
    shared = [image for image in first.images if all(image in each for each in others)]
    if not shared:
        raise DataError(f"{', '.join(runs)} have no photograph in common; let them caption the same part of a set")
    chosen = random.Random(seed).sample(shared, min(count, len(shared)))
    pictures = []
    for image in progress(chosen, "reading"):
        looks = {name: _look(name, each[image]) for name, each in runs.items()}
        pictures.append(RatedPicture(image, read(image), looks))
    return Survey(pictures, seed)


def _look(name: str, said: CaptionPrediction) -> RatedLook:
    rated = tuple(find_content_words(said.tokens))
    if said.maps is None:
        if said.tokens:
            raise DataError(f"{name} has no maps of {said.image}; write them with `omegamax caption predict`")
        return RatedLook((), (), torch.zeros(0, 1, 1))
    return RatedLook(said.tokens, rated, said.maps[list(rated)])
