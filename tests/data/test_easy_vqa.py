"""easy-VQA, from small files in both layouts, and the real set where it is at hand."""

import json
import lzma
import re
from collections import Counter

import numpy as np
import pytest
import torch
from PIL import Image

from omegamax.data import DataError, EasyVQA

WORDS = [("what shape is in the image?", "circle"), ("is there a circle?", "yes"), ("what color is it?", "teal")]


def pixels(count):
    return np.random.default_rng(0).integers(0, 256, (count, 8, 8, 3), dtype=np.uint8)


def questions(count):
    return [[question, answer, number] for number in range(count) for question, answer in WORDS]


@pytest.fixture
def packed(tmp_path):
    for part, count in (("train", 20), ("test", 3)):
        np.savez_compressed(tmp_path / f"{part}_images.npz", images=pixels(count))
        with lzma.open(tmp_path / f"{part}_questions.json.xz", "wt") as file:
            json.dump(questions(count), file)
    return tmp_path


def test_samples_have_picture_answer_and_kind(packed):
    dataset = EasyVQA(packed, "test")
    assert len(dataset) == 9
    sample = dataset[4]
    assert (sample.question, sample.answers, sample.kind, sample.id) == (
        *WORDS[1][:1],
        {"yes": 1.0},
        "yes/no",
        "test-4",
    )
    assert torch.equal(sample.image, torch.from_numpy(pixels(3)[1]).permute(2, 0, 1))
    assert [dataset[i].kind for i in range(3)] == ["other", "yes/no", "other"]
    assert list(dataset.texts()) == [(s.question, s.answers) for s in dataset]


def test_validation_takes_pictures_from_training(packed):
    train, val = EasyVQA(packed, "train", held_out=0.2), EasyVQA(packed, "val", held_out=0.2)
    pictures = [{number for _, _, number in part.questions} for part in (train, val)]
    assert len(train) + len(val) == 60 and len(pictures[1]) == 4 and not pictures[0] & pictures[1]
    with pytest.raises(ValueError, match=r"held_out=0.001 of 20 training pictures is none"):
        EasyVQA(packed, held_out=0.001)
    with pytest.raises(ValueError, match=r"held_out must lie in \(0, 1\), got 1"):
        EasyVQA(packed, held_out=1)


def test_pictures_are_resized(packed):
    assert EasyVQA(packed, size=(4, 6))[0].image.shape == (3, 4, 6)
    flat = np.full((3, 8, 8, 3), 77, dtype=np.uint8)
    np.savez(packed / "test_images.npz", images=flat)
    assert (EasyVQA(packed, "test", size=(13, 5))[0].image == 77).all()


def test_original_layout_is_read(packed, tmp_path_factory):
    folder = tmp_path_factory.mktemp("original")
    (folder / "test" / "images").mkdir(parents=True)
    (folder / "test" / "questions.json").write_text(json.dumps(questions(3)))
    for number, picture in enumerate(pixels(3)):
        Image.fromarray(picture).save(folder / "test" / "images" / f"{number}.png")
    assert all(
        torch.equal(a.image, b.image) and a.answers == b.answers
        for a, b in zip(EasyVQA(folder, "test"), EasyVQA(packed, "test"), strict=True)
    )


@pytest.mark.parametrize(
    "content, message",
    [
        ("[[", "is damaged or not a JSON file"),
        ("{}", "must be a list of"),
        (
            '[["q?", "yes", 0], ["q?", "yes"]]',
            r"entry 1 must be \[question, answer, picture number\], got \['q\?', 'yes'\]",
        ),
        ('[["q?", "", 0]]', "entry 0 must be"),
        ('[[" ", "yes", 0]]', "entry 0 must be"),
        ('[["q?", "yes", true]]', "entry 0 must be"),
        ('[["q?", "yes", 3]]', "entry 0 is about picture 3, but .*test_images.npz has 3"),
        ('[["q?", "yes", -1]]', "entry 0 is about picture -1"),
    ],
)
def test_bad_questions_are_refused_with_their_location(packed, content, message):
    (packed / "test_questions.json").write_text(content)
    with pytest.raises(DataError, match=rf"test_questions\.json.*{message}"):
        EasyVQA(packed, "test")


def test_bad_files_are_refused_by_name(packed, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    with pytest.raises(FileNotFoundError, match=rf"EasyVQA: {re.escape(str(empty))} has no train_questions\.json or"):
        EasyVQA(empty)
    with pytest.raises(ValueError, match="EasyVQA: split must be one of 'train', 'val', 'test', got 'dev'"):
        EasyVQA(packed, "dev")
    np.savez(packed / "test_images.npz", images=np.zeros((3, 8, 8), np.uint8))
    with pytest.raises(
        DataError, match=r"test_images\.npz: 'images' must be uint8 \(N, H, W, 3\), got uint8 \(3, 8, 8\)"
    ):
        EasyVQA(packed, "test")
    path = packed / "train_images.npz"
    path.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(DataError, match=r"train_images\.npz is damaged"):
        EasyVQA(packed)


def test_real_set(real):
    folder = real("easy_vqa")
    train, val, test = (EasyVQA(folder, split) for split in ("train", "val", "test"))
    assert len(train) + len(val) == 38575 and len(test) == 9673
    answers = Counter(answer for _, scores in train.texts() for answer in scores)
    assert len(answers) == 13 and set(answers) == set((folder / "answers.txt").read_text().split())
    assert {train[i].kind for i in range(50)} == {"yes/no", "other"} and train[0].image.shape == (3, 64, 64)
