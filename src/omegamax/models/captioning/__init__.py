"""Networks that write captions of pictures, word by word, with any attention over the picture."""

from omegamax.models.captioning.captioner import Captioner as Captioner
from omegamax.models.captioning.captioner import Writing as Writing
from omegamax.models.captioning.config import DECODERS as DECODERS
from omegamax.models.captioning.config import CaptionConfig as CaptionConfig
from omegamax.models.captioning.lstm import LSTMDecoder as LSTMDecoder
from omegamax.models.captioning.memory import ImageMemory as ImageMemory
from omegamax.models.captioning.transformer import TransformerDecoder as TransformerDecoder
