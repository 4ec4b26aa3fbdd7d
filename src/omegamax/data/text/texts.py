"""What every set of texts is: samples one after the other, in parts that no text is in two of."""

from __future__ import annotations

import hashlib

from omegamax._arguments import check_integer
from omegamax.data.corpus import Corpus
from omegamax.data.text.sample import TextSample


class Texts(Corpus[TextSample]):
    """A part of a set of texts: iterate over it, as often as need be, for its samples. Files are read meanwhile.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
    """

    labels: tuple[str, ...] | None = None  # names of the classes in their order; None: those that occur, sorted


def draw_part(text: str, seed: int = 0) -> float:
    """Return a number in [0, 1) for a text, by seed and text alone: the same text is never in two parts.

    >>> round(draw_part("a fine film"), 4), draw_part("a fine film") == draw_part("a fine film", 1)
    (0.0726, False)
    """
    digest = hashlib.blake2b(f"{seed}\n{text}".encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return (int.from_bytes(digest, "big") >> 11) / 2**53


class HeldOut:
    """Takes validation texts from a training part, a share of them drawn by :func:`draw_part`.

    Args:
        name: of who asks, for messages.
        share: of the training part, in (0, 1).
        seed: of the draw.
    """

    def __init__(self, name: str, share: float, seed: int) -> None:
        if not 0 < share < 1:
            raise ValueError(f"{name}: held_out must lie in (0, 1), got {share}")
        self.share, self.seed = share, check_integer(name, "seed", seed, least=0)

    def takes(self, text: str, split: str) -> bool:
        """Tell whether a text of the training part belongs to ``split``, ``"train"`` or ``"val"``."""
        return (draw_part(text, self.seed) < self.share) == (split == "val")


class Folds:
    """Parts of a cross-validation, drawn by :func:`draw_part`: one is the test, the next the validation.

    Args:
        name: of who asks, for messages.
        fold: which, from 0 on.
        folds: how many, at least 3.
        seed: of the draw.
    """

    def __init__(self, name: str, fold: int, folds: int, seed: int) -> None:
        self.folds = check_integer(name, "folds", folds, least=3)
        self.fold = check_integer(name, "fold", fold, least=0, most=self.folds - 1)
        self.seed = check_integer(name, "seed", seed, least=0)

    def takes(self, text: str, split: str) -> bool:
        """Tell whether a text belongs to ``split``."""
        place = (int(draw_part(text, self.seed) * self.folds) - self.fold) % self.folds
        return split == {0: "test", 1: "val"}.get(place, "train")
