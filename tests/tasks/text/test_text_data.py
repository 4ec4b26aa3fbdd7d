"""Sets of texts as splits and batches."""

import csv
import itertools
import json

import pytest

from omegamax.data import DataError, Vocabulary
from omegamax.data.text import TextWarning
from omegamax.tasks.batches import LengthOrder
from omegamax.tasks.text import IMDBData, ReviewsData, SentencesData, TableData, TextData, YelpHATData


def write_table(path, rows, head=("text", "label")):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def table_rows(count, first=0):
    return [(f"{('bad', 'good')[i % 2]} film number {i}", ("no", "yes")[i % 2]) for i in range(first, first + count)]


def ids(data, name):
    return set(data.split(name).ids)


def test_batches_are_of_about_one_length_and_the_same_again():
    data = ReviewsData((60, 20, 20), batch_size=5, sentences=(1, 12), seed=3)
    loader = data.train_dataloader()
    assert isinstance(loader.sampler, LengthOrder)
    first = [batch["id"] for batch in loader]
    again = ReviewsData((60, 20, 20), batch_size=5, sentences=(1, 12), seed=3)
    assert [batch["id"] for batch in again.train_dataloader()] == first
    assert sorted(itertools.chain(*first)) == sorted(data.split("train").ids)
    lengths = [(batch["words"] != 0).sum(-1) for batch in data.test_dataloader()]
    assert all(int(a.min()) >= int(b.max()) for a, b in itertools.pairwise(lengths))


def test_settings_build_the_same_data_again():
    data = ReviewsData((6, 4, 4), review_seed=2, length=300, least=2, batch_size=3)
    settings = json.loads(json.dumps(data.settings))
    again = TextData.of(settings)
    assert isinstance(again, ReviewsData) and again.settings == data.settings
    assert again.vocabulary == data.vocabulary and ids(again, "val") == ids(data, "val")
    for bad in ({"length": 0}, {"length": 1 << 30}, {"samples": (1, 1, 1 << 40)}, {"least": 0}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            TextData.of(settings, **bad)


def test_table_of_ones_own_has_its_validation_held_out(tmp_path):
    path = write_table(tmp_path / "a.csv", table_rows(200))
    data = TableData(path, held_out=0.2, batch_size=8)
    assert data.vocabulary.answers == ("no", "yes") and not ids(data, "train") & ids(data, "val")
    assert len(ids(data, "train")) + len(ids(data, "val")) == 200 and ids(data, "test") == ids(data, "val")
    other = write_table(tmp_path / "b.csv", table_rows(10, 500))
    three = TableData(path, other, other)
    assert len(ids(three, "train")) == 200 and ids(three, "val") == ids(three, "test")
    assert len(ids(TableData(path, test=other), "test")) == 10


def test_texts_to_predict_need_no_class(tmp_path):
    path = write_table(tmp_path / "a.csv", table_rows(50))
    new = write_table(tmp_path / "new.csv", [("what a film",), ("",)], ("text",))
    with pytest.warns(TextWarning, match="1 of 2 texts have no words"):
        data = TableData(path, test=new, labelled=False).split("test")
    assert data.label.tolist() == [-100, -100] and len(data) == 2
    with pytest.raises(DataError, match="has no column 'label'"):
        TableData(path, test=new).split("test")


def test_part_without_a_text_is_told(tmp_path):
    data = TableData(write_table(tmp_path / "a.csv", table_rows(4)), held_out=1e-9)
    with pytest.raises(DataError, match="val: there is no text; check the files, or take a larger share"):
        data.split("val")


def test_class_that_training_has_not_is_told(tmp_path):
    new = write_table(tmp_path / "b.csv", [("a film", "maybe")])
    data = TableData(write_table(tmp_path / "a.csv", table_rows(20)), new)
    with pytest.raises(DataError, match=r"val: b.csv:\d+ is of the class 'maybe', .* 2 answers: 'no', 'yes'"):
        data.split("val")


def test_vocabulary_of_a_file_and_its_words(tmp_path):
    Vocabulary(["film", "good"], ["negative", "positive"]).save(tmp_path / "words.json")
    data = ReviewsData((4, 2, 2), vocabulary_file=str(tmp_path / "words.json"))
    assert data.vocabulary.num_words == 4 and int(data.split("train")[0]["words"].max()) <= 3
    assert ReviewsData((50, 2, 2), most=5).vocabulary.num_words == 7
    with pytest.raises(FileNotFoundError, match="give vocabulary_file"):
        _ = ReviewsData(vocabulary_file="none.json").vocabulary


def test_sets_are_read_from_their_folders(tmp_path):
    for part in ("train", "test"):
        entries = [{"id": i, "label": i % 2, "text": f"{part} film {i}"} for i in range(30)]
        (tmp_path / f"{part}.jsonl").write_text("".join(json.dumps(entry) + "\n" for entry in entries))
    imdb = IMDBData(str(tmp_path), held_out=0.3)
    assert len(imdb.split("train")) + len(imdb.split("val")) == len(imdb.split("test")) == 30
    for name in ("objective", "subjective"):
        (tmp_path / f"subj.{name}").write_text("".join(f"{name} {i}\n" for i in range(60)))
    folds = [ids(SentencesData(str(tmp_path), "subj", fold=fold, folds=3), "test") for fold in range(3)]
    assert len(set.union(*folds)) == sum(map(len, folds)) == 120
    entry = {"label": 1, "tokens": ["Good", "food."], "maps": [[1, 0], [1, 1]]}
    (tmp_path / "50words.jsonl").write_text(json.dumps(entry))
    Vocabulary(["good"], ["negative", "positive"]).save(tmp_path / "v.json")
    data = YelpHATData(str(tmp_path), whole=True, vocabulary_file=str(tmp_path / "v.json"))
    assert data.split("test")[0]["marks"].tolist() == [1.0, 0.5, 0.5]
    with pytest.raises(ValueError, match="all reviews are for a test, and none for 'train'"):
        data.split("train")


def test_pairs_of_ones_own_have_a_second_column(tmp_path):
    rows = [(f"a dog {i}", f"the animal {i} runs", "yes" if i % 2 else "no") for i in range(20)]
    data = TableData(write_table(tmp_path / "a.csv", rows, ("one", "two", "label")), text="one", second="two")
    assert data.settings["second"] == "two" and data.split("train").pairs and data.title == "a.csv"
    batch = next(iter(data.train_dataloader()))
    assert batch["words"].shape[1] == 3 and batch["second"].shape[1] == 4
