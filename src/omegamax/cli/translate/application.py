"""``omegamax translate``: train, measure and explain networks that translate, and let them translate."""

from __future__ import annotations

from omegamax.cli.application import Application
from omegamax.cli.translate import alphas, compare, demo, explain, predict, type_words

TRANSLATE = Application(
    name="translate",
    summary="translation with exact zeros, of the papers or your own: fit, test, predict, explain, compare, type, demo",
    task="omegamax.tasks.translation:TranslationTask",
    data="omegamax.tasks.translation:TranslationData",
    default_data="TinyPairsData",
    monitor="val_bleu",
    epochs=10,
    defaults={"trainer.gradient_clip_val": 1.0},
    links={"data.vocabulary": "model.vocabulary"},
    map_options="--model.network.attention_options '{...}'",
    asked="sentences",
    stages={
        "fit": "train a network",
        "validate": "measure greedy translations of a trained network on the validation part",
        "test": "measure translations of a trained network on the test part, and write them",
    },
    commands={
        "predict": predict,
        "explain": explain,
        "compare": compare,
        "alphas": alphas,
        "type": type_words,
        "demo": demo,
    },
)
