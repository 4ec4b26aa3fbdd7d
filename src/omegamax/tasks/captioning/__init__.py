"""Captions of pictures: written, measured, and looked at word by word."""

from omegamax.tasks.captioning.predictions import CaptionPrediction as CaptionPrediction
from omegamax.tasks.captioning.predictions import CaptionPredictions as CaptionPredictions
