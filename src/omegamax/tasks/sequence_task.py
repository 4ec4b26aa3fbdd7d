"""What tasks that write text share: the optimiser, its rate over time, and a running mean of the weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import torch

from omegamax._arguments import check_integer, check_interval, check_number
from omegamax.tasks.rate import Rate
from omegamax.tasks.run_task import RunTask
from omegamax.tasks.weights_file import check_limits, reading_record


class SequenceTask(RunTask):
    """A network that is trained by AdamW, of tokens and a configuration, both of which its files have.

    A subclass names the types of both, and in ``limits`` sizes that a file may ask for and none of its weights shows.

    Args:
        rate: learning rate over time.
        weight_decay: of the optimiser.
        betas: of the optimiser.
        average: decay of a running mean of the weights, from one step to the next, that stands in for them in
            validation, test and files; 0: the weights themselves.
        average_epochs: the same with the mean over the ends of so many last epochs, see
            :class:`~omegamax.tasks.epoch_average.EpochEnds`; 0: without.
    """

    vocabulary_type: ClassVar[type[Any]]
    config_type: ClassVar[type[Any]]
    limits: ClassVar[Mapping[str, int]]
    vocabulary: Any
    config: Any

    def __init__(
        self,
        rate: Rate,
        weight_decay: float,
        betas: tuple[float, float],
        average: float,
        average_epochs: int = 0,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        check_number(name, "weight_decay", weight_decay, least=0)
        check_interval(name, "average", average, "[0, 1)")
        self.rate, self.weight_decay, self.betas = rate, weight_decay, (betas[0], betas[1])
        self.average = average
        self.average_epochs = check_integer(name, "average_epochs", average_epochs, least=0)
        if average and average_epochs:
            both = f"average {average} and average_epochs {average_epochs}"
            raise ValueError(f"{name}: one mean of the weights can stand in for them, got {both}; give one of the two")

    def describe(self) -> dict[str, Any]:
        plain = {"vocabulary": self.vocabulary.to_dict(), "network": self.config.to_dict()}
        return {**super().describe(), "network": plain}

    @classmethod
    def check_network(cls, record: Any, path: Any) -> dict[str, Any]:
        given = super().check_network(record, path)
        with reading_record(path, cls.kind):
            vocabulary = cls.vocabulary_type.from_dict(given["vocabulary"])
            config = cls.config_type.from_dict(given["network"])
        check_limits(path, config, cls.limits, cls.kind)
        return {"vocabulary": vocabulary, "network": config}

    def configure_callbacks(self) -> list[Any]:
        if self.average_epochs:
            from omegamax.tasks.epoch_average import EpochAverage

            return [EpochAverage(self.average_epochs)]
        if not self.average:
            return []
        from lightning.pytorch.callbacks import EMAWeightAveraging

        return [EMAWeightAveraging(decay=self.average)]

    def configure_optimizers(self) -> Any:
        optimiser = torch.optim.AdamW(
            self.parameters(), self.rate.peak, betas=self.betas, weight_decay=self.weight_decay
        )
        return self.rate.schedule(optimiser, self.trainer)
