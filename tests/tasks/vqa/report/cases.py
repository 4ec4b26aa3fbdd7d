"""A comparison with everything in it: missing numbers, missing looks, and text that would like to be markup."""

from __future__ import annotations

import math
import struct
import zlib
from dataclasses import replace

from omegamax.tasks.vqa.report import Comparison, Example, Fit, Look, Row

NASTY = '</script><script>window.hacked=1</script><!-- why & "who"?'
IMAGE = '<img src=x onerror="window.hacked=1">'
SOFT, TV, MULTI = "softmax", "tvmax <b>2-d</b>", "multimodal, K* & Co"
NAMES = (SOFT, TV, MULTI)
MARKS = {
    SOFT: [],
    TV: [("hatch", "exactly 0"), ("cells", "edge of the cells above 0")],
    MULTI: [("rings", "equal density"), ("dashes", "half of a component's mass")],
}
TICKS = [(0.0, "0"), (0.25, "1"), (0.5, "4"), (1.0, "16")]


def png(*colour: int, width: int = 6, height: int = 4) -> bytes:
    """A PNG of one colour."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    lines = (b"\0" + bytes(colour) * width) * height
    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(lines)) + chunk(b"IEND", b"")


def curve(top: float) -> list[dict[str, float | None]]:
    return [
        {
            "step": 10 * n,
            "seconds": 1.5 * n,
            "train_loss": 1 / n,
            "val_loss": 2 / n,
            "val_accuracy": math.nan if n == 3 else top * n / 5,
        }
        for n in range(1, 6)
    ]


def comparison() -> Comparison:
    accuracy = {"overall": 0.5, "yes/no": 0.6, "number": math.nan, "other": None}
    rows = [
        Row(SOFT, "softmax", accuracy, 1234567, 10.25, 0.5, 0.25, 0.0, None, curve(0.5)),
        Row(TV, "tvmax", {**accuracy, "overall": 0.625}, 1234567, None, math.nan, None, 0.75, None, curve(0.625)),
        Row(MULTI, "multimodal", {**accuracy, "overall": 0.75}, 1234567, 30, 0.25, 0.5, 0.5, {2: 3, 1: 1}, curve(0.75)),
    ]
    narrow, wide = {"area": 0.02, "accuracy": 0.9, "count": 40}, {"area": 0.2, "accuracy": 0.6, "count": 39}
    rows[2] = replace(rows[2], reliability=[narrow, wide])
    blind = Row("language only", "none", {"overall": 0.3}, 1000)
    return Comparison(f"Title {IMAGE}", f"About {NASTY}", rows, blind, examples(), {"seed": "0", NASTY: IMAGE})


def marked() -> Comparison:
    """The comparison with what is known of its pictures, except those of the last example."""
    given = comparison()
    *first, last = given.examples
    known = [
        replace(e, ticks=TICKS, looks={name: replace(look, marks=MARKS[name]) for name, look in e.looks.items()})
        for e in first
    ]
    return replace(given, examples=[*known, last])


def examples() -> list[Example]:
    return [
        example(0, "Is it red?", "yes", "yes/no", "one", ["yes", "yes", "yes"]),
        example(1, NASTY, IMAGE, "other", None, ["no", IMAGE, IMAGE]),
        example(2, "How many?", "3", "number", "several", ["2", "3", None]),
        example(3, "And in the test set?", None, "number", "odd", ["2", "3", "4"]),
    ]


def example(
    n: int, question: str, answer: str | None, kind: str, region: str | None, given: list[str | None]
) -> Example:
    looks = {
        name: Look(
            [(said, 0.5 + 0.1 * m), ("another", 0.1), ("unsure", math.nan)],
            look_picture(n, m),
            divergence=None if n == 1 else 0.125 + m,
            inside=0.25,
            components=2 if m == 2 else None,
            fits=fits(n) if m == 2 else [],
        )
        for m, (name, said) in enumerate(zip(NAMES, given, strict=True))
        if said is not None
    }
    # Two questions about one picture.
    picture = png(200, 200, 200) if n < 2 else png(n, 200, 0)
    relevance, note = None if n == 1 else png(0, 0, n), f"no picture: {IMAGE}" if n == 2 else None
    theme = "wide ellipse" if n > 1 else None
    return Example(f"val/{n} é&=", question, answer, kind, region, picture, relevance, looks, note=note, theme=theme)


def fits(n: int) -> list[Fit]:
    """A mixture with one component and with two, the one that is selected."""
    one = Fit(1, png(40 * n, 9, 9), IMAGE, False, MARKS[MULTI][:1])
    return [one, Fit(2, look_picture(n, 2), "3", None, MARKS[MULTI])]


def look_picture(n: int, m: int) -> bytes:
    """Where model ``m`` looked in example ``n``: of that colour and of a size of its own."""
    return png(40 * n, 80 * m, 255, width=200)
