"""Captions of pictures: written, measured, and looked at word by word."""

from omegamax.tasks.captioning.data import CaptionData as CaptionData
from omegamax.tasks.captioning.predictions import CaptionPrediction as CaptionPrediction
from omegamax.tasks.captioning.predictions import CaptionPredictions as CaptionPredictions
from omegamax.tasks.captioning.sets import CocoCaptionsData as CocoCaptionsData
from omegamax.tasks.captioning.sets import FileCaptionsData as FileCaptionsData
from omegamax.tasks.captioning.sets import Flickr8kData as Flickr8kData
from omegamax.tasks.captioning.sets import KarpathyData as KarpathyData
from omegamax.tasks.captioning.sets import SceneCaptionsData as SceneCaptionsData
from omegamax.tasks.captioning.task import CaptionTask as CaptionTask
from omegamax.tasks.captioning.task import Written as Written
