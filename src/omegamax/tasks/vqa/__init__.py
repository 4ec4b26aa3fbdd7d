"""Visual question answering: trained, measured, and looked at."""

from omegamax.tasks.rate import Rate as Rate
from omegamax.tasks.vqa.checkpoint import Record as Record
from omegamax.tasks.vqa.checkpoint import read_checkpoint as read_checkpoint
from omegamax.tasks.vqa.checkpoint import write_safetensors as write_safetensors
from omegamax.tasks.vqa.data import VQAData as VQAData
from omegamax.tasks.vqa.scores import Scores as Scores
from omegamax.tasks.vqa.sets import DaquarData as DaquarData
from omegamax.tasks.vqa.sets import EasyVQAData as EasyVQAData
from omegamax.tasks.vqa.sets import NLVRData as NLVRData
from omegamax.tasks.vqa.sets import ScenesData as ScenesData
from omegamax.tasks.vqa.sets import ShapesData as ShapesData
from omegamax.tasks.vqa.sets import VQA2Data as VQA2Data
from omegamax.tasks.vqa.task import VQATask as VQATask
