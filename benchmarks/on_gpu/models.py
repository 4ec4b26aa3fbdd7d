"""Models of Hugging Face from a config, with sparse attention: forward, backward and ``generate``."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

import omegamax
from on_gpu import DEVICE
from on_gpu.clock import Clock
from on_gpu.contract_rows import largest, worst
from on_gpu.pool import Job
from on_gpu.sheet import Sheet

SIZES = {"hidden_size": 256, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 512}
TEXT = {**SIZES, "vocab_size": 1000, "max_position_embeddings": 4096, "initializer_range": 0.1}
SPECIAL = {"bos_token_id": None, "eos_token_id": None, "pad_token_id": 0}
GPT2 = {"vocab_size": 1000, "n_positions": 4096, "n_embd": 256, "n_layer": 4, "n_head": 4, "initializer_range": 0.1}
WRITERS = ("gpt2", "llama")
TOKENS = 12  # written by ``generate``


def make(name: str, attention: str, device: str, dropout: float = 0.0) -> Any:
    """A model with random weights, the same for every kind of attention; ``dropout`` of its weights of attention."""
    import transformers as hf

    from omegamax.integrations.transformers import register

    register()
    hf.utils.logging.set_verbosity_error()
    drop = {"attention_probs_dropout_prob": dropout}
    kinds: dict[str, Callable] = {
        "bert": lambda: hf.BertModel(hf.BertConfig(**TEXT, **drop, attn_implementation=attention)),
        "gpt2": lambda: hf.GPT2LMHeadModel(
            hf.GPT2Config(**GPT2, **SPECIAL, attn_pdrop=dropout, attn_implementation=attention)
        ),
        "vit": lambda: hf.ViTModel(hf.ViTConfig(**SIZES, initializer_range=0.1, attn_implementation=attention)),
        "llama": lambda: hf.LlamaForCausalLM(
            hf.LlamaConfig(**TEXT, **SPECIAL, num_key_value_heads=2, head_dim=64, attn_implementation=attention)
        ),
    }
    torch.manual_seed(8)
    return kinds[name]().eval().to(device)


PAIRS = [
    *((name, "omegamax:entmax15") for name in ("bert", "gpt2", "vit", "llama")),
    ("gpt2", "omegamax:sparsemax"),
    ("llama", "omegamax:entmax:1.3"),
    *((name, "omegamax:entmax:learnable") for name in ("bert", "llama")),
]


def jobs(scale: str = "full") -> list[Job]:
    if scale == "tiny":
        return [Job("models", __name__, "check", PAIRS[0])]
    return [Job("models", __name__, "check", pair) for pair in PAIRS]


def check(sheet: Sheet, name: str, attention: str, device: str = DEVICE) -> None:
    """Outputs and gradients as with plain torch; text the same with a cache and without."""
    row = {"work": f"{name}, {attention}", "dtype": "float32", "name": "omegamax"}
    with sheet.kept(way="model", **row):
        model = make(name, attention, device)
        given = inputs(name, 2, 100, device)
        with omegamax.backend("reference"):
            expected = _with_gradients(model, given)
        found = _with_gradients(model, given)
        # A score on the edge of the support may fall to either side, and gradients jump there.
        for way, part, mine, plain in zip(("forward", "backward"), (2e-4, 2e-3), found, expected, strict=True):
            sheet.contract(worst(mine, plain), part * largest(plain), way=f"{way}, against plain torch", **row)
        if name in WRITERS:
            options = {"max_new_tokens": TOKENS, "do_sample": False}
            cached, again = (model.generate(given["input_ids"], use_cache=c, **options) for c in (True, False))
            wrong = float((cached != again).sum()) if cached.shape == again.shape else float("inf")
            sheet.contract(wrong, 0.0, way="generate: tokens that differ without the cache", **row)


def inputs(name: str, batch: int, length: int, device: str) -> dict[str, Tensor]:
    if name == "vit":
        return {"pixel_values": torch.randn(batch, 3, 224, 224, generator=torch.Generator().manual_seed(9)).to(device)}
    ids = torch.randint(1, 1000, (batch, length), generator=torch.Generator().manual_seed(9)).to(device)
    mask = torch.ones_like(ids)
    mask[0, : length // 4] = 0  # padded on the left, as for generate
    return {"input_ids": ids, "attention_mask": mask}


def _with_gradients(model: Any, given: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """What the model says of tokens that are there, and the gradients of all its weights in one row."""
    model.zero_grad()
    out = model(**given)[0]
    if "attention_mask" in given:
        out = out * given["attention_mask"][..., None]
    out.square().mean().backward()
    return out.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def measure(sheet: Sheet, scale: str = "full", device: str = DEVICE) -> Iterator[str]:
    """A step of training, and a text, over those with torch's attention."""
    kinds = {("softmax", "torch"): "sdpa", ("entmax15", "omegamax"): "omegamax:entmax15"}
    length = 16 if scale == "tiny" else 2048
    for name in ("bert",) if scale == "tiny" else ("bert", "llama"):
        models = {key: make(name, attention, device).to(torch.bfloat16) for key, attention in kinds.items()}
        given = inputs(name, 8, length, device)
        given["attention_mask"].fill_(1)
        steps = {key: partial(train_step, model, given) for key, model in models.items()}
        _add(sheet, name, f"8x{length}", "forward+backward", Clock(device, 0.5, rounds=(3, 20)), steps)
        if name in WRITERS:
            prompt = {key: x[:, : length // 4] for key, x in given.items()}
            texts = {
                key: partial(model.generate, **prompt, max_new_tokens=32, do_sample=False)
                for key, model in models.items()
            }
            _add(sheet, name, f"8x{length // 4}", "generate 32 tokens", Clock(device, 0.5, rounds=(2, 3)), texts)
        yield f"{name}: timed"


def train_step(model: Any, given: dict[str, Tensor]) -> None:
    """Gradients of all weights."""
    model(**given)[0].square().mean().backward()


def _add(sheet: Sheet, name: str, shape: str, way: str, clock: Clock, rivals: dict) -> None:
    for (work, library), reading in clock.compare(rivals, ("softmax", "torch")).items():
        sheet.add(work=f"{name}, {work}", shape=shape, dtype="bfloat16", way=way, name=library, **vars(reading))
