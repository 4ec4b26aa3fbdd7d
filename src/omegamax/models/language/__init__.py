"""Language models: a decoder with any map in its attention and at its output, a cache, and memories of the past."""

from omegamax.models.language.build import make_language_model as make_language_model
from omegamax.models.language.config import LanguageConfig as LanguageConfig
from omegamax.models.language.config import MemoryConfig as MemoryConfig
from omegamax.models.language.decoder import Decoder as Decoder
from omegamax.models.language.memory import SlotMemory as SlotMemory
from omegamax.models.language.network import LanguageModel as LanguageModel
from omegamax.models.token_output import TokenOutputConfig as TokenOutputConfig
