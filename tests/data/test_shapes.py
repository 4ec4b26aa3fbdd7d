"""SHAPES, from small files in both layouts, and the real set where it is at hand."""

import json

import numpy as np
import pytest
import torch

from omegamax.data import DataError, Shapes

QUESTIONS = ["is a red shape left of a circle", "is a square blue", "is green above a triangle"]
ANSWERS = ["true", "false", "true"]


def pixels(seed=0):
    return np.random.default_rng(seed).integers(0, 256, (3, 30, 30, 3), dtype=np.uint8)


def lines(answers=ANSWERS):
    rows = [{"question": q, "program": "()", "answer": a} for q, a in zip(QUESTIONS, answers, strict=True)]
    return "".join(json.dumps(row) + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path):
    np.savez_compressed(tmp_path / "images.npz", **{part: pixels(i) for i, part in enumerate(("train", "val", "test"))})
    for part in ("train", "val", "test"):
        (tmp_path / f"{part}.jsonl").write_text(lines())
    return tmp_path


@pytest.mark.parametrize("number, split", [(0, "train"), (1, "val"), (2, "test")])
def test_samples_are_yes_or_no(folder, number, split):
    dataset = Shapes(folder, split)
    assert [s.question for s in dataset] == QUESTIONS and [s.answer for s in dataset] == ["yes", "no", "yes"]
    assert all(s.kind == "yes/no" for s in dataset) and dataset[2].id == f"{split}-2" == dataset[-1].id
    assert torch.equal(dataset[1].image, torch.from_numpy(pixels(number)[1]).permute(2, 0, 1))
    assert list(dataset.texts())[1] == (QUESTIONS[1], {"no": 1.0})
    assert Shapes(folder, split, size=(60, 45))[0].image.shape == (3, 60, 45)


def test_original_files_are_read_with_their_channels_turned(tmp_path):
    np.save(tmp_path / "train.large.input.npy", pixels()[..., ::-1])
    (tmp_path / "train.large.query_str.txt").write_text("\n".join(QUESTIONS) + "\n")
    (tmp_path / "train.large.output").write_text("\n".join(ANSWERS) + "\n")
    dataset = Shapes(tmp_path)
    assert [s.answer for s in dataset] == ["yes", "no", "yes"] and dataset[0].question == QUESTIONS[0]
    assert torch.equal(dataset[1].image, torch.from_numpy(pixels()[1]).permute(2, 0, 1))
    (tmp_path / "train.large.output").write_text("true\n")
    with pytest.raises(DataError, match=r"query_str\.txt has 3 lines, .*train\.large\.output 1"):
        Shapes(tmp_path)


@pytest.mark.parametrize(
    "content, message",
    [
        (lines(["true", "maybe", "true"]), "line 2: the answer must be 'true' or 'false', got 'maybe'"),
        (lines() + "{", "line 4 is not JSON"),
        (lines() + "[1]", "line 4 must be an object"),
        ('\n{"answer": "true"}', "line 2 has no 'question'"),
        ('{"question": " ", "answer": "true"}', "line 1: the question is empty"),
        ("\n", "is empty"),
        (lines() + lines(), "has 6 questions, but .*images.npz 3 pictures"),
    ],
)
def test_bad_lines_are_refused_with_their_location(folder, content, message):
    (folder / "val.jsonl").write_text(content)
    with pytest.raises(DataError, match=rf"val\.jsonl.*{message}"):
        Shapes(folder, "val")


def test_bad_files_are_refused_by_name(folder):
    with pytest.raises(FileNotFoundError, match=r"Shapes: the folder .*nowhere does not exist"):
        Shapes(folder / "nowhere")
    (folder / "val.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match=r"val\.jsonl is damaged or not a text file"):
        Shapes(folder, "val")
    np.savez(folder / "images.npz", train=pixels(), val=pixels())
    with pytest.raises(DataError, match=r"images\.npz has the arrays train, val; wanted 'test'"):
        Shapes(folder, "test")


def test_real_set(real):
    folder = real("shapes")
    counts = {split: Shapes(folder, split) for split in ("train", "val", "test")}
    assert {split: len(part) for split, part in counts.items()} == {"train": 13568, "val": 1024, "test": 1024}
    share = {split: np.mean(["yes" in scores for _, scores in part.texts()]) for split, part in counts.items()}
    assert share == pytest.approx({"train": 0.367, "val": 0.385, "test": 0.366}, abs=5e-4)
