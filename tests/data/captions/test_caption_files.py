"""Captions in the formats of Flickr8k, of Karpathy's splits and of MS-COCO; broken files are refused."""

import json
import lzma
import zipfile

import numpy as np
import pytest
import torch
from PIL import Image

from omegamax.data import DataError
from omegamax.data.captions import CaptionedPictures, CaptionEntry, read_coco, read_flickr8k, read_karpathy

LINES = "a.jpg#0\tA dog runs .\na.jpg#1\tThe dog 's ball\nb.jpg#0\tTwo men\n"


def write_flickr8k(folder, lines=LINES, part="b.jpg\na.jpg\n"):
    with lzma.open(folder / "Flickr8k.token.txt.xz", "wt") as file:
        file.write(lines)
    (folder / "Flickr_8k.devImages.txt").write_text(part)


def test_flickr8k(tmp_path):
    write_flickr8k(tmp_path)
    found = read_flickr8k(tmp_path, "val")
    assert [entry.image for entry in found] == ["b.jpg", "a.jpg"]
    assert found[1].captions == (("a", "dog", "runs"), ("the", "dog", "s", "ball"))
    assert found[1].references == ("A dog runs .", "The dog 's ball")


@pytest.mark.parametrize(
    ("lines", "part", "message"),
    [
        ("a.jpg\tA dog\n", "a.jpg\n", "NAME#NUMBER"),
        ("a.jpg#0 A dog\n", "a.jpg\n", "line 1 must be NAME#NUMBER"),
        ("a.jpg#0\t...\n", "a.jpg\n", "caption with words"),
        (LINES, "c.jpg\n", "has no caption"),
        (LINES, "\n", "has no pictures"),
        (LINES, "a.jpg\nb.jpg\na.jpg\n", r"has a\.jpg more than once"),
    ],
)
def test_broken_flickr8k_is_refused(tmp_path, lines, part, message):
    write_flickr8k(tmp_path, lines, part)
    with pytest.raises(DataError, match=message):
        read_flickr8k(tmp_path, "val")


def test_missing_flickr8k_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"Flickr8k\.token\.txt"):
        read_flickr8k(tmp_path, "val")
    with pytest.raises(ValueError, match="split must be one of"):
        read_flickr8k(tmp_path, "dev")


def karpathy(**change):
    def image(name, split, **more):
        return {"filename": name, "split": split, "sentences": [{"tokens": ["a", "dog"], "raw": "A dog."}], **more}

    images = [image("1.jpg", "train"), image("2.jpg", "restval", filepath="val2014"), image("3.jpg", "test", **change)]
    return {"images": images, "dataset": "coco"}


def test_karpathy(tmp_path):
    path = tmp_path / "dataset_coco.json"
    path.write_text(json.dumps(karpathy()))
    assert [entry.image for entry in read_karpathy(path, "train")] == ["1.jpg", "val2014/2.jpg"]
    assert read_karpathy(path, "test") == [CaptionEntry("3.jpg", (("a", "dog"),), texts=("A dog.",))]
    path.write_text(json.dumps(karpathy(sentences=[{"tokens": ["a", "dog"]}])))
    assert read_karpathy(path, "test")[0].references == ("a dog",)
    with pytest.raises(DataError, match="no pictures of the part 'val'"):
        read_karpathy(path, "val")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"sentences": []}, "no sentences"),
        ({"sentences": [{"tokens": []}]}, "list of words"),
        ({"sentences": [{"raw": "x"}]}, "no 'tokens'"),
        ({"filename": 3}, "'filename' must be str"),
    ],
)
def test_broken_karpathy_is_refused(tmp_path, change, message):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(karpathy(**change)))
    with pytest.raises(DataError, match=message):
        read_karpathy(path, "test")


