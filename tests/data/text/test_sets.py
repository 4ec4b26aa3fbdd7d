"""The sets as they are distributed, small and real."""

import json
import lzma

import pytest

from omegamax.data import DataError
from omegamax.data.text import IMDB, SENTENCES, SICK, YELP_HAT, Sentences, YelpHAT, split_words

SPLITS = ("train", "val", "test")


def write_imdb(folder, count=60):
    for part in ("train", "test"):
        entries = [
            {"id": i, "label": label, "rating": 9, "text": f"{part} {label} film {i}<br />fine"}
            for label in (0, 1)
            for i in range(count)
        ]
        text = "".join(json.dumps(entry) + "\n" for entry in entries)
        (folder / f"{part}.jsonl.xz").write_bytes(lzma.compress(text.encode()))
        for entry in entries:
            path = folder / "aclImdb" / part / ("neg", "pos")[entry["label"]] / f"{entry['id']}_9.txt"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(entry["text"])
    (folder / "aclImdb/train/unsup").mkdir()
    (folder / "aclImdb/train/unsup/0_0.txt").write_text("left aside")
    return folder


def test_imdb_in_lines_and_in_folders_is_the_same(tmp_path):
    write_imdb(tmp_path)
    for split in SPLITS:
        samples = list(IMDB(tmp_path, split, held_out=0.2))
        assert samples == list(IMDB(tmp_path / "aclImdb", split, held_out=0.2))
    assert len(samples) == 120 and samples[61].id == "test-positive-1"
    assert samples[61].words == ("test", "1", "film", "1", "fine") and samples[61].label == "positive"
    train, val = (list(IMDB(tmp_path, split, held_out=0.2)) for split in ("train", "val"))
    assert len(train) + len(val) == 120 and not {each.id for each in train} & {each.id for each in val}


def test_imdb_refuses_what_it_does_not_know(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"has no train\.jsonl or .* or train"):
        IMDB(tmp_path)
    (tmp_path / "train.jsonl").write_text('{"id": 1, "label": 2, "text": "a"}\n')
    with pytest.raises(DataError, match=r"line 1: 'label' must be 0 or 1, got 2"):
        list(IMDB(tmp_path))
    (tmp_path / "train.jsonl").write_text('{"id": 1, "label": 1.0, "text": "a"}\n')
    with pytest.raises(DataError, match=r"line 1: 'label' must be 0 or 1, got 1\.0"):
        list(IMDB(tmp_path))
    (tmp_path / "b/train/pos").mkdir(parents=True)
    (tmp_path / "b/train/neg").mkdir()
    with pytest.raises(DataError, match="has no reviews"):
        list(IMDB(tmp_path / "b"))
    with pytest.raises(ValueError, match="split must be one of"):
        IMDB(tmp_path, "dev")


def test_sentences(tmp_path):
    for name, label in (("objective", "it rains"), ("subjective", "i like it")):
        (tmp_path / f"subj.{name}").write_text("".join(f"{label} {i} .\n" for i in range(100)))
    parts = {split: list(Sentences(tmp_path, "subj", split, fold=9)) for split in SPLITS}
    assert sum(map(len, parts.values())) == 200
    first = next(each for each in parts["train"] if each.label == "subjective")
    assert first.words[:3] == ("i", "like", "it") and first.id.startswith("subj.subjective-")
    again = {each.id for each in Sentences(tmp_path, "subj", "val", fold=8)}
    assert again == {each.id for each in parts["test"]}  # the next fold is the validation
    (tmp_path / "TREC.train.all").write_text("".join(f"{i % 6} what is {i} ?\n" for i in range(200)))
    (tmp_path / "TREC.test.all").write_text("5 how far is it ?\n")
    train, val = (list(Sentences(tmp_path, "trec", split, held_out=0.25)) for split in ("train", "val"))
    assert len(train) + len(val) == 200 and 25 < len(val) < 75
    (only,) = Sentences(tmp_path, "trec", "test")
    assert (only.label, only.words[0]) == ("number", "how")
    (tmp_path / "TREC.test.all").write_text("5 how far is it ?\n6 how far is it ?\n")
    with pytest.raises(DataError, match=r"TREC\.test\.all: line 2 must begin with a class, 0 to 5, got '6'"):
        list(Sentences(tmp_path, "trec", "test"))
    for bad in ({"fold": 10}, {"folds": 2}, {"fold": -1}):
        with pytest.raises(ValueError, match="fold"):
            Sentences(tmp_path, "subj", **bad)


def test_sick_and_yelp_hat(tmp_path):
    head = "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
    (tmp_path / "SICK_trial.txt").write_text(head + "4\tA man\tNo man\t3.1\tCONTRADICTION\n")
    (pair,) = SICK(tmp_path, "val")
    assert (pair.words, pair.second, pair.label) == (("A", "man"), ("No", "man"), "contradiction")
    (tmp_path / "SICK_trial.txt").write_text(head + "4\tA man\tNo man\t3.1\tMAYBE\n")
    with pytest.raises(DataError, match=r"line 2: the judgment must be one of .*'MAYBE'"):
        list(SICK(tmp_path, "val"))
    entry = {"label": 1, "tokens": ["Good", "food."], "maps": [[1, 0], [1, 1], [1, 0], [0, 0]], "human_labels": []}
    (tmp_path / "50words.jsonl").write_text(json.dumps(entry))
    (review,) = YelpHAT(tmp_path, split=None)
    assert review.words == ("Good", "food", ".") and review.marks == (0.75, 0.25, 0.25) and review.label == "positive"
    maps = ([[1, 0, 0]], [], [[2, 0]], [[[1], 0]])
    for change in (*({"maps": each} for each in maps), {"tokens": [1, 2]}, {"label": 3}):
        (tmp_path / "50words.jsonl").write_text(json.dumps({**entry, **change}))
        with pytest.raises(DataError, match=f"line 1: '{next(iter(change))}' must be"):
            list(YelpHAT(tmp_path, split=None))


@pytest.mark.slow
def test_the_real_sets_have_all_their_texts(real):
    counts = {"mr": 10662, "sst2": 9613, "sst5": 11855, "trec": 5952, "subj": 10000}
    assert set(counts) == set(SENTENCES)
    for name, count in counts.items():
        parts = [list(Sentences(real("sentence_classification"), name, split)) for split in SPLITS]
        assert sum(map(len, parts)) == count and len({each.id for part in parts for each in part}) == count
    assert [sum(1 for _ in SICK(real("sick"), split)) for split in SPLITS] == [4500, 500, 4927]
    reviews = [sum(1 for _ in YelpHAT(real("yelp_hat"), name, None)) for name in YELP_HAT]
    assert reviews == [300, 439, 181, 625]
    train, val, test = (list(IMDB(real("imdb"), split)) for split in SPLITS)
    assert len(train) + len(val) == len(test) == 25000
    assert not {each.words for each in train} & {each.words for each in val}
    assert sum(each.label == "positive" for each in test) == 12500
    assert "<br" not in test[0].words and split_words(" ".join(test[0].words)) == list(test[0].words)
