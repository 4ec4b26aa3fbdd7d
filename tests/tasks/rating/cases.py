"""A survey of three pictures and three networks, whose names and words look like markup, and answers to it."""

import json

import torch

from omegamax.tasks.rating import RatedLook, RatedPicture, Survey
from omegamax.tasks.rating.page import ANSWERS_FORMAT
from omegamax.tasks.rating.survey import name_survey

NETWORKS = ("softmax", "sparse & <b>max</b>", "tvmax")
NASTY = "</script><script>window.hacked=1</script>"
CAPTIONS = {"softmax": ("a", "dog", "runs"), "sparse & <b>max</b>": ("the", NASTY), "tvmax": ()}
RATED = {"softmax": (1, 2), "sparse & <b>max</b>": (1,), "tvmax": ()}


def make_maps(count, seed=0, size=(3, 4)):
    """Maps with cells that are exactly 0."""
    weights = torch.rand(count, *size, generator=torch.Generator().manual_seed(seed))
    weights = weights.where(weights > 0.5, 0)
    return weights / weights.sum((-2, -1), keepdim=True).clamp_min(1e-9)


def make_survey(count=3, seed=0, kind="captions", name=""):
    """Pictures of one colour each, red, green and blue; surveys of another name are others, and look the same."""
    pictures = []
    for index in range(count):
        image = torch.zeros(3, 48, 64, dtype=torch.uint8)
        image[index % 3] = 200
        looks = {
            name: RatedLook(CAPTIONS[name], RATED[name], make_maps(len(RATED[name]), 10 * index + place))
            for place, name in enumerate(NETWORKS)
        }
        asked = f"what is it, {NASTY}?" if kind == "answers" else None
        pictures.append(RatedPicture(f"{name}{index}.jpg", image, looks, asked))
    return Survey(pictures, seed, kind)


def make_answers(survey, rater, grade):
    """The file that the page would save: ``grade(network, word)`` of each, ``word`` None for the caption."""
    sealed = survey.key.seal()
    answers = []
    for picture, order in zip(survey.pictures, survey.order, strict=True):
        looks = []
        for index in order:
            name = survey.networks[index]
            words = [grade(name, word) for word in picture.looks[name].rated]
            looks.append({"text": grade(name, None), "words": words})
        answers.append(looks)
    saved = {"saved": "2020-01-01T00:00:00Z", "rater": rater, "survey": name_survey(sealed), "key": sealed}
    return {"format": ANSWERS_FORMAT, **saved, "answers": answers}


def write_answers(folder, survey, rater, grade):
    """Write that file; return its path."""
    path = folder / f"{rater}.json"
    path.write_text(json.dumps(make_answers(survey, rater, grade)), encoding="utf-8")
    return path
