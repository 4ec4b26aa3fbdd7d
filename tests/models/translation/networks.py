"""Small networks of every architecture, with the sizes that exhaustive search can bear."""

import torch

from omegamax.models.translation import TokenOutputConfig, TransformerTranslator, TranslatorConfig

SOURCE = torch.tensor([[5, 6, 7, 4, 2], [7, 5, 2, 0, 0], [2, 0, 0, 0, 0]])
TARGET = torch.tensor([[4, 6, 2, 0], [5, 4, 6, 2], [2, 0, 0, 0]])


def make_transformer(seed=0, target=9, **changes):
    torch.manual_seed(seed)
    settings = {"dim": 8, "heads": 2, "hidden_dim": 12, "layers": 2, "attention": "entmax15", **changes}
    return TransformerTranslator(TranslatorConfig(8, target, **settings)).double().eval()


NETWORKS = {
    "transformer": make_transformer,
    "softmax": lambda **more: make_transformer(attention="softmax", output=TokenOutputConfig("softmax"), **more),
    "learnt": lambda **more: make_transformer(attention="entmax", learn_alpha=True, tied=False, **more),
    "fusedmax": lambda **more: make_transformer(attention="fusedmax", attention_options={"strength": 0.1}, **more),
}
