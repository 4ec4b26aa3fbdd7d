"""One picture with captions: the record that every set yields."""

from __future__ import annotations

from dataclasses import dataclass, field

from torch import Tensor

Mentions = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, eq=False)
class CaptionSample:
    """A picture, or its features, and what people wrote of it.

    Args:
        id: name of the picture's file; names the sample in results.
        captions: the words of each caption.
        image: ``[3, H, W]``, bytes. Either this or ``features``.
        features: ``[h, w, D]``, one vector for each cell of a grid over the picture.
        objects: names of what is marked in the picture.
        masks: of K things in the picture, the pixels that each covers, bool ``[K, H, W]``; None where nothing is known.
        mentions: for each caption and each of its words, the indices of the things that the word is about; empty for a
            word about none.
        texts: the captions as people wrote them; none: words are all that is known.
    """

    id: str
    captions: tuple[tuple[str, ...], ...]
    image: Tensor | None = field(default=None, repr=False)
    features: Tensor | None = field(default=None, repr=False)
    objects: tuple[str, ...] = ()
    masks: Tensor | None = field(default=None, repr=False)
    mentions: tuple[Mentions, ...] = ()
    texts: tuple[str, ...] = ()

    boxes = None  # features are those of grids

    def __post_init__(self) -> None:
        if (self.image is None) == (self.features is None):
            given = "neither" if self.image is None else "both"
            raise ValueError(f"sample {self.id!r}: give either image or features, got {given}")
        if self.mentions and [len(each) for each in self.mentions] != [len(words) for words in self.captions]:
            raise ValueError(f"sample {self.id!r}: mentions must have an entry for each word of each caption")
        if self.texts and len(self.texts) != len(self.captions):
            given = f"{len(self.texts)} for {len(self.captions)}"
            raise ValueError(f"sample {self.id!r}: texts must have one for each caption, got {given}")

    @property
    def references(self) -> tuple[str, ...]:
        """Return the captions as texts."""
        return self.texts or tuple(" ".join(words) for words in self.captions)

    def region(self, caption: int, word: int) -> Tensor | None:
        """Return the pixels that a word of a caption is about, bool ``[H, W]``; None where that is not known."""
        return None if self.masks is None else self.masks[list(self.mentions[caption][word])].any(0)
