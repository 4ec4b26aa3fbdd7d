"""Regions with boxes from files as detectors write them: values by hand, padding, masks, and what is refused."""

import re

import numpy as np
import pytest
import torch

from data.test_vqa2 import write
from omegamax.data import VQA2, Collate, DataError, Ready, Sample, Vocabulary, pool, pool_boxes, spread_boxes
from omegamax.data.vqa2 import read_features, read_grid, read_regions

CORNERS = np.array([[0.0, 0.0, 320.0, 240.0], [160.0, 120.0, 640.0, 480.0], [64.0, 48.0, 128.0, 432.0]], np.float32)
SHARES = [[0.0, 0.0, 0.5, 0.5], [0.25, 0.25, 1.0, 1.0], [0.1, 0.1, 0.2, 0.9]]
VOCABULARY = Vocabulary(["is", "it", "red"], ["yes", "no"])


def save(path, **changes):
    """A file of three regions with features 0, 1, ... in a picture of 640 x 480; None leaves an array out."""
    x = np.arange(15, dtype=np.float32).reshape(3, 5)
    arrays = {"x": x, "bbox": CORNERS, "image_w": np.array(640), "image_h": np.array(480), **changes}
    np.savez(path, **{name: value for name, value in arrays.items() if value is not None})
    return path


def sample(count, *, id="a", **rest):
    boxes = torch.tensor(SHARES[:count])
    features = torch.arange(2.0 * count).reshape(1, count, 2) + 1
    return Sample("is it red?", {"yes": 1.0}, "yes/no", id, features=features, boxes=boxes, **rest)


@pytest.mark.parametrize("turned", [False, True])
def test_boxes_are_parts_of_the_sides_of_the_picture(tmp_path, turned):
    x = np.arange(15, dtype=np.float16).reshape(3, 5)
    path = save(tmp_path / "9.npz", x=x.T if turned else x, num_bbox=np.array([3]), image_w=np.array([640.0]))
    features, boxes = read_regions(path, channels=5)
    assert features.tolist() == x.tolist() and features.dtype == boxes.dtype == torch.float32
    torch.testing.assert_close(boxes, torch.tensor(SHARES), rtol=1e-6, atol=1e-7)
    read = read_features(path)
    assert read.features.shape == (1, 3, 5) and torch.equal(read.boxes, boxes)


def test_rounding_outside_the_picture_is_cut_off(tmp_path):
    path = save(tmp_path / "9.npz", bbox=CORNERS + np.array([[-0.4, 0, 0, 0], [0, 0, 0.4, 0.25], [0, 0, 0, 0]]))
    _, boxes = read_regions(path)
    assert boxes[0, 0] == 0 and boxes[1, 2:].tolist() == [1, 1]


def moved(row, column, value):
    corners = CORNERS.copy()
    corners[row, column] = value
    return corners


@pytest.mark.parametrize(
    "changes, said",
    [
        (
            {"bbox": moved(1, 2, 650)},
            r"bbox\[1\] = \[160.0, 120.0, 650.0, 480.0\] lies outside the picture of 640 x 480",
        ),
        ({"bbox": moved(0, 1, -3)}, r"bbox\[0\] = .* lies outside the picture"),
        ({"bbox": moved(2, 3, np.nan)}, r"bbox\[2\] = .* lies outside the picture"),
        ({"bbox": moved(2, 2, 64)}, r"bbox\[2\] = \[64.0, 48.0, 64.0, 432.0\] must have x1 < x2 and y1 < y2"),
        ({"bbox": moved(0, 3, -0.2)}, r"bbox\[0\] = .* must have x1 < x2 and y1 < y2"),
        ({"bbox": CORNERS[:2]}, r"has 2 boxes, and x of shape \(3, 5\) is not of as many regions"),
        ({"bbox": CORNERS[:0]}, r"has no regions: bbox of shape \(0, 4\)"),
        ({"bbox": CORNERS[:, :3]}, r"bbox must be numbers of shape \(L, 4\), got float32 \(3, 3\)"),
        ({"bbox": CORNERS.astype(str)}, r"bbox must be numbers of shape \(L, 4\), got <U"),
        ({"num_bbox": np.array(4)}, "has 3 boxes, but num_bbox says 4"),
        ({"image_w": None}, "must have x, bbox, image_w and image_h; no image_w among x, bbox, image_h"),
        ({"image_w": None, "image_h": None}, "no image_w, image_h among x, bbox;"),
        ({"image_h": np.array(0)}, "image_h must be the size of the picture in pixels, > 0, got 0"),
        ({"image_w": np.array(np.inf)}, "image_w must be the size of the picture in pixels, > 0, got inf"),
        ({"image_w": np.array([640, 480])}, r"image_w must be one number, got int64 \(2,\)"),
        ({"x": np.zeros((3, 3), np.float32)}, r"x of shape \(3, 3\) has as many regions as features"),
        ({"x": np.zeros((3, 5), np.int64)}, r"x must be numbers of shape \(L, D\) or \(D, L\), got int64"),
        ({"x": np.full((3, 5), np.nan, np.float32)}, "has features that are infinite or not numbers"),
        ({"x": np.full((3, 5), 1e300)}, "has features that are infinite or not numbers"),
        ({"x": np.zeros((3, 6), np.float32)}, "has 6 channels, wanted 5"),
    ],
)
def test_bad_file_is_named_with_what_is_wrong(tmp_path, changes, said):
    path = save(tmp_path / "9.npz", **changes)
    with pytest.raises(DataError, match=rf"{re.escape(str(path))}.*{said}"):
        read_features(path, channels=5)


