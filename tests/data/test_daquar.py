"""DAQUAR, from small files in both layouts, and the real set where it is at hand."""

import io
import json
import lzma
import pickle
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image
from torch.utils.data import DataLoader

from omegamax.data import Collate, Daquar, DataError, Vocabulary
from omegamax.data.vqa2 import write_grid


def png(number):
    file = io.BytesIO()
    Image.new("RGB", (25, 19), (number, 2 * number, 3)).save(file, "PNG")
    return file.getvalue()


def rows(numbers):
    for number in numbers:
        yield {"image": f"image{number}.png", "question": f"what is on desk {number}", "answers": ["lamp", "book"]}
        yield {"image": f"image{number}.png", "question": "how many chairs are there", "answers": ["4"]}


TRAIN, TEST = range(1, 21), range(21, 24)


@pytest.fixture
def folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for number in (*TRAIN, *TEST):
            archive.writestr(f"image{number}.png", png(number))
    for part, numbers in (("train", TRAIN), ("test", TEST)):
        with lzma.open(tmp_path / f"{part}.jsonl.xz", "wt") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows(numbers))
    return tmp_path


def test_samples_have_photograph_and_answers(folder):
    dataset = Daquar(folder, "test")
    assert len(dataset) == 6
    several, count = dataset[2], dataset[3]
    assert several.answers == {"book, lamp": 1.0} and several.kind == "other" and several.id == "test-2"
    assert count.answers == {"4": 1.0} and count.kind == "number"
    assert several.image.shape == (3, 19, 25) and several.image[:, 5, 7].tolist() == [22, 44, 3]
    assert list(dataset.texts()) == [(s.question, s.answers) for s in dataset]
    assert Daquar(folder, "test", size=(16, 16))[0].image.shape == (3, 16, 16)
    assert several.pictures == ("image22",)


def test_sets_of_answers_count_whole_or_each_or_not(folder):
    assert Daquar(folder, "test", sets="each")[0].answers == {"book": 1.0, "lamp": 1.0}
    assert {s.kind for s in Daquar(folder, "test", sets="leave out")} == {"number"}
    twice = {"image": "image21.png", "question": "what is on the wall", "answers": ["picture", "picture"]}
    (folder / "test.jsonl").write_text(json.dumps(twice))
    assert [s.answers for s in Daquar(folder, "test", sets="leave out")] == [{"picture": 1.0}]
    with pytest.raises(ValueError, match="Daquar: sets must be one of 'whole', 'each', 'leave out', got 'any'"):
        Daquar(folder, sets="any")


def test_validation_takes_photographs_from_training(folder):
    train, val, test = (Daquar(folder, split, held_out=0.25) for split in ("train", "val", "test"))
    pictures = [{entry.image for entry in part.entries} for part in (train, val, test)]
    assert [len(names) for names in pictures] == [15, 5, 3] and not pictures[0] & pictures[1]


def test_archive_is_opened_in_every_process(folder):
    dataset = Daquar(folder, "test")
    wanted = [sample.image for sample in dataset]
    vocabulary = Vocabulary.of((q for q, _ in dataset.texts()), ["4"])
    loader = DataLoader(dataset, 2, collate_fn=Collate(vocabulary, unknown="drop"), num_workers=2)
    torch.testing.assert_close(torch.cat([batch["image"] for batch in loader]), torch.stack(wanted).float() / 255)
    assert torch.equal(pickle.loads(pickle.dumps(dataset))[1].image, wanted[1])


