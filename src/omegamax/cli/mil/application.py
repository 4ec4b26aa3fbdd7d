"""``omegamax mil``: train, measure and explain networks that classify bags of instances."""

from __future__ import annotations

from omegamax.cli.application import Application
from omegamax.cli.mil import explain

MIL = Application(
    name="mil",
    summary="multiple-instance learning, bags of digits and benchmarks: fit, validate, test, predict, explain",
    task="omegamax.tasks.mil:MILTask",
    data="omegamax.tasks.mil:BagsData",
    default_data="MNISTBagsData",
    monitor="val_auc",
    epochs=50,
    defaults={"trainer.gradient_clip_val": 1.0},
    links={"data.features": "model.features"},
    map_options="--model.options '{...}'",
    asked="bags",
    stages={
        "fit": "train a network",
        "validate": "measure a trained network on the bags for validation",
        "test": "measure a trained network on the bags for test",
        "predict": "classify the bags for test, with the weights of their instances, into answers.json in the run's "
        "folder",
    },
    commands={"explain": explain},
)
