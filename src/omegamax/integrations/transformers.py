"""Hugging Face models with any map in place of softmax: ``attn_implementation="omegamax:entmax15"``.

:func:`register` makes the names known to transformers. After it a model is built, loaded, switched and saved as ever:

    >>> from transformers import BertConfig, BertModel
    >>> from omegamax.integrations.transformers import register
    >>> register()
    >>> config = BertConfig(
    ...     vocab_size=64, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, intermediate_size=64,
    ...     initializer_range=0.5, attn_implementation="omegamax:sparsemax",
    ... )
    >>> out = BertModel(config).eval()(torch.arange(20)[None], output_attentions=True)
    >>> out.attentions[0].shape, bool((out.attentions[0] == 0).any())
    (torch.Size([1, 4, 20, 20]), True)

A name is ``omegamax:MAP`` or ``omegamax:MAP:PARAMETER``: ``softmax``, ``sparsemax``, ``entmax15``, ``entmax:1.3``,
``normmax:2``, and ``entmax:learnable`` with one alpha for each head of each layer. The name goes into ``config.json``,
and a learnt alpha into the weights, so ``from_pretrained`` restores both; where :func:`register` was not called,
transformers refuses the name, rather than returning softmax attention.

Four methods of transformers are extended for that, since it has no place to ask for it: ``PreTrainedConfig.to_dict``
writes our names and ``from_dict`` keeps them, ``PreTrainedModel.post_init`` adds the alphas to a model that is being
built, and ``PreTrainedModel._initialize_weights`` sets those that a checkpoint lacks. Models without our names pass
through unchanged.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import torch
import transformers
from torch import Tensor

from omegamax._torch_internals import backward_pass_id
from omegamax.integrations._alphas import LEARNT, attach_alphas, attention_layers
from omegamax.integrations._layer import attend
from omegamax.maps import get, records
from omegamax.nn import Alpha

_active_collector: Any = None
with contextlib.suppress(ImportError):  # Which outputs the model collects during this call; older versions do not tell.
    from transformers.utils.output_capturing import _active_collector

_wanted: weakref.WeakKeyDictionary[torch.nn.Module, bool] = weakref.WeakKeyDictionary()  # weights, by layer

PREFIX = "omegamax:"
LEARNABLE = "learnable"
PARAMETER = {"entmax": "alpha", "normmax": "alpha", "k_subsets": "k", "fusedmax": "strength", "oscarmax": "strength"}


def register(*maps: str) -> None:
    """Make maps known to transformers as values of ``attn_implementation``.

    Args:
        maps: further maps, such as ``"entmax:1.125"`` or ``"k_subsets:2"``. Without any there are ``softmax``,
            ``sparsemax``, ``entmax15``, ``entmax:A`` and ``normmax:A`` for every A with two decimals up to 4 (from 1
            and from 1.01), and ``entmax:learnable`` and ``normmax:learnable``.

    Calling it again does no harm.

        >>> register("entmax:1.125")
        >>> "omegamax:entmax:1.125" in transformers.AttentionInterface()
        True
    """
    _extend(transformers.PretrainedConfig, "to_dict", _to_dict)
    _extend(transformers.PretrainedConfig, "from_dict", _from_dict)
    _extend(transformers.PreTrainedModel, "post_init", _post_init)
    _extend(transformers.PreTrainedModel, "_initialize_weights", _initialize_weights)
    # A mask is made as for torch's attention: bool, True keeps; none where all is seen or the layer is causal.
    mask = transformers.AttentionMaskInterface()["sdpa"]
    for name in (*_standard(), *maps):
        name = name.removeprefix(PREFIX)
        transformers.AttentionInterface.register(PREFIX + name, _function(name))
        transformers.AttentionMaskInterface.register(PREFIX + name, mask)


def learnable_alpha(
    model: transformers.PreTrainedModel, start: float | None = None, map: str = "entmax"
) -> transformers.PreTrainedModel:
    """Give every attention head of a model an alpha of its own to learn, and switch the model to it.

    Args:
        model: any model whose layers use transformers' ``AttentionInterface``.
        start: alpha to begin with, strictly between the bounds: 1 and 2 for entmax, 1.1 and 2.9 for normmax. By default
            the middle.
        map: ``"entmax"`` or ``"normmax"``.

    Returns:
        The model. Its new parameters are ``<layer>.omegamax.alpha.raw``, ``[heads]``; :func:`alphas` reads them.

    Make the optimiser after this call. A new model does without it: ``attn_implementation="omegamax:entmax:learnable"``
    gives alphas of 1.5.

        >>> config = transformers.GPT2Config(vocab_size=64, n_positions=32, n_embd=32, n_layer=2, n_head=4)
        >>> model = learnable_alpha(transformers.GPT2LMHeadModel(config), start=1.25)
        >>> alphas(model)["transformer.h.0.attn"]
        tensor([1.2500, 1.2500, 1.2500, 1.2500], grad_fn=<ClampBackward1>)

    Reference: Correia, Niculae & Martins (EMNLP 2019).
    """
    if map not in LEARNT:
        raise ValueError(f"learnable_alpha: map must be one of {', '.join(LEARNT)}, got {map!r}")
    if not any(True for _ in attention_layers(model)):
        raise ValueError(f"learnable_alpha: no layer of {type(model).__name__} uses transformers' AttentionInterface")
    register()
    attach_alphas(model, map, start, replace=True)
    model.set_attn_implementation(f"{PREFIX}{map}:{LEARNABLE}")
    return model


def alphas(model: torch.nn.Module) -> dict[str, Tensor]:
    """Return the learnt alphas of a model by the name of their layer, ``[heads]`` each; with gradient."""
    learnt = {name: layer for name, layer in model.named_modules() if isinstance(layer, Alpha)}
    return {name.removesuffix(".omegamax.alpha"): alpha.value for name, alpha in learnt.items()}


def _standard() -> Iterator[str]:
    yield from ("softmax", "sparsemax", "entmax15")
    for name, lowest in (("entmax", 100), ("normmax", 101)):
        yield from (name, f"{name}:inf", f"{name}:{LEARNABLE}")
        for hundredths in range(lowest, 401):
            alpha = hundredths / 100
            yield from {f"{name}:{alpha:g}", f"{name}:{alpha}", f"{name}:{alpha:.2f}"}


def _function(name: str) -> Callable[..., tuple[Tensor, Tensor | None]]:
    """Return the attention function of ``MAP`` or ``MAP:PARAMETER``."""
    kind, _, parameter = name.partition(":")
    if kind in LEARNT and parameter == LEARNABLE:
        fixed = None
    elif parameter and kind not in PARAMETER:
        known = f"takes no parameter; {', '.join(PARAMETER)} do" if kind in records() else "is not known"
        raise ValueError(f"register: in {name!r} the map {kind!r} {known}")
    else:
        try:
            # Integers stay integers: a budget of 2 is not one of 2.0.
            value = None if not parameter else int(parameter) if parameter.isdigit() else float(parameter)
        except ValueError:
            raise ValueError(f"register: the parameter in {name!r} must be a number, got {parameter!r}") from None
        fixed = get(kind) if value is None else get(kind, **{PARAMETER[kind]: value})

    def omegamax_attention(
        module: torch.nn.Module,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        attention_mask: Tensor | None = None,
        **options: Any,
    ) -> tuple[Tensor, Tensor | None]:
        transform = getattr(module, "omegamax", None) if fixed is None else fixed
        if transform is None:
            raise RuntimeError(
                f"{type(module).__name__} has no alphas for {PREFIX}{name}: give the model some with "
                "omegamax.integrations.transformers.learnable_alpha(model)"
            )
        weights = _weights_wanted(module, options)
        return attend(module, query, key, value, attention_mask, transform, weights=weights, **options)

    return omegamax_attention


def _weights_wanted(layer: torch.nn.Module, options: dict[str, Any]) -> bool:
    """False only if it is sure that nobody reads them: weights cost time and memory."""
    collected = _active_collector.get() if _active_collector is not None else None
    if collected is None and not torch.compiler.is_compiling() and backward_pass_id() != -1:
        # Computed again for the backward pass, to save memory: as the first time, when it was known.
        return _wanted.get(layer, True)
    asked = collected is None or any(key.endswith("attentions") for key in collected)
    wanted = asked or bool(options.get("output_attentions"))
    if not torch.compiler.is_compiling():
        _wanted[layer] = wanted
    return wanted


def _extend(owner: type, name: str, extension: Callable[..., Any]) -> None:
    """Put ``extension(original, self, ...)`` in the place of a method, or of a class method, once."""
    kept = inspect.getattr_static(owner, name)
    of_class = isinstance(kept, classmethod)
    original = kept.__func__ if of_class else kept
    if getattr(original, "extended_by_omegamax", False):
        return

    @functools.wraps(original)
    def method(self: Any, *args: Any, **options: Any) -> Any:
        return extension(original, self, *args, **options)

    method.extended_by_omegamax = True  # type: ignore[attr-defined]
    setattr(owner, name, classmethod(method) if of_class else method)


def _to_dict(original: Callable[..., dict[str, Any]], config: Any) -> dict[str, Any]:
    """Add our names, which transformers would leave out. Loading takes them from there as it does any setting."""
    settings = original(config)
    if names := _names(config):
        settings["attn_implementation"] = names
    return settings


def _from_dict(original: Callable[..., Any], owner: type, config_dict: dict[str, Any], **options: Any) -> Any:
    """Early versions, 5.0 among them, drop what the file says and take only what the caller says."""
    written = config_dict.get("attn_implementation")
    if options.get("attn_implementation") is None and written and PREFIX in str(written):
        options["attn_implementation"] = written
    return original(owner, config_dict, **options)


def _names(config: Any) -> str | dict[str, Any] | None:
    """Our name, or those of the parts of a composite model as transformers takes them; none if there is none."""
    name = getattr(config, "_attn_implementation", None)
    own = name if isinstance(name, str) and name.startswith(PREFIX) else None
    parts = {part: getattr(config, part, None) for part in getattr(config, "sub_configs", None) or {}}
    found = {part: _names(inner) for part, inner in parts.items() if inner is not None}
    if all(names == own for names in found.values()):
        return own
    return {part: names for part, names in {"": own, **found}.items() if names}


def _post_init(original: Callable[..., None], model: transformers.PreTrainedModel) -> None:
    """Alphas must be there before weights are initialised or loaded."""
    name = getattr(model.config, "_attn_implementation", None) or ""
    if name.startswith(PREFIX):
        attention = [layer for layer in model.modules() if "Attention" in type(layer).__name__]
        if attention and not any(True for _ in attention_layers(model)):
            raise ValueError(
                f"attn_implementation={name!r}: {type(model).__name__} does not use transformers' AttentionInterface, "
                "and would compute softmax attention all the same"
            )
        kind, _, parameter = name.removeprefix(PREFIX).partition(":")
        if parameter == LEARNABLE:
            attach_alphas(model, kind, None, replace=False)
    original(model)


def _initialize_weights(
    original: Callable[..., None], model: transformers.PreTrainedModel, module: torch.nn.Module, *args: Any
) -> None:
    """Initialise alphas that a checkpoint lacks: models only know how to initialise their own modules."""
    raw = module.raw if isinstance(module, Alpha) else None
    known = any(getattr(owner, "_is_hf_initialized", False) for owner in (module, raw))
    original(model, module, *args)
    if raw is not None and not known:
        torch.nn.init.zeros_(raw)  # the middle of the interval
