"""Pictures of folders and archives, found by names without ending."""

import zipfile

import pytest
import torch
from PIL import Image

from omegamax.data import DataError
from omegamax.data.pictures import Pictures, decode, shrink


@pytest.fixture(params=["folder", "archive"])
def pictures(request, tmp_path):
    """Three pictures, two of them in folders within the folder or the archive, and a text."""
    folder = tmp_path / "images"
    for colour, name in enumerate(("image3.png", "val2014/COCO_9.jpg", "other/image3.png")):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4 + colour, 3), (colour, 0, 0)).save(folder / name)
    (folder / "image4.txt").write_text("no picture")
    if request.param == "folder":
        return Pictures(folder)
    with zipfile.ZipFile(tmp_path / "images.zip", "w") as archive:
        for path in sorted(folder.rglob("*.*")):
            archive.write(path, path.relative_to(folder).as_posix())
    return Pictures(tmp_path / "images.zip")


def test_first_name_that_there_is_is_found_whatever_its_ending(pictures):
    assert pictures.find(["image3"]) == "image3.png"
    assert pictures.find(["image5", "COCO_9", "image3"]) == "val2014/COCO_9.jpg"
    assert pictures.find(["val2014/COCO_9"]) == "val2014/COCO_9.jpg"
    assert pictures[pictures.find(["COCO_9"])].shape == (3, 3, 5)


def test_ending_may_be_in_capitals_and_a_whole_name_is_found_before_others(tmp_path):
    for name in ("a.JPG", "b.jpg", "b.png"):
        Image.new("RGB", (4, 3)).save(tmp_path / name)
    assert Pictures(tmp_path).find(["a"]) == Pictures(tmp_path).find(["a.JPG"]) == "a.JPG"
    assert [Pictures(tmp_path).find([name]) for name in ("b", "b.png")] == ["b.jpg", "b.png"]


def test_what_is_no_picture_or_not_there_is_not_found(pictures):
    assert pictures.find(["image4", "image", "COCO"]) is None and pictures.find([]) is None


def test_name_that_leads_outside_is_refused(pictures):
    with pytest.raises(DataError, match="a name must be that of a file inside"):
        pictures.find(["../images/image3"])


def test_shrinking_keeps_proportions_and_enlarges_nothing():
    image = torch.zeros(3, 2, 900, dtype=torch.uint8)
    assert shrink(image, 900) is image and shrink(image, 90).shape == (3, 1, 90)
    assert shrink(torch.zeros(3, 600, 800, dtype=torch.uint8), 400).shape == (3, 300, 400)


def test_of_a_file_that_is_no_picture_no_address_in_memory_is_told():
    with pytest.raises(DataError, match=r"^a\.jpg is damaged or not a picture \(its format is not known\); get the"):
        decode(b"a text", "a.jpg")