def test_regions_are_not_taken_for_a_grid(tmp_path):
    x = np.zeros((4, 5), np.float32)  # which could be cells of 2 x 2
    path = save(tmp_path / "9.npz", x=x, bbox=np.tile(CORNERS[:1], (4, 1)))
    with pytest.raises(DataError, match=r"9\.npz has regions with boxes \(bbox\), and no grid"):
        read_grid(path)
    np.savez(path, x=x)
    assert read_features(path).boxes is None and read_features(path).features.shape == (2, 2, 5)
    with pytest.raises(FileNotFoundError, match=r"8\.npz does not exist"):
        read_features(tmp_path / "8.npz")
    path.write_bytes(path.read_bytes()[:80])
    with pytest.raises(DataError, match=r"9\.npz is damaged"):
        read_features(path)


def test_dataset_reads_regions_and_collate_pads_them(tmp_path):
    write(tmp_path)
    (tmp_path / "regions").mkdir()
    save(tmp_path / "regions" / "COCO_train2014_000000000009.npz")
    save(tmp_path / "regions" / "25.npz", x=np.ones((5, 1), np.float32), bbox=CORNERS[1:2])
    samples = VQA2(tmp_path, features=tmp_path / "regions")
    vocabulary = Vocabulary.of([question for question, _ in samples.texts()], ["red", "2", "yes"])
    batch = Collate(vocabulary, unknown="drop")([samples[index] for index in range(3)])
    assert batch["features"].shape == (3, 3, 5) and batch["grid"] == (1, 3)
    assert batch["feature_mask"].tolist() == [[True] * 3, [True] * 3, [True, False, False]]
    torch.testing.assert_close(batch["boxes"][:2], torch.tensor([SHARES, SHARES]), rtol=1e-6, atol=1e-7)
    assert batch["boxes"][2].tolist() == [SHARES[1], [0] * 4, [0] * 4]
    assert batch["features"][2].tolist() == [[1] * 5, [0] * 5, [0] * 5]


@pytest.mark.parametrize("chunk", [1, 2, 9])
def test_kept_splits_have_the_same_boxes(chunk):
    samples = [sample(2), sample(1, relevance=torch.ones(2, 2)), sample(3)]
    whole, ready = Collate(VOCABULARY)(samples), Ready.of(samples, Collate(VOCABULARY), chunk=chunk)
    assert whole["boxes"].shape == (3, 3, 4) and whole["boxes"][1, 1:].abs().sum() == 0
    for key in ("features", "feature_mask", "boxes", "relevance", "sizes"):
        assert torch.equal(ready.batch[key], whole[key]), key
    assert torch.equal(ready[1]["boxes"], whole["boxes"][1:2])


def test_grids_and_boxes_do_not_mix():
    grid = Sample("is it red?", {}, "yes/no", "b", features=torch.ones(1, 2, 2))
    with pytest.raises(ValueError, match="Collate: some samples have boxes and others a grid"):
        Collate(VOCABULARY)([grid, sample(2)])
    for samples in ([grid, sample(2)], [sample(2), grid]):
        with pytest.raises(ValueError, match="Ready: some samples have boxes and others a grid"):
            Ready.of(samples, Collate(VOCABULARY), chunk=1)


