"""Texts as numbers, all in one row of memory: what training reads."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.utils.data import Dataset

from omegamax._arguments import check_integer
from omegamax._warnings import warn_user
from omegamax.data.files import DataError
from omegamax.data.ragged import RaggedRows, get_row
from omegamax.data.text.sample import TextSample
from omegamax.data.text.words import EMPTY
from omegamax.data.vocabulary import PADDING, Vocabulary

NO_LABEL = -100  # what losses of torch pass over


class TextWarning(UserWarning):
    """Texts that are not what one would expect; the message says how many, and what is done with them."""


def collect_vocabulary(
    texts: Iterable[TextSample],
    labels: Sequence[str] | None = None,
    *,
    least: int = 1,
    most: int | None = None,
    cased: bool = False,
) -> Vocabulary:
    """Collect the words and the classes of texts, in one pass; its ``answers`` are the classes.

    Args:
        texts: to learn from.
        labels: names of the classes in their order; None: those that occur, numbers by their size, then words.
        least: how often a word must occur.
        most: how many words to keep, the most frequent ones; None: all.
        cased: tell words apart that are written with other capitals; else all are in lower case.

    >>> collect_vocabulary([TextSample.of("Good, good!", "1", "a"), TextSample.of("Bad!", "0", "b")]).words
    ('!', 'good', ',', 'bad')
    """
    count: Counter[str] = Counter()
    found: dict[str, None] = {}
    for sample in texts:
        for words in (sample.words, sample.second or ()):
            count.update(words if cased else map(str.lower, words))
        if sample.label is not None:
            found[sample.label] = None
    del count[EMPTY]
    if not count:
        raise DataError("there is no text with words to learn from; check the part that training takes")
    classes = sorted(found, key=_rank_label) if labels is None else labels
    if len(classes) < 2:
        there = f"{classes[0]!r} alone" if classes else "none"
        rest = "if the file has others, validation takes them all: give a smaller held_out, another split_seed"
        raise DataError(f"the texts left to learn from must be of two classes at least, got {there}; {rest}")
    return Vocabulary.of_counts(count, classes, least, most)


def _rank_label(label: str) -> tuple[bool, float, str]:
    number = label.removeprefix("-").isdecimal()
    return not number, float(label) if number else 0.0, label


class PackedTexts(Dataset[dict[str, Any]]):
    """The texts of a part as indices of words, one behind the other, four bytes a word.

    An item is a dict: ``words [L]`` int64, ``label`` (the index of the class, or :data:`NO_LABEL`), ``id``, and in sets
    that have them ``marks [L]`` and ``second [M]``. Words beyond ``length`` are cut off, and a warning says of how
    many texts; so it does of texts without words, which are kept as one unknown word.

    Args:
        texts: read once, from beginning to end.
        vocabulary: of words, with the classes as its answers.
        length: most words of a text; None: as many as there are.
        what: name of the part, for messages.

    >>> texts = [TextSample.of("A good film.", "positive", "a"), TextSample.of("Bad", "negative", "b")]
    >>> packed = PackedTexts(texts, collect_vocabulary(texts))
    >>> packed[1], packed.lengths
    ({'words': tensor([4]), 'label': 0, 'id': 'b'}, tensor([4, 1]))
    """

    def __init__(
        self, texts: Iterable[TextSample], vocabulary: Vocabulary, length: int | None = None, what: str = "texts"
    ) -> None:
        if length is not None:
            check_integer("PackedTexts", "length", length, least=1)
        self.ids: list[str] = []
        first, second, marks, label, cut, empty = RaggedRows("i"), RaggedRows("i"), RaggedRows("f"), array("q"), 0, 0
        seen: set[str] = set()
        for sample in texts:
            if sample.id in seen:
                raise DataError(f"{what}: two texts have the id {sample.id!r}; answers could not be told apart")
            seen.add(sample.id)
            self.ids.append(sample.id)
            first.add(vocabulary.find_words(sample.words[:length]))
            if sample.second is not None:
                second.add(vocabulary.find_words(sample.second[:length]))
            if sample.marks is not None:
                marks.add(sample.marks[:length])
            cut += length is not None and max(len(sample.words), len(sample.second or ())) > length
            empty += sample.empty
            label.append(NO_LABEL if sample.label is None else _find_class(what, sample, vocabulary))
        count = len(self.ids)
        if not count:
            raise DataError(f"{what}: there is no text; check the files, or take a larger share for this part")
        for rows, name in ((second, "second sentences"), (marks, "marks")):
            if rows.count not in (0, count):
                raise DataError(f"{what}: {rows.count:,} of {count:,} texts have {name}; all must, or none")
        self.label = torch.tensor(label)
        self._words, self._second, self._marks = first.tensors(), second.tensors(), marks.tensors()
        if cut:
            cut_off = f"{cut:,} of {count:,} texts have more than {length:,} words, and are cut off there"
            warn_user(f"{what}: {cut_off}", TextWarning)
        if empty:
            unknown = f"{empty:,} of {count:,} texts have no words, and count as one unknown word"
            warn_user(f"{what}: {unknown}", TextWarning)

    @property
    def lengths(self) -> Tensor:
        """Return the numbers of words, ``[N]``, of pairs those of the longer sentence."""
        lengths = self._words[1].diff()
        return lengths if not self.pairs else torch.maximum(lengths, self._second[1].diff())

    @property
    def pairs(self) -> bool:
        """Tell whether each text has a second one."""
        return len(self._second[1]) > 1

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> dict[str, Any]:
        index = range(len(self))[index]
        item: dict[str, Any] = {"words": get_row(self._words, index).long(), "label": int(self.label[index])}
        item["id"] = self.ids[index]
        if len(self._marks[1]) > 1:
            item["marks"] = get_row(self._marks, index)
        if self.pairs:
            item["second"] = get_row(self._second, index).long()
        return item


def _find_class(what: str, sample: TextSample, vocabulary: Vocabulary) -> int:
    """Return the index of a text's class; refuse one that the network cannot tell."""
    assert sample.label is not None
    try:
        return vocabulary.answer_index(sample.label)
    except ValueError as error:
        reason = f"{what}: {sample.id} is of the class {sample.label!r}, of which no text to learn from is"
        raise DataError(f"{reason} ({error}); mend the class, or have training texts of it") from None


def collate_texts(items: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Make a batch: ``words [B, L]``, 0 for padding, ``label [B]``, ``id``, and ``marks`` and ``second`` likewise.

    ``lengths`` are the numbers of words, a list, which stays on the CPU when tensors go to a device.

    >>> texts = [TextSample.of("A good film", "+", "a"), TextSample.of("Bad", "-", "b")]
    >>> packed = PackedTexts(texts, collect_vocabulary(texts))
    >>> collate_texts([packed[0], packed[1]])["words"]
    tensor([[2, 5, 4],
            [3, 0, 0]])
    """
    batch: dict[str, Any] = {"label": torch.tensor([item["label"] for item in items])}
    batch["id"] = [item["id"] for item in items]
    batch["lengths"] = [len(item["words"]) for item in items]
    for key in ("words", "second", "marks"):
        if key in items[0]:
            rows = [item[key] for item in items]
            batch[key] = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PADDING)
    return batch