def write_coco(folder, image_id=7, category=3):
    images = [{"id": 7, "file_name": "COCO_7.jpg"}, {"id": 9, "file_name": "COCO_9.jpg"}]
    texts = [{"image_id": image_id, "caption": "A Dog."}, {"image_id": 7, "caption": "a puppy"}]
    (folder / "captions.json").write_text(json.dumps({"images": images, "annotations": texts}))
    marks = [{"image_id": 7, "category_id": category}, {"image_id": 7, "category_id": 1}] * 2
    kinds = [{"id": 1, "name": "dog"}, {"id": 3, "name": "sports ball"}]
    (folder / "instances.json").write_text(json.dumps({"annotations": marks, "categories": kinds}))
    return folder / "captions.json", folder / "instances.json"


def test_coco(tmp_path):
    captions, instances = write_coco(tmp_path)
    words = (("a", "dog"), ("a", "puppy"))
    texts = ("A Dog.", "a puppy")
    assert read_coco(captions) == [CaptionEntry("COCO_7.jpg", words, texts=texts)]
    assert read_coco(captions, [instances]) == [CaptionEntry("COCO_7.jpg", words, ("sports ball", "dog"), texts)]


def test_broken_coco_is_refused(tmp_path):
    with pytest.raises(DataError, match="image_id 8"):
        read_coco(write_coco(tmp_path, image_id=8)[0])
    with pytest.raises(DataError, match="category_id 4"):
        captions, instances = write_coco(tmp_path, category=4)
        read_coco(captions, [instances])


def test_two_pictures_of_one_number_are_refused(tmp_path):
    captions, _ = write_coco(tmp_path)
    content = json.loads(captions.read_text())
    content["images"].append({"id": 7, "file_name": "other.jpg"})
    captions.write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"images\[\d\]: the id 7 is that of 'COCO_7\.jpg', too; mend or remove it"):
        read_coco(captions)


@pytest.mark.parametrize("name", ["", "."])
def test_picture_without_a_name_is_refused(tmp_path, name):
    path = tmp_path / "dataset.json"
    path.write_text(json.dumps(karpathy(filename=name)))
    with pytest.raises(DataError, match="must have the name of a file, got"):
        read_karpathy(path, "test")


def test_pictures_from_folders_and_archives(tmp_path):
    colours = {"a.jpg": 0, "b.png": 255}
    for name, value in colours.items():
        Image.fromarray(np.full((6, 4, 3), value, np.uint8)).save(tmp_path / name)
    with zipfile.ZipFile(tmp_path / "some.zip", "w") as archive:
        archive.write(tmp_path / "b.png", "val2014/b.png")
    (tmp_path / "b.png").unlink()
    entries = [CaptionEntry("a.jpg", (("dark",),)), CaptionEntry("val2014/b.png", (("light",),), ("lamp",))]
    found = CaptionedPictures(entries, [tmp_path, tmp_path / "some.zip"], size=(3, 2))
    assert [int(sample.image[0, 0, 0]) for sample in found] == [0, 255]
    assert found[1].image.shape == (3, 3, 2) and found[1].objects == ("lamp",)
    with pytest.raises(FileNotFoundError, match=r"no picture c\.jpg"):
        CaptionedPictures([CaptionEntry("c.jpg", (("no",),))], [tmp_path])[0]
    (tmp_path / "a.jpg").write_bytes(b"no picture")
    with pytest.raises(DataError, match="damaged"):
        found[0]


def test_features_in_place_of_pictures(tmp_path):
    np.savez(tmp_path / "a.npz", x=np.arange(8, dtype=np.float32).reshape(4, 2))
    found = CaptionedPictures([CaptionEntry("deep/a.jpg", (("dark",),))], features=tmp_path)[0]
    assert found.features.dtype == torch.float16 and found.features[1, 0].tolist() == [4, 5]
    np.savez(tmp_path / "b.npz", x=np.full((4, 2), 1e9))
    with pytest.raises(DataError, match="beyond half precision"):
        CaptionedPictures([CaptionEntry("b.jpg", (("dark",),))], features=tmp_path)[0]
    with pytest.raises(FileNotFoundError, match="omegamax features"):
        CaptionedPictures([CaptionEntry("c.jpg", (("dark",),))], features=tmp_path)[0]
    with pytest.raises(ValueError, match="either pictures or features, got both"):
        CaptionedPictures([], [tmp_path], tmp_path)
