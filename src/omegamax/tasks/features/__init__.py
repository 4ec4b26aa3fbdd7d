"""Grid features of pictures, with any backbone at hand."""

from omegamax.tasks.features.backbones import Backbone as Backbone
from omegamax.tasks.features.backbones import load_backbone as load_backbone
from omegamax.tasks.features.extract import extract as extract
from omegamax.tasks.features.extract import find_pictures as find_pictures
from omegamax.tasks.features.folder import FolderFeatures as FolderFeatures
