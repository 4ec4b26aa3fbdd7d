"""Documents: the texts of a language, whole and as they are written, in parts that share none."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from omegamax._arguments import check_choice, check_integer, check_interval
from omegamax.data.corpus import SPLITS, Corpus
from omegamax.data.files import FilePath, number_lines
from omegamax.data.text import IMDB, Reviews
from omegamax.data.text.texts import draw_part
from omegamax.data.translation.files import check_file

UNITS = ("file", "paragraph", "line")


class Documents(Corpus[str]):
    """A part of a set of documents: iterate over it, as often as need be, for their texts.

    Args:
        split: ``"train"``, ``"val"`` or ``"test"``.
    """


class TextFiles(Documents):
    r"""Text files of one's own.

    A whole file is one document, of which the last two shares are for validation and test. Paragraphs, which blank
    lines separate, and lines are documents by themselves, and drawn for the parts by what they say, so that the same
    text is never in two of them.

    Args:
        paths: of the files, plain or compressed by xz or gzip.
        split: ``"train"``, ``"val"`` or ``"test"``.
        unit: what a document is, ``"file"``, ``"paragraph"`` or ``"line"``.
        held_out: share for validation, and as much again for the test, in (0, 0.5).
        seed: of the draw.
        encoding: of the files.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "a.txt")
    ...     _ = path.write_text("0123456789\n" * 10)
    ...     [len(text) for split in SPLITS for text in TextFiles([path], split, held_out=0.1)]
    [88, 11, 11]
    """

    def __init__(
        self,
        paths: Sequence[FilePath],
        split: str = "train",
        *,
        unit: str = "file",
        held_out: float = 0.05,
        seed: int = 0,
        encoding: str = "utf-8",
    ) -> None:
        super().__init__(split)
        name = type(self).__name__
        check_choice(name, "unit", unit, UNITS)
        if isinstance(paths, str | Path) or not paths:
            raise ValueError(f"{name}: paths must be a list of one file or more, got {paths!r}")
        self.paths = [check_file(path) for path in paths]
        self.unit, self.encoding = unit, encoding
        self.held_out = check_interval(name, "held_out", held_out, "(0, 0.5)")
        self.seed = check_integer(name, "seed", seed, least=0)

    def __iter__(self) -> Iterator[str]:
        for path in self.paths:
            lines = (line for _, line in number_lines(path, self.encoding))
            if self.unit == "file":
                yield from self._cut("".join(lines))
            else:
                units = lines if self.unit == "line" else join_paragraphs(lines)
                texts = (text.strip("\r\n") for text in units)
                yield from (text for text in texts if text.strip() and self._takes(text))

    def _cut(self, text: str) -> Iterator[str]:
        """Yield the part of a file that belongs to the split; none if it is empty."""
        ends = [0, round(len(text) * (1 - 2 * self.held_out)), round(len(text) * (1 - self.held_out)), len(text)]
        place = SPLITS.index(self.split)
        part = text[ends[place] : ends[place + 1]]
        if part.strip():
            yield part

    def _takes(self, text: str) -> bool:
        drawn = draw_part(text, self.seed)
        return self.split == ("val" if drawn < self.held_out else "test" if drawn < 2 * self.held_out else "train")


class IMDBReviews(Documents):
    """The reviews of :class:`~omegamax.data.text.IMDB` as they are written, with line ends for their ``<br />``.

    Args:
        folder, split, held_out, seed: as there.
    """

    def __init__(self, folder: FilePath, split: str = "train", *, held_out: float = 0.1, seed: int = 0) -> None:
        super().__init__(split)
        self.reviews = IMDB(folder, split, held_out=held_out, seed=seed)

    def __iter__(self) -> Iterator[str]:
        return (text.replace("<br />", "\n") for _, _, text in self.reviews.read())


class EmbeddedReviews(Documents):
    """The short reviews of :class:`~omegamax.data.text.Reviews`, made as they are asked for; needs no file.

    Args:
        size: number of reviews.
        split, seed: as there.

    >>> next(iter(EmbeddedReviews(1))).partition(" .")[0]
    'i would not call the cinema radiant'
    """

    def __init__(self, size: int, split: str = "train", *, seed: int = 0) -> None:
        super().__init__(split)
        self.reviews = Reviews(size, split, seed=seed)

    def __iter__(self) -> Iterator[str]:
        return (" ".join(sample.words) for sample in self.reviews)


def join_paragraphs(lines: Iterator[str]) -> Iterator[str]:
    """Yield the texts between blank lines.

    >>> list(join_paragraphs(iter(["a\\n", "b\\n", "\\n", " \\n", "c"])))
    ['a\\nb\\n', 'c']
    """
    kept: list[str] = []
    for line in lines:
        if line.strip():
            kept.append(line)
        elif kept:
            yield "".join(kept)
            kept = []
    if kept:
        yield "".join(kept)
