"""Sentences as subwords, by the ``tokenizers`` library, and back."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from omegamax._arguments import check_choice, check_integer
from omegamax.data.files import DataError

PAD, BOS, EOS, UNK = range(4)
SPECIAL = ("<pad>", "<s>", "</s>", "<unk>")
KINDS = ("bpe", "words", "bytes")
BYTES = 256
MOST_TOKENS = 1 << 20
_SPACE = "\u2581"  # stands for the blank before a word
# Merges are learnt in a time that grows with the square of what stands between two blanks, and of a row of blanks.
_LONG = re.compile(r"\S{1024}|\s{1024}")


class Subwords:
    """The tokens of one language, or of two that share them.

    ``"bpe"`` cuts text at blanks and punctuation, and each piece by merges that were learnt; ``▁`` stands for the blank
    before a word, so that subwords give the text back. ``"words"`` has words as they stand between blanks. ``"bytes"``
    begins with the 256 bytes, merges on top of them, and gives every text back as it was, line ends and all; with as
    many tokens as there are bytes, each byte is one.

    Args:
        tokens: all of them, ``<pad>``, ``<s>``, ``</s>`` and ``<unk>`` first.
        merges: pairs of tokens in the order in which they are merged; None: tokens are words.
        of_bytes: whether tokens are made of bytes.

    >>> subwords = Subwords.learn(["ein hund läuft", "ein hund bellt"], size=40)
    >>> subwords.pieces("ein hund"), subwords.decode(subwords.encode("ein hund"))
    (['▁ein', '▁hund'], 'ein hund')
    >>> Subwords.learn(["a b", "b"], kind="words").encode("b c")
    [4, 3]
    >>> letters = Subwords.learn(["any"], kind="bytes", size=260)
    >>> len(letters), letters.decode(letters.encode("Grüße,\\n  du!"))
    (260, 'Grüße,\\n  du!')

    Reference: Sennrich, Haddow & Birch, "Neural machine translation of rare words with subword units" (ACL 2016).
    """

    def __init__(self, tokens: Sequence[str], merges: Sequence[Sequence[str]] | None, of_bytes: bool = False) -> None:
        name = "Subwords"
        self.tokens = tuple(tokens)
        self.merges = None if merges is None else tuple((str(a), str(b)) for a, b in merges)
        if self.tokens[:4] != SPECIAL or not all(isinstance(token, str) for token in self.tokens):
            raise ValueError(f"{name}: tokens must be texts that begin with {', '.join(SPECIAL)}")
        if len(set(self.tokens)) < len(self.tokens) or len(self.tokens) > MOST_TOKENS:
            raise ValueError(f"{name}: tokens must be distinct, and at most {MOST_TOKENS:,}, got {len(self.tokens):,}")
        if of_bytes and self.merges is None:
            raise ValueError(f"{name}: tokens of bytes have merges, if none then an empty list; got None")
        self.of_bytes = of_bytes
        self._tokenizer = _make(self.tokens, self.merges, of_bytes)

    @classmethod
    def learn(cls, texts: Iterable[str], kind: str = "bpe", size: int = 8000, least: int = 1) -> Subwords:
        """Learn the tokens of texts.

        Args:
            texts: read once.
            kind: ``"bpe"``, ``"words"`` or ``"bytes"``.
            size: most tokens, the special ones included.
            least: how often a pair must occur to be merged, or a word to be known.
        """
        check_choice("Subwords", "kind", kind, KINDS)
        check_integer("Subwords", "size", size, least=len(SPECIAL) + 1, most=MOST_TOKENS)
        check_integer("Subwords", "least", least, least=1)
        tokenizers = _import()
        blank = _make(SPECIAL, None if kind == "words" else (), kind == "bytes")
        settings = {"vocab_size": size, "min_frequency": least, "show_progress": False}
        if kind == "bytes":
            check_integer("Subwords", "size", size, least=len(SPECIAL) + BYTES)
            settings["initial_alphabet"] = tokenizers.pre_tokenizers.ByteLevel.alphabet()
        make = tokenizers.trainers.WordLevelTrainer if kind == "words" else tokenizers.trainers.BpeTrainer
        written = False

        def notice() -> Iterator[str]:  # bytes are there whether there is a text or not
            nonlocal written
            for text in texts:
                written = written or bool(text.strip())
                if kind == "words":
                    yield text
                else:
                    yield from _cut_runs(text)

        blank.train_from_iterator(notice(), make(special_tokens=list(SPECIAL), **settings))
        model = json.loads(blank.to_str())["model"]
        # A word of a text that is written like a special token is counted among them, out of their order.
        tokens = [*SPECIAL, *sorted(model["vocab"].keys() - set(SPECIAL), key=model["vocab"].__getitem__)]
        if not written or not any(token.strip(_SPACE) for token in tokens[len(SPECIAL) :]):
            raise DataError("there is no text with words to learn from; check the part that training takes")
        return cls(tokens, None if kind == "words" else model["merges"], kind == "bytes")

    def __len__(self) -> int:
        return len(self.tokens)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Subwords) and self.to_dict() == other.to_dict()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Subwords of {len(self):,} tokens"

    def encode(self, text: str) -> list[int]:
        """Return the numbers of the tokens of a text, without an end; what is written like ``</s>`` is no end."""
        return self.encode_all([text])[0]

    def encode_all(self, texts: Sequence[str]) -> list[list[int]]:
        """Return the numbers of the tokens of each text."""
        found = self._tokenizer.encode_batch(list(texts))
        return [[UNK if token < len(SPECIAL) else token for token in each.ids] for each in found]

    def words(self, text: str) -> list[str]:
        """Return the words of a text, which are cut each by itself."""
        return [word for word, _ in self._tokenizer.pre_tokenizer.pre_tokenize_str(text)]

    def encode_word(self, word: str) -> list[int]:
        """Return the numbers of the tokens of one of the :meth:`words` of a text."""
        found = self._tokenizer.model.tokenize(word)
        return [UNK if each.id < len(SPECIAL) else each.id for each in found]

    def pieces(self, text: str) -> list[str]:
        """Return the tokens of a text as they are written."""
        return [self.tokens[token] for token in self.encode(text)]

    def decode(self, tokens: Iterable[int]) -> str:
        """Return the text of tokens; special ones are left out, but for what was not known."""
        kept = [self.tokens[token] for token in tokens if token >= UNK]
        if self.of_bytes:
            return str(_import().decoders.ByteLevel().decode(kept))
        return " ".join("".join(kept).replace(_SPACE, " ").split()) if self.merges is not None else " ".join(kept)

    def to_dict(self) -> dict[str, Any]:
        """Return lists of words, to be saved with a network."""
        merges = None if self.merges is None else list(map(list, self.merges))
        return {"tokens": list(self.tokens), "merges": merges, "of_bytes": self.of_bytes}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Subwords:
        """Return what :meth:`to_dict` wrote; what is no such record is a ValueError, KeyError or TypeError."""
        return cls(record["tokens"], record["merges"], bool(record.get("of_bytes", False)))


def _cut_runs(text: str) -> Iterator[str]:
    """Yield a text in parts without long runs of characters that a blank does not end, or of blanks.

    >>> [len(part) for part in _cut_runs("a b" + 3000 * "x" + " c")]
    [1026, 1024, 955]
    """
    start = 0
    for found in _LONG.finditer(text):
        yield text[start : found.end()]
        start = found.end()
    if start < len(text):
        yield text[start:]


def _make(tokens: Sequence[str], merges: Sequence[tuple[str, str]] | None, of_bytes: bool) -> Any:
    """Make the library's tokenizer. No token is added to it as special: text cannot spell one."""
    tokenizers = _import()
    numbers = {token: index for index, token in enumerate(tokens)}
    unknown = SPECIAL[UNK]
    if merges is None:
        made = tokenizers.Tokenizer(tokenizers.models.WordLevel(numbers, unk_token=unknown))
        made.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
        return made
    try:
        made = tokenizers.Tokenizer(tokenizers.models.BPE(numbers, list(merges), unk_token=unknown))
    except Exception as error:  # the library raises nothing narrower for a merge of unknown tokens
        raise ValueError(f"Subwords: merges must be of tokens, got others ({error})") from error
    steps = tokenizers.pre_tokenizers
    if of_bytes:
        made.pre_tokenizer = steps.ByteLevel(add_prefix_space=False)
        return made
    made.pre_tokenizer = steps.Sequence([steps.Metaspace(_SPACE, "always"), steps.Punctuation("isolated")])
    return made


def _import() -> Any:
    try:
        import tokenizers
        import tokenizers.decoders
        import tokenizers.models
        import tokenizers.pre_tokenizers
        import tokenizers.trainers
    except ImportError as error:
        raise ImportError("omegamax.data.subwords needs tokenizers: pip install 'omegamax[train]'") from error
    return tokenizers
