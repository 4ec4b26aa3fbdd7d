"""A comparison to show: two texts with words that look like markup, three networks, one of which has a density."""

from omegamax.tasks.text.report import PairLook, TextComparison, TextExample, TextRow, WordLook

SOFT, SPARSE, DENSE = "softmax", "sparse & <b>max</b>", "continuous sparsemax"
NAMES = (SOFT, SPARSE, DENSE)
NASTY = "</script><script>window.hacked=1</script>"
LONG = ["word"] * 30


def look(weights, label, right, density=None, points=0):
    top = [(label, 0.75), ("negative" if label == "positive" else "positive", 0.25)]
    bars = None if density else weights
    return WordLook(top, weights, [w == 0 for w in weights], bars, density, points, right)


def comparison():
    """Four points of a curve for each row, and three examples."""
    curve = [{"step": s, "val_accuracy": 0.5 + s / 100, "val_loss": 1 - s / 100} for s in (10, 20, 30, 40)]
    rows = [
        TextRow(SOFT, "softmax", {"overall": 0.8, "positive": 0.9, "negative": 0.7}, 1000, 10.0, 0.0, 0.4, 0.2, curve),
        TextRow(SPARSE, "sparsemax", {"overall": 0.9}, 1000, 12.5, 0.75, 0.9, 0.8, curve, (0.1, 0.05, 0.15)),
        TextRow(DENSE, "continuous_sparsemax", {"overall": 0.79}, 1001, None, 0.5, None, None, [], (-0.01, -0.1, 0.08)),
    ]
    words = ["a", "truly", "good", NASTY]
    first = TextExample(
        "one",
        words,
        "positive",
        {
            SOFT: look([0.25, 0.25, 0.4, 0.1], "negative", False),
            SPARSE: look([0.0, 0.3, 0.7, 0.0], "positive", True),
            DENSE: look([0.0, 0.5, 0.5, 0.0], "positive", True, [0, 0, 0.5, 1, 1, 0.5, 0, 0, 0], 2),
        },
        [False, False, True, False],
    )
    even = [1 / 30] * 30
    second = TextExample(
        "two", LONG, "negative", {name: look(even, "negative", True) for name in (SOFT, SPARSE)}, theme="all wrong"
    )
    third = TextExample("three", ["unknown"], None, {SOFT: look([1.0], "negative", None)})
    return TextComparison("Words & <more>", "On test.", rows, [first, second, third], {"data": "Reviews"})


def pairs():
    """One pair of sentences, aligned word by word and one-to-one."""
    both = [[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]
    rows = [TextRow("softmax alignment", "softmax", {}, 10), TextRow("matching alignment", "matching", {}, 10)]
    looks = {
        "softmax alignment": PairLook([("yes", 0.9)], [[0.5, 0.5]] * 3, [[0.3, 0.4]] * 3, right=True),
        "matching alignment": PairLook([("no", 0.6)], both, both, mutual=True, right=False),
    }
    example = TextExample("pair", ["a", "big", "dog"], "yes", looks, second=["a", "cat"])
    return TextComparison("Pairs", "", rows, [example])


def leftward():
    """One text alone that is written from right to left, of a class that nobody knows."""
    looks = {DENSE: look([0.7, 0.3], "positive", None, [1, 0.8, 0.6, 0.3, 0], 2)}
    example = TextExample("text", ["\u05e9\u05dc\u05d5\u05dd", "film"], None, looks)
    return TextComparison("One text", "", [TextRow(DENSE, "continuous_sparsemax", {}, 10)], [example])
