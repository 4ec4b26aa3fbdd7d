"""``omegamax text``: train, measure and explain networks that tell the class of a text."""

from __future__ import annotations

from omegamax.cli.application import Application
from omegamax.cli.text import alphas, compare, demo, explain, game

TEXT = Application(
    name="text",
    summary="classes of texts, yours or papers': fit, validate, test, predict, explain, compare, alphas, game, demo",
    task="omegamax.tasks.text:TextTask",
    data="omegamax.tasks.text:TextData",
    default_data="ReviewsData",
    monitor="val_accuracy",
    epochs=10,  # as in the paper
    links={"data.vocabulary": "model.vocabulary"},
    starts=["model.word_vectors"],
    map_options="--model.loss_options '{...}'",
    asked="texts",
    stages={
        "fit": "train a network",
        "validate": "measure answers and attention of a trained network on the validation part",
        "test": "measure answers and attention of a trained network on the test part",
        "predict": "tell the classes of the texts of the test part, into answers.json in the run's folder",
    },
    commands={"explain": explain, "compare": compare, "alphas": alphas, "game": game, "demo": demo},
)
