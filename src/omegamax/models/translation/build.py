"""The network that a configuration names."""

from __future__ import annotations

from omegamax.models.translation.config import TranslatorConfig
from omegamax.models.translation.recurrent import RecurrentTranslator
from omegamax.models.translation.transformer import TransformerTranslator
from omegamax.models.translation.translator import Translator


def make_translator(config: TranslatorConfig) -> Translator:
    """Make the network of a configuration.

    >>> type(make_translator(TranslatorConfig.tiny(9, 9))).__name__
    'TransformerTranslator'
    """
    return (TransformerTranslator if config.architecture == "transformer" else RecurrentTranslator)(config)
