"""``omegamax vqa``: train, measure and explain networks that answer questions about pictures."""

from __future__ import annotations

from omegamax.cli import ratings
from omegamax.cli.application import Application
from omegamax.cli.vqa import compare, explain, figures, pretrain, rate

VQA = Application(
    name="vqa",
    summary="visual question answering: fit, validate, test, predict, explain, compare, figures, rate, ...",
    task="omegamax.tasks.vqa:VQATask",
    data="omegamax.tasks.vqa:VQAData",
    default_data="ScenesData",
    monitor="val_accuracy",
    epochs=13,  # as in the papers
    links={"data.vocabulary": "model.vocabulary"},
    starts=["model.word_vectors"],
    map_options="--model.network.transform_options '{...}'",
    answers="omegamax.tasks.vqa.answers:QuestionAnswers",
    asked="questions",
    prepare="omegamax.cli.vqa._cnn:provide_missing_cnn",
    stages={
        "fit": "train a network",
        "validate": "measure answers and maps of a trained network on the validation part",
        "test": "measure answers and maps of a trained network on the test part",
        "predict": "answer the questions of the test part, into answers.json in the run's folder",
    },
    commands={
        "explain": explain,
        "compare": compare,
        "figures": figures,
        "pretrain": pretrain,
        "rate": rate,
        "ratings": ratings,
    },
)
