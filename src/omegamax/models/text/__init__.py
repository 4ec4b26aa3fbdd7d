"""Networks that read texts, with any attention over the words."""

from omegamax.models.text.alignment import AlignmentLayer as AlignmentLayer
from omegamax.models.text.alignment import WordAlignment as WordAlignment
from omegamax.models.text.attention import TextAttention as TextAttention
from omegamax.models.text.attention import WordAttention as WordAttention
from omegamax.models.text.classifier import BiLSTMEncoder as BiLSTMEncoder
from omegamax.models.text.classifier import TextAnswer as TextAnswer
from omegamax.models.text.classifier import TextClassifier as TextClassifier
from omegamax.models.text.classifier import TransformerEncoder as TransformerEncoder
from omegamax.models.text.config import TextConfig as TextConfig
from omegamax.models.text.config import WordsConfig as WordsConfig
from omegamax.models.text.entailment import EntailmentAnswer as EntailmentAnswer
from omegamax.models.text.entailment import EntailmentClassifier as EntailmentClassifier
from omegamax.models.text.rationale import RationaleClassifier as RationaleClassifier
from omegamax.models.text.rationale_config import RationaleConfig as RationaleConfig
from omegamax.models.text.selector import WordSelector as WordSelector
