"""``omegamax caption``: train, measure and explain networks that write captions of pictures."""

from __future__ import annotations

from omegamax.cli import ratings
from omegamax.cli.application import Application
from omegamax.cli.caption import compare, demo, explain, rate

CAPTION = Application(
    name="caption",
    summary="captions of pictures, written word by word: fit, test, predict, explain, compare, rate, ratings, demo",
    task="omegamax.tasks.captioning:CaptionTask",
    data="omegamax.tasks.captioning:CaptionData",
    default_data="SceneCaptionsData",
    monitor="val_bleu4",
    epochs=50,  # as in the paper
    defaults={"trainer.gradient_clip_val": 5.0},
    links={"data.vocabulary": "model.vocabulary"},
    map_options="--model.network.attention",
    answers="omegamax.tasks.captioning.writer:CaptionsWriter",
    asked="pictures",
    stages={
        "fit": "train a network",
        "validate": "measure captions and maps of a trained network on the validation part",
        "test": "measure captions and maps of a trained network on the test part",
        "predict": "write captions of the pictures of the test part, into captions.jsonl and maps.npz in the run's "
        "folder",
    },
    commands={"explain": explain, "compare": compare, "rate": rate, "ratings": ratings, "demo": demo},
)