def test_original_layout_is_read(tmp_path):
    (tmp_path / "nyu_depth_images").mkdir()
    for number in (3, 10):
        (tmp_path / "nyu_depth_images" / f"image{number}.png").write_bytes(png(number))
    lines = [
        "what is on the desk in the image3 ?",
        "book, tape_dispenser",
        "what is to the right of the image10 behind the door in this image10 ?",
        "garbage_bin",
    ]
    (tmp_path / "qa.894.raw.test.txt").write_text("\n".join(lines) + "\n")
    dataset = Daquar(tmp_path, "test")
    assert [(e.image, e.question, e.answers) for e in dataset.entries] == [
        ("image3.png", "what is on the desk", ("book", "tape_dispenser")),
        ("image10.png", "what is to the right of the image10 behind the door", ("garbage_bin",)),
    ]
    assert dataset[0].image[:, 0, 0].tolist() == [3, 6, 3]
    for bad, message in (
        (lines[:3], "got 3 lines"),
        (["what is it ?", "box"], "line 1 must be a question that ends in"),
    ):
        (tmp_path / "qa.894.raw.test.txt").write_text("\n".join(bad))
        with pytest.raises(DataError, match=rf"qa\.894\.raw\.test\.txt.*{message}"):
            Daquar(tmp_path, "test")


@pytest.mark.parametrize(
    "row, message",
    [
        ({"answers": []}, "has no answer"),
        ({"answers": [" "]}, "has no answer"),
        ({"answers": [3]}, r"'answers' must be a list of words, got \[3\]"),
        ({"answers": "box"}, "'answers' must be list, got 'box'"),
        ({"question": ""}, "has no question"),
        ({"image": None}, "'image' must be str, got None"),
    ],
)
def test_bad_lines_are_refused_with_their_location(folder, row, message):
    content = [*rows([21]), {"image": "image21.png", "question": "what", "answers": ["box"], **row}]
    (folder / "test.jsonl").write_text("\n".join(map(json.dumps, content)))
    with pytest.raises(DataError, match=rf"test\.jsonl: line 3.*{message}"):
        Daquar(folder, "test")


def test_bad_photographs_are_refused_by_name(folder):
    with zipfile.ZipFile(folder / "images.zip", "w") as archive:
        archive.writestr("image21.png", png(21)[:-25])
        archive.writestr("image22.png", b"no picture")
    dataset = Daquar(folder, "test")
    with pytest.raises(DataError, match=r"images\.zip: image21\.png is damaged or not a picture"):
        dataset[0]
    with pytest.raises(DataError, match=r"images\.zip: image22\.png is damaged or not a picture"):
        dataset[2]
    with pytest.raises(FileNotFoundError, match=r"images\.zip has no picture image23\.png"):
        dataset[4]
    (folder / "images.zip").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"images\.zip is damaged or no zip archive"):
        Daquar(folder, "test")[0]
    (folder / "images.zip").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"has no images_short192.zip or images.zip or images or nyu_depth_images"
    ):
        Daquar(folder, "test")


def test_features_replace_photographs(folder, tmp_path_factory):
    features = tmp_path_factory.mktemp("features")
    for number, ending in ((21, "npz"), (22, "pth")):
        write_grid(features / f"image{number}.{ending}", torch.full((2, 2, 4), float(number)))
    (folder / "images.zip").unlink()  # not needed
    dataset = Daquar(folder, "test", features=features)
    assert [dataset[i].features.unique().item() for i in range(4)] == [21, 21, 22, 22] and dataset[0].image is None
    with pytest.raises(FileNotFoundError, match=r"has no features of the picture image23\.png: no image23\.npz or"):
        dataset[4]
    (features / "image21.npz").write_bytes(b"PK nothing")
    with pytest.raises(DataError, match=r"image21\.npz is damaged"):
        dataset[0]
    with pytest.raises(FileNotFoundError, match=r"the folder .*nowhere does not exist"):
        Daquar(folder, "test", features=folder / "nowhere")


def test_real_set(real):
    folder = real("daquar")
    train, val, test = (Daquar(folder, split) for split in ("train", "val", "test"))
    assert len(train) + len(val) == 6795 and len(test) == 5673
    pictures = [{entry.image for entry in part.entries} for part in (train, val, test)]
    assert len(pictures[0] | pictures[1]) == 794 and len(pictures[2]) == 653
    assert not pictures[0] & pictures[1] and not (pictures[0] | pictures[1]) & pictures[2]
    assert len(test) - len(Daquar(folder, "test", sets="leave out")) == 592  # and 5 that name one thing twice
    assert all(train[i].image.shape == (3, 192, 253) for i in np.linspace(0, len(train) - 1, 20).astype(int))
