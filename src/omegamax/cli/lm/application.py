"""``omegamax lm``: train and measure language models, let them write, and compare what they write."""

from __future__ import annotations

from omegamax.cli.application import Application
from omegamax.cli.lm import compare, demo, generate

LM = Application(
    name="lm",
    summary="language models with exact zeros, on any text: fit, validate, test, generate, compare, demo",
    task="omegamax.tasks.language:LanguageTask",
    data="omegamax.tasks.language:LanguageData",
    default_data="EmbeddedReviewsData",
    monitor="val_sparsemax_score",
    epochs=10,
    defaults={"trainer.gradient_clip_val": 1.0},
    links={"data.vocabulary": "model.vocabulary"},
    map_options="--model.network.attention_options '{...}'",
    asked="windows",
    stages={
        "fit": "train a language model",
        "validate": "measure predictions of a trained network on the validation part",
        "test": "measure predictions of a trained network on the test part",
    },
    commands={"generate": generate, "compare": compare, "demo": demo},
)
