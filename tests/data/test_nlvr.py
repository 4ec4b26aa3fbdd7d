"""NLVR, from small files in both layouts, and the real set where it is at hand."""

import json
import zipfile

import numpy as np
import pytest
from PIL import Image

from omegamax.data import NLVR, DataError

SPLITS = {"train": "train_subset", "val": "dev", "test": "test", "hidden": "hidden"}


def rows(part, **more):
    for number, label in enumerate((True, False, True)):
        image = f"{part}-{number}-0-0.png"
        yield {
            "image": image,
            "sentence": f"There are {number} boxes.",
            "label": label,
            "identifier": f"{number}-0",
        } | more


@pytest.fixture
def folder(tmp_path):
    for part in SPLITS.values():
        (tmp_path / f"{part}.jsonl").write_text("\n".join(map(json.dumps, rows(part))))
        with zipfile.ZipFile(tmp_path / f"{part}_images.zip", "w") as archive:
            for row in rows(part):
                with archive.open(row["image"], "w") as file:
                    Image.new("P", (40, 10), int(row["identifier"][0])).save(file, "PNG")
    return tmp_path


@pytest.mark.parametrize("split", SPLITS)
def test_statements_are_yes_or_no(folder, split):
    dataset = NLVR(folder, split)
    assert [s.answers for s in dataset] == [{"yes": 1.0}, {"no": 1.0}, {"yes": 1.0}]
    assert (dataset[1].question, dataset[1].kind, dataset[1].id) == ("There are 1 boxes.", "yes/no", "1-0")
    assert dataset[0].image.shape == (3, 10, 40) and next(dataset.texts()) == ("There are 0 boxes.", {"yes": 1.0})
    assert NLVR(folder, split, size=(8, 16))[2].image.shape == (3, 8, 16)


def test_original_layout_is_read(tmp_path):
    (tmp_path / "dev" / "images" / "7").mkdir(parents=True)
    rows_ = [{k: v for k, v in row.items() if k != "image"} for row in rows("dev", directory="7", label="false")]
    (tmp_path / "dev" / "dev.json").write_text("\n".join(map(json.dumps, rows_)))
    for row in rows_:
        path = tmp_path / "dev" / "images" / "7" / f"dev-{row['identifier']}-0.png"
        Image.new("RGB", (40, 10), (9, 8, 7)).save(path)
    dataset = NLVR(tmp_path, "val")
    assert [s.answer for s in dataset] == ["no"] * 3 and dataset[2].image[:, 0, 0].tolist() == [9, 8, 7]


@pytest.mark.parametrize(
    "more, message",
    [
        ({"label": "perhaps"}, "'label' must be true or false, got 'perhaps'"),
        ({"label": 1}, "'label' must be bool or str, got 1"),
        ({"sentence": " "}, "the sentence is empty"),
        ({"identifier": 5}, "'identifier' must be str, got 5"),
    ],
)
def test_bad_lines_are_refused_with_their_location(folder, more, message):
    (folder / "dev.jsonl").write_text("\n".join(map(json.dumps, rows("dev", **more))))
    with pytest.raises(DataError, match=rf"dev\.jsonl: line 1: {message}"):
        NLVR(folder, "val")


def test_bad_files_are_refused_by_name(folder):
    with pytest.raises(ValueError, match="NLVR: split must be one of 'train', 'val', 'test', 'hidden', got 'dev'"):
        NLVR(folder, "dev")
    (folder / "dev_images.zip").unlink()
    with pytest.raises(FileNotFoundError, match=r"has no dev_images\.zip or dev_images"):
        NLVR(folder, "val")
    (folder / "dev_images").mkdir()
    with pytest.raises(FileNotFoundError, match=r"dev_images/dev-0-0-0\.png does not exist"):
        NLVR(folder, "val")[0]
    (folder / "dev.jsonl").unlink()
    with pytest.raises(FileNotFoundError, match=r"NLVR: .* has no dev\.jsonl or"):
        NLVR(folder, "val")


def test_real_set(real):
    folder = real("nlvr")
    sets = {split: NLVR(folder, split) for split in SPLITS}
    assert {split: len(part) for split, part in sets.items()} == {"train": 1000, "val": 989, "test": 990, "hidden": 985}
    for part in sets.values():
        assert all(part[i].image.shape == (3, 100, 400) for i in np.linspace(0, len(part) - 1, 10).astype(int))
    assert sum("yes" in scores for _, scores in sets["val"].texts()) == 547
