"""Language models of transformers with the output, the loss and the decoding of ours."""

from __future__ import annotations

from typing import Any

import torch
import transformers
from torch import Tensor

from omegamax.integrations.transformers import PREFIX, register
from omegamax.models.decoding import State
from omegamax.models.language.config import LanguageConfig
from omegamax.models.language.network import LanguageModel
from omegamax.models.token_output import make_output


class TransformersLanguageModel(LanguageModel):
    """A network of transformers, made from a configuration, any map in its attention and any at the output.

    Args:
        config: sizes; its ``architecture`` is a decoder's type in transformers, ``"llama"``, ``"gpt2"``, ``"qwen3"``...

        >>> import torch
        >>> model = TransformersLanguageModel(LanguageConfig.tiny(30, architecture="llama", attention="entmax15"))
        >>> tokens = torch.randint(4, 30, (2, 7))
        >>> model(tokens).shape, model.loss(tokens).shape
        (torch.Size([2, 7, 30]), torch.Size([]))
    """

    def __init__(self, config: LanguageConfig) -> None:
        super().__init__()
        self.config = config
        known = "LanguageConfig: architecture must be a decoder of transformers, 'llama' or 'gpt2', or 'decoder', got"
        if config.architecture not in transformers.CONFIG_MAPPING:
            raise ValueError(f"{known} {config.architecture!r}")
        name = _name_attention(config)
        register(name)
        groups = config.heads if config.groups is None else config.groups
        # The names that types have for the same sizes; each takes those that it knows.
        sizes = {
            ("hidden_size", "n_embd"): config.dim,
            ("intermediate_size", "n_inner"): config.hidden_dim,
            ("num_hidden_layers", "n_layer"): config.layers,
            ("num_attention_heads", "n_head"): config.heads,
            ("num_key_value_heads",): groups,
            ("head_dim",): config.dim // config.heads,
            ("attention_dropout", "attn_pdrop"): 0.0,
        }
        made = transformers.AutoConfig.for_model(config.architecture)
        settings = {key: value for keys, value in sizes.items() for key in keys if hasattr(made, key)}
        plain = transformers.AutoConfig.for_model(
            config.architecture,
            **settings,
            vocab_size=config.vocabulary,
            pad_token_id=None,
            bos_token_id=None,
            eos_token_id=None,
            attn_implementation=PREFIX + name,
        )
        self.body = transformers.AutoModel.from_config(plain)
        if _sees_ahead(self.body, config.vocabulary):
            raise ValueError(f"{known} {config.architecture!r}, whose states see the tokens behind them")
        self.output = make_output(
            config.output, config.dim, config.vocabulary, self.body.get_input_embeddings() if config.tied else None
        )

    def read(self, tokens: Tensor, state: State) -> tuple[Tensor, State]:
        cache = state.get("cache")
        if cache is None and not self.training:
            cache = transformers.DynamicCache()
        found = self.body(input_ids=tokens, past_key_values=cache, use_cache=cache is not None)
        return found.last_hidden_state, {**state, "cache": found.past_key_values}

    @staticmethod
    def reorder(state: Any, index: Tensor) -> Any:
        """Return the state of the sequences ``index``."""
        if state.get("cache") is not None:
            state["cache"].reorder_cache(index)
        return state


@torch.no_grad()
def _sees_ahead(body: transformers.PreTrainedModel, vocabulary: int) -> bool:
    """Tell whether the state of a token depends on the next one, which it is to foretell: no setting says so of all."""
    if vocabulary < 2 or body.device.type == "meta":
        return False
    training = body.training
    tokens = torch.tensor([[0, 0], [0, vocabulary - 1]], device=body.device)
    one, other = body.eval()(input_ids=tokens, use_cache=False).last_hidden_state[:, 0]
    body.train(training)
    return not torch.allclose(one, other, rtol=1e-4, atol=1e-5)


def _name_attention(config: LanguageConfig) -> str:
    """Return the map of attention as :func:`~omegamax.integrations.transformers.register` calls it."""
    unknown = {"sink": config.sink, "length_scale": config.length_scale, "memory": config.memory is not None}
    if given := [name for name, is_given in unknown.items() if is_given]:
        raise ValueError(f"LanguageConfig: {given[0]} goes with architecture='decoder', got {config.architecture!r}")
    if config.learn_alpha:
        return f"{config.attention}:learnable"
    options = list(config.attention_options.values())
    return config.attention + (f":{options[0]}" if options else "")
