"""Models: attention with any of the maps, at work."""

from omegamax.models import captioning as captioning
from omegamax.models import language as language
from omegamax.models import latents as latents
from omegamax.models import mcan as mcan
from omegamax.models import signals as signals
from omegamax.models import text as text
from omegamax.models import translation as translation
from omegamax.models.bag_classifier import BagClassifier as BagClassifier
from omegamax.models.captioning import CaptionConfig as CaptionConfig
from omegamax.models.captioning import Captioner as Captioner
from omegamax.models.grid_cnn import GridCNN as GridCNN
from omegamax.models.language import Decoder as Decoder
from omegamax.models.language import LanguageConfig as LanguageConfig
from omegamax.models.mcan import MCAN as MCAN
from omegamax.models.mcan import MCANConfig as MCANConfig
from omegamax.models.signals import Receiver as Receiver
from omegamax.models.signals import Sender as Sender
from omegamax.models.signals import SignalGame as SignalGame
from omegamax.models.text import TextClassifier as TextClassifier
from omegamax.models.text import TextConfig as TextConfig
from omegamax.models.vae import VAE as VAE
