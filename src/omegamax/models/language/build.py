"""The network that a configuration names."""

from __future__ import annotations

from omegamax.models.language.config import LanguageConfig
from omegamax.models.language.decoder import Decoder
from omegamax.models.language.network import LanguageModel


def make_language_model(config: LanguageConfig) -> LanguageModel:
    """Make the network of a configuration: our decoder, or one of transformers, which then has to be installed.

    >>> type(make_language_model(LanguageConfig.tiny(9))).__name__
    'Decoder'
    """
    if config.architecture == "decoder":
        return Decoder(config)
    from omegamax.integrations.language import TransformersLanguageModel

    return TransformersLanguageModel(config)
