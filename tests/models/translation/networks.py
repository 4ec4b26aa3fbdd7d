"""Small networks of every architecture, with the sizes that exhaustive search can bear."""

import torch

from omegamax.models.translation import (
    FertilityConfig,
    RecurrentTranslator,
    TokenOutputConfig,
    TransformerTranslator,
    TranslatorConfig,
)

SOURCE = torch.tensor([[5, 6, 7, 4, 2], [7, 5, 2, 0, 0], [2, 0, 0, 0, 0]])
TARGET = torch.tensor([[4, 6, 2, 0], [5, 4, 6, 2], [2, 0, 0, 0]])


def make_transformer(seed=0, target=9, **changes):
    torch.manual_seed(seed)
    settings = {"dim": 8, "heads": 2, "hidden_dim": 12, "layers": 2, "attention": "entmax15", **changes}
    return TransformerTranslator(TranslatorConfig(8, target, **settings)).double().eval()


def make_recurrent(seed=0, target=9, **changes):
    torch.manual_seed(seed)
    settings = {"dim": 8, "layers": 1, "attention": "sparsemax", "functions": 6, "widths": (0.1, 0.3), **changes}
    config = TranslatorConfig(8, target, architecture="recurrent", **settings)
    return RecurrentTranslator(config).double().eval()


def make_fertile(kind, map="sparsemax", value=0.7):
    fertility = FertilityConfig(kind, value)
    return lambda **more: make_recurrent(attention=f"constrained_{map}", fertility=fertility, **more)


NETWORKS = {
    "transformer": make_transformer,
    "softmax": lambda **more: make_transformer(attention="softmax", output=TokenOutputConfig("softmax"), **more),
    "learnt": lambda **more: make_transformer(attention="entmax", learn_alpha=True, tied=False, **more),
    "fusedmax": lambda **more: make_transformer(attention="fusedmax", attention_options={"strength": 0.1}, **more),
    "gru": make_recurrent,
    "lstm": lambda **more: make_recurrent(cell="lstm", layers=2, tied=False, word_dim=6, **more),
    "unfed": lambda **more: make_recurrent(input_feeding=False, attention="entmax", learn_alpha=True, **more),
    "continuous_softmax": lambda **more: make_recurrent(attention="softmax", density="continuous_softmax", **more),
    "continuous_sparsemax": lambda **more: make_recurrent(density="continuous_sparsemax", **more),
    "constant": make_fertile("constant"),
    "table": make_fertile("table", "softmax"),
    "predicted": make_fertile("predicted", "softmax"),
}
