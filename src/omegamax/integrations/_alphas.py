"""One alpha for each head of each attention layer of a Hugging Face model. Imports nothing of transformers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator

import torch

from omegamax.nn import Entmax, Normmax

# A learnt alpha starts in the middle of its interval: 1.5 and 2.
LEARNT: dict[str, Callable[[float, int], torch.nn.Module]] = {
    "entmax": lambda start, heads: Entmax(start, learnable=True, per=heads, bounds=(1.0, 2.0)),
    "normmax": lambda start, heads: Normmax(start, learnable=True, per=heads, bounds=(1.1, 2.9)),
}
MIDDLE = {"entmax": 1.5, "normmax": 2.0}
HEADS = ("num_heads", "num_attention_heads", "n_heads", "n_head")


def attach_alphas(model: torch.nn.Module, kind: str, start: float | None, replace: bool) -> None:
    """Give the layers a map with learnt alphas, as their ``omegamax``; those that have one keep it, or not."""
    for layer in attention_layers(model):
        if isinstance(getattr(layer, "omegamax", None), Entmax | Normmax) and not replace:
            continue
        weight = next(layer.parameters())
        # from_pretrained builds models without memory for their weights, where alpha's checks could not be made.
        with torch.device("cpu"):
            learnt = LEARNT[kind](MIDDLE[kind] if start is None else start, _count_heads(layer))
        layer.omegamax = learnt.to(weight.device, weight.dtype if weight.is_floating_point() else None)


def attention_layers(model: torch.nn.Module) -> Iterator[torch.nn.Module]:
    """Yield the layers that take their attention function from transformers' register."""
    for layer in model.modules():
        code = getattr(inspect.unwrap(type(layer).forward), "__code__", None)
        if code is not None and "ALL_ATTENTION_FUNCTIONS" in code.co_names:
            yield layer


def _count_heads(layer: torch.nn.Module) -> int:
    for owner in (layer, getattr(layer, "config", None)):
        for name in HEADS:
            if isinstance(heads := getattr(owner, name, None), int):
                return heads
    raise ValueError(f"learnable_alpha: the number of heads of {type(layer).__name__} is not known")
