"""The things in an image that a caption speaks of."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

import torch
from torch import Tensor

from omegamax.metrics._captions import split_caption

# What captions call the 80 things of COCO, beside their names; plurals are made from them. A word stands for one thing
# only, except where a word for the kind ("animal", "food") would count for any: such words are left out.
COCO_SYNONYMS: Mapping[str, tuple[str, ...]] = {
    "person": tuple(
        "people man woman boy girl child kid baby toddler infant guy lady gentleman player batter pitcher catcher "
        "skier snowboarder surfer skateboarder rider cyclist biker pedestrian crowd adult couple someone chef "
        "officer policeman soldier worker passenger tourist student male female family team bride groom umpire".split()
    ),
    "bicycle": ("bike", "cycle", "tricycle"),
    "car": ("automobile", "sedan", "suv", "taxi", "cab", "jeep", "minivan", "hatchback"),
    "motorcycle": ("motorbike", "motor bike", "motor cycle", "moped", "motor scooter", "dirt bike"),
    "airplane": ("plane", "aircraft", "jet", "aeroplane", "airliner", "biplane", "jetliner"),
    "bus": ("minibus", "double decker", "trolleybus", "coach"),
    "train": ("locomotive", "subway", "tram", "railcar", "streetcar"),
    "truck": ("pickup", "lorry", "firetruck", "fire engine", "semi"),
    "boat": ("ship", "sailboat", "canoe", "kayak", "ferry", "yacht", "raft", "gondola", "rowboat", "speedboat"),
    "traffic light": ("traffic signal", "stop light", "stoplight", "street light signal"),
    "fire hydrant": ("hydrant",),
    "stop sign": ("stopsign",),
    "parking meter": ("meter",),
    "bench": ("pew",),
    "bird": tuple(
        "duck goose geese gull seagull pigeon parrot owl eagle swan chicken rooster hen ostrich flamingo penguin crow "
        "hawk pelican sparrow turkey finch heron peacock dove".split()
    ),
    "cat": ("kitten", "kitty", "feline"),
    "dog": ("puppy", "pup", "hound", "poodle", "terrier", "beagle", "labrador", "bulldog", "retriever", "dachshund"),
    "horse": ("pony", "foal", "colt", "mare", "stallion"),
    "sheep": ("lamb", "ram", "ewe"),
    "cow": ("cattle", "calf", "bull", "ox", "oxen", "steer", "heifer"),
    "elephant": (),
    "bear": ("cub", "grizzly", "panda"),
    "zebra": (),
    "giraffe": (),
    "backpack": ("rucksack", "knapsack", "back pack"),
    "umbrella": ("parasol",),
    "handbag": ("purse", "hand bag", "pocketbook"),
    "tie": ("necktie", "bow tie", "bowtie"),
    "suitcase": ("luggage", "baggage", "briefcase"),
    "frisbee": ("flying disc", "flying disk"),
    "skis": ("ski",),
    "snowboard": ("snow board",),
    "sports ball": tuple("ball|baseball|football|soccer ball|basketball|tennis ball|volleyball".split("|")),
    "kite": (),
    "baseball bat": ("bat",),
    "baseball glove": ("mitt", "catcher's mitt", "glove"),
    "skateboard": ("skate board", "longboard"),
    "surfboard": ("surf board", "body board", "boogie board"),
    "tennis racket": ("racket", "racquet", "tennis racquet"),
    "bottle": (),
    "wine glass": ("wineglass", "goblet", "glass of wine", "wine flute"),
    "cup": ("mug", "teacup"),
    "fork": (),
    "knife": ("blade",),
    "spoon": ("ladle",),
    "bowl": (),
    "banana": (),
    "apple": (),
    "sandwich": ("burger", "hamburger", "cheeseburger", "sub", "panini", "wrap"),
    "orange": ("tangerine", "clementine"),
    "broccoli": (),
    "carrot": (),
    "hot dog": ("hotdog", "chili dog", "frankfurter"),
    "pizza": (),
    "donut": ("doughnut",),
    "cake": ("cupcake", "cheesecake", "shortcake"),
    "chair": ("armchair", "stool", "recliner", "high chair"),
    "couch": ("sofa", "loveseat", "futon", "settee"),
    "potted plant": ("houseplant", "plant", "house plant"),
    "bed": ("bunk bed", "mattress", "cot"),
    "dining table": ("table", "desk", "dinner table"),
    "toilet": ("urinal", "commode"),
    "tv": ("television", "tv set", "monitor", "television set"),
    "laptop": ("notebook computer", "laptop computer", "macbook"),
    "mouse": ("computer mouse",),
    "remote": ("remote control", "controller", "wii remote"),
    "keyboard": (),
    "cell phone": ("phone", "cellphone", "mobile phone", "smartphone", "telephone", "iphone"),
    "microwave": ("microwave oven",),
    "oven": ("stove", "stove top"),
    "toaster": (),
    "sink": ("washbasin",),
    "refrigerator": ("fridge", "freezer"),
    "book": ("magazine", "novel"),
    "clock": ("clock tower", "wristwatch"),
    "vase": (),
    "scissors": ("shears",),
    "teddy bear": ("teddy", "stuffed bear", "stuffed animal"),
    "hair drier": ("hair dryer", "hairdryer", "blow dryer", "blow drier"),
    "toothbrush": ("tooth brush",),
}
_IRREGULAR = {"man": "men", "woman": "women", "child": "children", "mouse": "mice", "goose": "geese", "calf": "calves"}
_IRREGULAR |= {"policeman": "policemen", "gentleman": "gentlemen", "knife": "knives", "person": "people"}


def mentioned_objects(
    captions: Sequence[str],
    objects: Sequence[Iterable[str]],
    synonyms: Mapping[str, Sequence[str]] = COCO_SYNONYMS,
) -> Tensor:
    """Return the share of the kinds of things in images that their captions mention, in [0, 1]; float64.

    A kind counts once in an image, however often it is there. It is mentioned if its name, one of its synonyms, or the
    plural of one of these is in the caption, as whole words in a row; the longest are found first, and a word counts
    once: "hot dog" mentions no dog, and "teddy bear" no bear. Over all kinds of all images together.

    Args:
        captions: one for each image.
        objects: for each image the names of what is in it, as COCO annotates it.
        synonyms: other names by the name of a kind; those of COCO's 80 kinds by default, a list of our own,
            ``omegamax.metrics.COCO_SYNONYMS``. A kind that is not in it has its name only.

    Returns:
        A scalar; NaN if nothing is annotated.

        >>> mentioned_objects(["two men eat a hot dog"], [["person", "hot dog", "dog", "dining table"]])
        tensor(0.5000, dtype=torch.float64)

    Reference: Martins et al., "Sparse and structured visual attention" (2020), Sec. 4, who do not say which words
    count as a mention.
    """
    found, there = count_mentions(captions, objects, synonyms)
    return torch.tensor(found / there if there else math.nan, dtype=torch.float64)


def count_mentions(
    captions: Sequence[str],
    objects: Sequence[Iterable[str]],
    synonyms: Mapping[str, Sequence[str]] = COCO_SYNONYMS,
) -> tuple[int, int]:
    """Return how many kinds of things are mentioned, and how many there are."""
    if len(captions) != len(objects):
        raise ValueError(f"mentioned_objects: wanted objects for {len(captions)} captions, got {len(objects)}")
    found, there = 0, 0
    names = _name_phrases(synonyms)
    for caption, given in zip(captions, objects, strict=True):
        kinds = set(given)
        phrases = names | _name_phrases({kind: () for kind in kinds if kind not in synonyms})
        found += len(kinds & _find_kinds(split_caption(caption), phrases))
        there += len(kinds)
    return found, there


def _find_kinds(words: Sequence[str], phrases: Mapping[tuple[str, ...], str]) -> set[str]:
    """Return the kinds of things that words mention, the longest phrase at each word first."""
    longest, kinds, place = max(map(len, phrases), default=1), set(), 0
    while place < len(words):
        sizes = range(min(longest, len(words) - place), 0, -1)
        size = next((size for size in sizes if tuple(words[place : place + size]) in phrases), 0)
        if size:
            kinds.add(phrases[tuple(words[place : place + size])])
        place += max(size, 1)
    return kinds


def _name_phrases(synonyms: Mapping[str, Sequence[str]]) -> dict[tuple[str, ...], str]:
    """Return the kind of each name, in the singular and in the plural, as words."""
    named: dict[tuple[str, ...], str] = {}
    for kind, others in synonyms.items():
        for name in (kind, *others):
            words = split_caption(name)
            if not words:  # a name of signs alone, which no caption has
                continue
            for last in (words[-1], _plural(words[-1])):
                named.setdefault((*words[:-1], last), kind)
    return named


def _plural(word: str) -> str:
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word.endswith(("s", "x", "ch", "sh")):
        return word + "es"
    return word[:-1] + "ies" if word.endswith("y") and word[-2:-1] not in "aeiou" else word + "s"
