"""Questions about pictures, and bags of instances: the records that sets share, their numbers, and the sets."""

from omegamax.data.bags import BENCHMARKS as BENCHMARKS
from omegamax.data.bags import Bag as Bag
from omegamax.data.bags import BagTable as BagTable
from omegamax.data.bags import MILBenchmark as MILBenchmark
from omegamax.data.bags import MNISTBags as MNISTBags
from omegamax.data.bags import collate_bags as collate_bags
from omegamax.data.bags import folds as folds
from omegamax.data.collate import Collate as Collate
from omegamax.data.collate import pool as pool
from omegamax.data.daquar import Daquar as Daquar
from omegamax.data.easy_vqa import EasyVQA as EasyVQA
from omegamax.data.files import DataError as DataError
from omegamax.data.mnist import MNIST as MNIST
from omegamax.data.mnist import read_idx as read_idx
from omegamax.data.nlvr import NLVR as NLVR
from omegamax.data.ready import Ready as Ready
from omegamax.data.sample import KINDS as KINDS
from omegamax.data.sample import REGIONS as REGIONS
from omegamax.data.sample import Sample as Sample
from omegamax.data.scenes import Scenes as Scenes
from omegamax.data.shapes import Shapes as Shapes
from omegamax.data.skip import BrokenSampleWarning as BrokenSampleWarning
from omegamax.data.skip import SkipBroken as SkipBroken
from omegamax.data.vocabulary import Vocabulary as Vocabulary
from omegamax.data.vocabulary import tokenise as tokenise
from omegamax.data.vqa2 import VQA2 as VQA2
