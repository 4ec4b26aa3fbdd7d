"""What maps are drawn on: the picture seen, the one that features were made of, or grey with the reason."""

import pytest
import torch
from PIL import Image

from omegamax.data import Sample
from omegamax.tasks.vqa import DaquarData, ScenesData, VQA2Data
from omegamax.tasks.vqa.photographs import Photographs, blank


def sample(*pictures, **given):
    given = given or {"features": torch.zeros(3, 5, 8)}
    return Sample("is it red?", {}, "other", "x", **given, pictures=pictures)


@pytest.fixture
def folder(tmp_path):
    Image.new("RGB", (800, 600), (200, 10, 30)).save(tmp_path / "image3.png")
    (tmp_path / "image4.png").write_bytes(b"no picture")
    return tmp_path


def test_picture_that_features_were_made_of_keeps_its_proportions(folder):
    image, note = Photographs([folder / "not there", folder]).of(sample("image3"), 400)
    assert image.shape == (3, 300, 400) and note is None
    assert image.float().mean((1, 2)).tolist() == [200, 10, 30]


def test_picture_that_was_seen_is_taken_as_it_is(folder):
    seen = torch.rand(3, 9, 9)
    image, note = Photographs([folder]).of(sample("image3", image=seen))
    assert image is seen and note is None


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ((), "features come without a picture: drawn on grey"),
        (("image5", "5"), "no picture image5 was found: drawn on grey"),
        (("image4",), "image4.png is damaged or not a picture"),
    ],
)
def test_what_is_missing_or_damaged_is_grey_and_says_why(folder, names, why):
    image, note = Photographs([folder]).of(sample(*names))
    assert torch.equal(image, blank(sample())) and image.shape == (3, 48, 80) and bool((image == 0.9).all())
    assert why in note and "grey" in note


def test_pictures_are_looked_for_beside_the_set_or_where_it_says(tmp_path):
    for name in ("daquar/images", "vqa2/val2014", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    Image.new("RGB", (8, 6)).save(tmp_path / "daquar" / "images" / "image3.png")
    Image.new("RGB", (9, 6)).save(tmp_path / "vqa2" / "val2014" / "COCO_val2014_000000000009.jpg")
    Image.new("RGB", (7, 6)).save(tmp_path / "elsewhere" / "image3.jpg")
    daquar = [DaquarData(str(tmp_path / "daquar"), pictures=given) for given in (None, str(tmp_path / "elsewhere"))]
    assert [data.photographs.read(["image3"]).shape[2] for data in daquar] == [8, 7]
    vqa2 = VQA2Data(str(tmp_path / "vqa2"), features="grids")
    assert vqa2.photographs.read(["COCO_val2014_000000000009"]).shape[2] == 9
    assert vqa2.photographs.read(["COCO_val2014_000000000010"]) is None
    assert ScenesData().photographs.sources == []