@pytest.mark.parametrize(
    "features, boxes, said",
    [
        (
            torch.ones(1, 2, 3),
            torch.rand(3, 4),
            r"boxes must be \[L, 4\] for features \[1, L, D\], got shapes \(3, 4\)",
        ),
        (torch.ones(3, 1, 3), torch.rand(3, 4), r"got shapes \(3, 4\) and \(3, 1, 3\)"),
        (torch.ones(1, 1, 3), torch.tensor([[0.0, 0.5, 0.5, 0.5]]), r"boxes\[0\] must have 0 <= x1 < x2 <= 1"),
        (
            torch.ones(1, 1, 3),
            torch.tensor([[0.0, 0.0, 0.5, 5.0]]),
            r"boxes\[0\] must have .* got \[0.0, 0.0, 0.5, 5.0\]",
        ),
        (torch.ones(1, 1, 3), torch.full((1, 4), torch.nan), r"boxes\[0\] must have"),
        (torch.ones(1, 1, 3), torch.zeros(1, 2, 2), r"boxes must be \[L, 4\], got shape"),
    ],
)
def test_sample_refuses_wrong_boxes(features, boxes, said):
    with pytest.raises(ValueError, match=f"sample 'q': .*{said}"):
        Sample("is it?", {}, "other", "q", features=features, boxes=boxes)
    with pytest.raises(TypeError, match=r"boxes must be floating, got dtype torch\.int64"):
        Sample("is it?", {}, "other", "q", features=torch.ones(1, 1, 3), boxes=torch.tensor([[0, 0, 1, 1]]))
    with pytest.raises(ValueError, match=r"boxes must be .* got shapes \(1, 4\) and none"):
        Sample("is it?", {}, "other", "q", image=torch.ones(3, 2, 2), boxes=torch.tensor([[0.0, 0.0, 1.0, 1.0]]))


# --- maps over boxes


def cells_as_boxes(h, w):
    rows, columns = torch.meshgrid(torch.arange(h) / h, torch.arange(w) / w, indexing="ij")
    corners = torch.stack([columns, rows], -1).flatten(0, 1)
    return torch.cat([corners, corners + torch.tensor([1 / w, 1 / h])], -1)


def test_relevance_of_boxes_is_its_mean_inside():
    marked = torch.tensor([[0.0, 8.0], [0.0, 0.0]])
    # Means 8 x 0.25 / 0.25, 8 x 0.5^2 / 0.75^2 and, on the left alone, 0.
    boxes = torch.tensor([[0.5, 0.0, 1.0, 0.5], [0.25, 0.0, 1.0, 0.75], [0.1, 0.1, 0.2, 0.9]])
    wanted = torch.tensor([8.0, 8 * 0.25 / 0.5625, 0.0])
    torch.testing.assert_close(pool_boxes(marked, boxes), wanted / wanted.sum())
    assert not pool_boxes(0 * marked, boxes).any()
    fine = torch.rand(6, 8, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(pool_boxes(fine, cells_as_boxes(3, 4)), pool(fine, (3, 4)).flatten())
    batch = Collate(VOCABULARY)([sample(3, relevance=marked), sample(2)])
    assert batch["relevance"].shape == (2, 1, 3) and not batch["relevance"][1].any()
    # 8 x 0 / 0.25, 8 x 0.5 x 0.25 / 0.5625, 0.
    torch.testing.assert_close(batch["relevance"][0, 0], torch.tensor([0.0, 1.0, 0.0]))


def test_weights_are_spread_over_their_boxes():
    p = torch.rand(3, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    boxes, fine = torch.tensor(SHARES, dtype=torch.float64), 200
    found = spread_boxes(p, boxes, (fine, fine))
    middle = (torch.arange(fine, dtype=torch.float64) + 0.5) / fine
    wanted = torch.zeros(fine, fine, dtype=torch.float64)  # every corner lies on the lines of this grid
    for weight, (x1, y1, x2, y2) in zip(p, boxes, strict=True):
        inside = ((middle > y1) & (middle < y2))[:, None] & ((middle > x1) & (middle < x2))
        wanted += weight * inside / inside.sum()
    torch.testing.assert_close(found, wanted, rtol=1e-9, atol=1e-12)
    torch.testing.assert_close(spread_boxes(p, boxes, (3, 7)).sum(), p.sum(), rtol=1e-12, atol=1e-12)
    cells = torch.rand(12, dtype=torch.float64)
    torch.testing.assert_close(spread_boxes(cells, cells_as_boxes(3, 4), (3, 4)).flatten(), cells, rtol=1e-6, atol=1e-7)
    with pytest.raises(ValueError, match=r"spread_boxes: weights must be \[3\], one for each box, got shape \(2,\)"):
        spread_boxes(p[:2], boxes, (4, 4))
