"""The sets of pairs of sentences: the embedded one, and SICK."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from omegamax.data.corpus import SPLITS
from omegamax.data.text import SICK, SentencePairs, Texts
from omegamax.tasks.run_data import Limit
from omegamax.tasks.text.data import TextData


class SentencePairsData(TextData):
    """The embedded set of pairs, :class:`~omegamax.data.text.SentencePairs`; needs no file.

    Args:
        samples: numbers of pairs for training, validation and test.
        pair_seed: of the pairs.
        settings: as for :class:`TextData`.

    Example:
        >>> batch = next(iter(SentencePairsData(samples=(8, 4, 4), batch_size=4).val_dataloader()))
        >>> len(batch["words"]), len(batch["second"]), batch["label"].shape
        (4, 4, torch.Size([4]))
    """

    limits: ClassVar[Mapping[str, Limit]] = {**TextData.limits, "samples": Limit(0, 1 << 28, numbers=3)}

    def __init__(self, samples: tuple[int, int, int] = (4000, 500, 1000), pair_seed: int = 0, **settings: Any) -> None:
        super().__init__(**settings)
        self.samples, self.pair_seed = tuple(samples), pair_seed

    def read(self, split: str) -> SentencePairs:
        return SentencePairs(dict(zip(SPLITS, self.samples, strict=True))[split], split, seed=self.pair_seed)


class SICKData(TextData):
    """:class:`~omegamax.data.text.SICK`: whether one sentence follows from another, contradicts it, or neither.

    Args:
        folder: with its files.
        settings: as for :class:`TextData`.
    """

    def __init__(self, folder: str, **settings: Any) -> None:
        super().__init__(**settings)
        self.folder = folder

    def read(self, split: str) -> Texts:
        return SICK(self.folder, split)
