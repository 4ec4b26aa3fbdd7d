"""A survey: pictures, and for each what several networks said of it and where they looked, to be rated by people."""

from __future__ import annotations

import json
import random
import zlib
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import sha256
from typing import Any

from torch import Tensor

from omegamax.data.files import parse_json
from omegamax.data.unpack import MIB
from omegamax.tasks.report.maps import encode_map

KINDS = ("captions", "answers")
_MOST_KEY = 64 * MIB  # bytes of a key, unpacked


@dataclass(frozen=True, eq=False)
class RatedLook:
    """What one network said of a picture, and where it looked for those of its words that are rated.

    Args:
        words: of the caption, or of the answer.
        rated: indices of the words whose attention is rated; of an answer, that of the first, for all of them.
        maps: the attention of each word rated, ``[len(rated), h, w]``, >= 0.
    """

    words: tuple[str, ...]
    rated: tuple[int, ...]
    maps: Tensor

    def __post_init__(self) -> None:
        if self.maps.dim() != 3 or len(self.maps) != len(self.rated):
            wanted = f"[{len(self.rated)}, h, w], one for each word rated"
            raise ValueError(f"RatedLook: maps must be {wanted}, got {tuple(self.maps.shape)}")
        if not bool((self.maps >= 0).all()):
            raise ValueError("RatedLook: maps must be >= 0, got a negative or NaN weight")


@dataclass(frozen=True, eq=False)
class RatedPicture:
    """A picture with what each network said of it.

    Args:
        id: its name.
        image: ``[3, H, W]``, bytes or colours in [0, 1].
        looks: by the name of the network; all pictures of a survey have the same.
        question: that was asked about it, if any.
    """

    id: str
    image: Tensor = field(repr=False)
    looks: Mapping[str, RatedLook]
    question: str | None = None


@dataclass(frozen=True)
class Key:
    """What a survey hides from those who fill it in.

    Args:
        kind: ``"captions"`` or ``"answers"``.
        networks: their names, in the order of the table.
        pictures: their names, in the order shown.
        order: for each picture, the networks as they are shown, indices into ``networks``.
        rated: for each picture and each network as shown, its words and the indices of those rated.
        content: digest of what is shown.
    """

    kind: str
    networks: tuple[str, ...]
    pictures: tuple[str, ...]
    order: tuple[tuple[int, ...], ...]
    rated: tuple[tuple[tuple[tuple[str, ...], tuple[int, ...]], ...], ...]
    content: str

    def seal(self) -> str:
        """Return the key as text that does not show what it says; no secret to those who want to know."""
        text = json.dumps({name: getattr(self, name) for name in Key.__annotations__}, separators=(",", ":"))
        return b64encode(zlib.compress(text.encode("utf-8"), 9)).decode("ascii")

    @classmethod
    def unseal(cls, text: str) -> Key:
        """Read what :meth:`seal` wrote; a ValueError says what is wrong with it."""
        try:
            unpacker = zlib.decompressobj()
            data = parse_json(unpacker.decompress(b64decode(text, validate=True), _MOST_KEY).decode("utf-8"))
            rated = tuple(
                tuple((tuple(map(str, words)), tuple(map(int, places))) for words, places in looks)
                for looks in data["rated"]
            )
            order = tuple(tuple(map(int, each)) for each in data["order"])
            networks, pictures = tuple(map(str, data["networks"])), tuple(map(str, data["pictures"]))
            key = cls(str(data["kind"]), networks, pictures, order, rated, str(data["content"]))
        except (Base64Error, zlib.error, KeyError, TypeError, ValueError) as error:
            raise ValueError(f"its key cannot be read ({error})") from error
        fits = all(sorted(each) == list(range(len(networks))) for each in order)
        if not fits or not len(pictures) == len(order) == len(rated) or any(len(r) != len(networks) for r in rated):
            raise ValueError("its key does not fit together")
        return key


class Survey:
    """Pictures in a random order, and for each the networks in a random order: a function of the seed alone.

    Args:
        pictures: all with looks of the same networks, at least one.
        seed: of both orders.
        kind: ``"captions"`` or ``"answers"``, what is rated beside the attention.
    """

    def __init__(self, pictures: Sequence[RatedPicture], seed: int = 0, kind: str = "captions") -> None:
        if kind not in KINDS:
            raise ValueError(f"Survey: kind must be one of {', '.join(map(repr, KINDS))}, got {kind!r}")
        if not pictures:
            raise ValueError("Survey: there must be a picture at least, got none")
        networks = tuple(pictures[0].looks)
        names = [picture.id for picture in pictures]
        for picture in pictures:
            if set(picture.looks) != set(networks):
                wanted, given = ", ".join(networks), ", ".join(picture.looks)
                raise ValueError(f"Survey: picture {picture.id!r} must have looks of {wanted}, got {given}")
        if len(set(names)) < len(names):
            raise ValueError("Survey: every picture must have a name of its own")
        draw = random.Random(seed)
        self.kind, self.networks, self.seed = kind, networks, seed
        self.pictures = draw.sample(list(pictures), len(pictures))
        self.order = [tuple(draw.sample(range(len(networks)), len(networks))) for _ in pictures]

    @cached_property
    def shown(self) -> list[list[dict[str, Any]]]:
        """Return for each picture what is shown of each network, without its name, in the order shown."""
        return [
            [_describe(picture.looks[self.networks[index]]) for index in order]
            for picture, order in zip(self.pictures, self.order, strict=True)
        ]

    @cached_property
    def key(self) -> Key:
        """Return what the page hides."""
        rated = tuple(tuple((tuple(look["words"]), tuple(look["rated"])) for look in looks) for looks in self.shown)
        content = sha256(json.dumps(self.shown).encode("utf-8")).hexdigest()
        names = tuple(picture.id for picture in self.pictures)
        return Key(self.kind, self.networks, names, tuple(self.order), rated, content)


def name_survey(sealed: str) -> str:
    """Return the name of a survey, by which its answers are told from those of others.

    >>> name_survey("")
    'e3b0c44298fc'
    """
    return sha256(sealed.encode("ascii")).hexdigest()[:12]


def _describe(look: RatedLook) -> dict[str, Any]:
    return {
        "words": list(look.words),
        "rated": list(look.rated),
        "size": list(look.maps.shape[1:]),
        "maps": [encode_map(each) for each in look.maps],
    }
