"""The modular co-attention network for visual question answering, with any attention over the image."""

from omegamax.models.mcan.blocks import Attention as Attention
from omegamax.models.mcan.blocks import GuidedAttention as GuidedAttention
from omegamax.models.mcan.blocks import SelfAttention as SelfAttention
from omegamax.models.mcan.config import KINDS as KINDS
from omegamax.models.mcan.config import MCANConfig as MCANConfig
from omegamax.models.mcan.config import OutputConfig as OutputConfig
from omegamax.models.mcan.grid import GridAttention as GridAttention
from omegamax.models.mcan.grid import ImageGrid as ImageGrid
from omegamax.models.mcan.look import GridLook as GridLook
from omegamax.models.mcan.loss import LOSSES as LOSSES
from omegamax.models.mcan.loss import AnswerLoss as AnswerLoss
from omegamax.models.mcan.model import MCAN as MCAN
from omegamax.models.mcan.model import Answer as Answer
from omegamax.models.mcan.model import AnswerClassifier as AnswerClassifier
from omegamax.models.mcan.model import ImageDecoder as ImageDecoder
from omegamax.models.mcan.model import QuestionEncoder as QuestionEncoder
from omegamax.models.mcan.output import OutputAttention as OutputAttention
from omegamax.models.mcan.papers import PAPERS as PAPERS
