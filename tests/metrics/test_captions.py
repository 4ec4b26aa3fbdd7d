"""Scores of captions are those of pycocoevalcap called directly; and objects that captions mention."""

import math
import random
import shutil

import pytest
import torch

from omegamax import metrics
from omegamax.metrics import COCO_SYNONYMS, caption_scores, mentioned_objects, missing_scores, split_caption
from omegamax.metrics import _captions as module

SAID = ["A dog runs on the grass.", "two men play soccer in a field", "a man's riding a wave", "a red bus"]
KNOWN = [
    ["A brown dog runs through the grass.", "a dog is running outside"],
    ["Men playing football.", "two guys play soccer on a field", "soccer!"],
    ["a man riding a wave on top of a surfboard"],
    ["a bus, red and tall", "the red bus drives"],
]
needs_package = pytest.mark.skipif(
    "BLEU-1" in missing_scores(), reason="needs pycocoevalcap: pip install -c constraints.txt 'omegamax[captions]'"
)
needs_java = pytest.mark.skipif(shutil.which("java") is None, reason="needs a Java runtime")


def direct(known, said, scorers):
    """What pycocoevalcap says of these, as its own evaluation script calls it."""
    from pycocoevalcap.bleu.bleu import Bleu
    from pycocoevalcap.cider.cider import Cider
    from pycocoevalcap.meteor.meteor import Meteor
    from pycocoevalcap.rouge.rouge import Rouge

    made = {"BLEU": lambda: Bleu(4), "METEOR": Meteor, "ROUGE-L": Rouge, "CIDEr": Cider}
    found = {}
    for name in scorers:
        value, _ = made[name]().compute_score(known, said)
        found |= {f"BLEU-{n + 1}": v for n, v in enumerate(value)} if name == "BLEU" else {name: value}
    return found


@needs_package
def test_plain_scores_are_those_of_the_package():
    known = {i: [" ".join(split_caption(each)) for each in several] for i, several in enumerate(KNOWN)}
    said = {i: [" ".join(split_caption(each))] for i, each in enumerate(SAID)}
    names = [f"BLEU-{n}" for n in range(1, 5)] + ["ROUGE-L", "CIDEr"]
    found = caption_scores(SAID, KNOWN, tokeniser="plain", scores=names)
    assert list(found) == names
    assert found == pytest.approx(direct(known, said, ("BLEU", "ROUGE-L", "CIDEr")), abs=1e-12)


@needs_package
@needs_java
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # its METEOR leaves pipes open
def test_all_scores_are_those_of_the_package_called_directly():
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    said = PTBTokenizer().tokenize({i: [{"caption": text}] for i, text in enumerate(SAID)})
    known = PTBTokenizer().tokenize({i: [{"caption": text} for text in several] for i, several in enumerate(KNOWN)})
    names = [name for name in module.SCORES if name != "SPICE"]
    found = caption_scores(SAID, KNOWN, tokeniser="ptb", scores=names)
    assert found == pytest.approx(direct(known, said, ("BLEU", "METEOR", "ROUGE-L", "CIDEr")), abs=1e-12)


@needs_package
def test_metric_scores_the_set_and_not_the_mean_of_batches():
    names = ("BLEU-4", "CIDEr", "ROUGE-L")
    metric = metrics.CaptionScores(names, tokeniser="plain")
    metric.update(SAID[:1], KNOWN[:1])
    metric.update(SAID[1:], KNOWN[1:])
    found = {name: float(value) for name, value in metric.compute().items()}
    assert found == caption_scores(SAID, KNOWN, scores=names, tokeniser="plain")
    metric.reset()
    metric.update(["caf\u00e9 \u2603", ""], [["un caf\u00e9 \u2603"], ["a"]])
    assert float(metric.compute()["ROUGE-L"]) > 0
    # As processes do: what one has is joined to what the other has.
    joined = metrics.CaptionScores(names, tokeniser="plain")
    joined.update(SAID, KNOWN)
    for state in ("texts", "ends", "counts"):
        setattr(joined, state, torch.cat(getattr(joined, state)))
    assert {name: float(value) for name, value in joined.compute().items()} == found


def test_words_say_what_is_missing(monkeypatch):
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    assert set(missing_scores()) == set(module.SCORES) and metrics.find_tokeniser() == "plain"
    for given in (None, ["CIDEr"]):
        with pytest.raises(ImportError, match=r"caption_scores: .*pip install 'omegamax\[captions\]'"):
            caption_scores(SAID, KNOWN, scores=given)
    with pytest.raises(ImportError, match="CaptionScores: no METEOR here: pycocoevalcap is not installed"):
        metrics.CaptionScores(["METEOR"])


