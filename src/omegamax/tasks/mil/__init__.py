"""Multiple-instance learning: bags that are positive if some of their instances are."""

from omegamax.tasks.mil.copies import Copies as Copies
from omegamax.tasks.mil.copies import Training as Training
from omegamax.tasks.mil.data import BagsData as BagsData
from omegamax.tasks.mil.data import MILBenchmarkData as MILBenchmarkData
from omegamax.tasks.mil.data import MNISTBagsData as MNISTBagsData
from omegamax.tasks.mil.task import MILTask as MILTask
