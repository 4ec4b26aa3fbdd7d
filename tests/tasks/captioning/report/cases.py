"""A comparison of captions to show: words that look like markup, three networks, one without maps."""

import torch

from omegamax.tasks.captioning.report import CaptionComparison, CaptionExample, CaptionLook, CaptionRow
from omegamax.tasks.report.maps import encode_map, jpeg_address

SOFT, SPARSE, BARE = "softmax", "sparse & <b>max</b>", "without maps"
NASTY = "</script><script>window.hacked=1</script>"
MAP = torch.tensor([[0.0, 0.5, 0.0], [0.25, 0.25, 0.0]])


def look(words, dense=False):
    maps = [encode_map((MAP + 0.1 if dense else MAP) * 6, 6.0) for _ in words]
    return CaptionLook(words, (2, 3), maps, -2.5, 12.5, 0.0 if dense else 0.5, 0.25)


def photograph(channel):
    image = torch.zeros(3, 40, 60, dtype=torch.uint8)
    image[channel] = 220
    return jpeg_address(image, 60)


def comparison():
    """Three rows with scores of different kinds, and three photographs."""
    curve = [{"step": s, "val_bleu4": 0.1 + s / 1000, "val_loss": 1 - s / 100} for s in (10, 20, 30, 40)]
    scores = {
        "BLEU-1": 0.6,
        "BLEU-4": 0.2,
        "CIDEr": 0.5,
        "rep": 6.09,
        "js": 0.12,
        "zero": 0.0,
        "words": 9.0,
        "rate": 900.0,
    }
    rows = [
        CaptionRow(SOFT, "softmax", scores, 1000, curve),
        CaptionRow(SPARSE, "sparsemax", {**scores, "BLEU-4": 0.21, "rep": 5.84, "zero": 0.34}, 1000, curve),
        CaptionRow(BARE, "tvmax", {"BLEU-4": float("nan"), "METEOR": 0.19}),
    ]
    examples = [
        CaptionExample(
            "1.jpg",
            photograph(0),
            ["a dog runs", f"the {NASTY}"],
            {
                SOFT: look(["a", "dog"], dense=True),
                SPARSE: look(["a", "dog", "grass", NASTY]),
                BARE: CaptionLook(["dogs"]),
            },
            ["dog", "person"],
            [(0.0, "0"), (0.5, "1"), (1.0, "4")],
        ),
        CaptionExample(
            "2.jpg", photograph(1), [], {SOFT: look(["a", "dog", "grass"]), SPARSE: look(["a", "dog", "grass"])}
        ),
        CaptionExample("3.jpg", photograph(2), ["a cat"], {SOFT: CaptionLook([])}, theme="one repeats itself"),
    ]
    settings = {"tokeniser": "plain, as there is no Java"}
    return CaptionComparison(
        "Captions", "Three networks.", rows, examples, settings, {"SPICE": "its models are missing"}
    )
