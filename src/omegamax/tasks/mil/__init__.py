"""Multiple-instance learning: bags that are positive if some of their instances are."""

from omegamax.tasks.mil.task import MILTask as MILTask
