"""Models: attention with any of the maps, at work."""

from omegamax.models import mcan as mcan
from omegamax.models.bag_classifier import BagClassifier as BagClassifier
from omegamax.models.grid_cnn import GridCNN as GridCNN
from omegamax.models.mcan import MCAN as MCAN
from omegamax.models.mcan import MCANConfig as MCANConfig
