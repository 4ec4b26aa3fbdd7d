"""Networks that translate: attention by any map, outputs that know what is impossible."""

from omegamax.models.token_output import TokenOutputConfig as TokenOutputConfig
from omegamax.models.translation.build import make_translator as make_translator
from omegamax.models.translation.config import FertilityConfig as FertilityConfig
from omegamax.models.translation.config import TranslatorConfig as TranslatorConfig
from omegamax.models.translation.recurrent import RecurrentTranslator as RecurrentTranslator
from omegamax.models.translation.transformer import TransformerTranslator as TransformerTranslator
from omegamax.models.translation.translator import Alignment as Alignment
from omegamax.models.translation.translator import Translator as Translator
