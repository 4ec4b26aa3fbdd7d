"""Pictures with captions: Flickr8k, the splits of Karpathy, MS-COCO, and scenes that need no download."""

from omegamax.data.captions.coco import read_coco as read_coco
from omegamax.data.captions.collate import CaptionCollate as CaptionCollate
from omegamax.data.captions.entry import CaptionEntry as CaptionEntry
from omegamax.data.captions.flickr8k import read_flickr8k as read_flickr8k
from omegamax.data.captions.karpathy import read_karpathy as read_karpathy
from omegamax.data.captions.pairs import CaptionPairs as CaptionPairs
from omegamax.data.captions.pairs import KeptPictures as KeptPictures
from omegamax.data.captions.pictures import CaptionedPictures as CaptionedPictures
from omegamax.data.captions.sample import CaptionSample as CaptionSample
from omegamax.data.captions.scenes import SceneCaptions as SceneCaptions
from omegamax.data.captions.vocabulary import CaptionVocabulary as CaptionVocabulary