@needs_package
def test_without_java_the_tokeniser_is_plain_and_says_so(monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: None)
    assert set(missing_scores()) == {"METEOR", "SPICE"} and metrics.find_tokeniser() == "plain"
    assert caption_scores(SAID, KNOWN) == caption_scores(SAID, KNOWN, tokeniser="plain")
    with pytest.raises(ImportError, match="no METEOR here: it runs in Java, and there is no program java"):
        caption_scores(SAID, KNOWN, scores=["METEOR"])
    with pytest.raises(ImportError, match="tokeniser 'ptb' needs Java"):
        caption_scores(SAID, KNOWN, tokeniser="ptb")


@needs_package
def test_models_of_spice_are_asked_for_and_never_downloaded(tmp_path, monkeypatch):
    monkeypatch.setattr(module.shutil, "which", lambda name: "/bin/true")
    monkeypatch.setattr(module, "_spice_folder", lambda: tmp_path)
    assert "models are missing" in missing_scores()["SPICE"] and str(tmp_path) in missing_scores()["SPICE"]
    for name in module._MODELS:
        (tmp_path / name).touch()
    assert missing_scores() == {}


@pytest.mark.parametrize(
    ("said", "known", "words"),
    [
        ([], [], "candidates must be a list of captions, at least one"),
        ("a dog", [["a"]], "candidates must be a list"),
        (["a dog"], ["a dog"], r"references\[0\] must be a list of captions"),
        (["a dog"], [[]], r"references\[0\] must be a list of captions, at least one"),
        (["a"], [["a"], ["b"]], "wanted references for 1 images, got 2"),
    ],
)
def test_captions_that_are_none_are_refused(said, known, words, monkeypatch):
    monkeypatch.setattr(module, "missing_scores", dict)
    with pytest.raises((TypeError, ValueError), match=f"caption_scores: {words}"):
        caption_scores(said, known)


def test_split_caption_by_hand():
    assert split_caption("It isn't a DOG\u2019s ball -- no!  10,000 U.S.-made (red) kites...") == [
        *("it", "is", "n't", "a", "dog", "'s", "ball", "no", "10,000", "u.s", "made", "red", "kites"),
    ]
    assert split_caption(" . \n") == []


def test_objects_by_hand():
    objects = [["person", "hot dog", "dog", "dining table"], ["bear", "teddy bear"], []]
    captions = ["Two women eat hotdogs at a table.", "a teddy bear", "nothing"]
    # person, hot dog and table of four; teddy bear and no bear of two.
    assert float(mentioned_objects(captions, objects)) == pytest.approx(4 / 6)
    assert math.isnan(mentioned_objects(["a dog"], [[]]))
    # Once for a kind, however often it is there or mentioned.
    assert float(mentioned_objects(["dogs, a puppy and a dog"], [["dog", "dog", "cat"]])) == 0.5
    # A kind without synonyms has its name; a list of one's own replaces the other.
    assert float(mentioned_objects(["two wombats and foxes"], [["wombat", "fox", "emu"]])) == pytest.approx(2 / 3)
    assert float(mentioned_objects(["a puppy"], [["dog"]], {})) == 0
    # A name of signs alone is mentioned by nothing, and does not stop the count of the others.
    assert float(mentioned_objects(["a dog -- here"], [["dog", "--"]])) == 0.5
    metric = metrics.MentionedObjects()
    for caption, there in zip(captions, objects, strict=True):
        metric.update([caption], [there])
    assert metric.compute() == mentioned_objects(captions, objects)
    with pytest.raises(ValueError, match="mentioned_objects: wanted objects for 1 captions, got 2"):
        mentioned_objects(["a"], [[], []])


def test_each_thing_of_coco_is_found_by_each_of_its_names_alone():
    assert len(COCO_SYNONYMS) == 80
    named = [(name, kind) for kind, others in COCO_SYNONYMS.items() for name in (kind, *others)]
    captions = [f"a {name} here" for name, _ in named]
    assert float(mentioned_objects(captions, [[kind] for _, kind in named])) == 1
    assert float(mentioned_objects(captions, [set(COCO_SYNONYMS) - {kind} for _, kind in named])) == 0
    # A word of one thing is no word of another.
    assert len({name for name, _ in named}) == len(named)


@needs_package
@needs_java
@pytest.mark.slow
def test_plain_words_are_those_of_the_treebank_for_plain_captions():
    from pycocoevalcap.tokenizer.ptbtokenizer import PTBTokenizer

    draw = random.Random(0)
    words = "A man riding the wave on two surfboards , while dogs run . don't it's well-known 10 T-shirt".split()
    texts = [" ".join(draw.choices(words, k=8)) for _ in range(50)]
    found = PTBTokenizer().tokenize({i: [{"caption": text}] for i, text in enumerate(texts)})
    assert [found[i][0] for i in range(50)] == [" ".join(split_caption(text)) for text in texts]
