"""Features of pictures: files that the readers of VQA-v2 take, written once, and never mixed."""

import io
import json
import zipfile

import numpy as np
import pytest
import torch
from torch import nn

from omegamax.data import DataError
from omegamax.data.skip import BrokenSampleWarning
from omegamax.data.vqa2 import GridFeatures, read_grid
from omegamax.tasks.features.backbones import BackboneError, load_backbone
from omegamax.tasks.features.extract import extract, find_pictures

pytest.importorskip("PIL", reason="reads pictures, for which pillow is not installed")


def means():
    """The colours of patches of 4 pixels, and their negatives."""
    layer = nn.Conv2d(3, 6, 4, 4, bias=False)
    with torch.no_grad():
        eye = torch.eye(3)[:, :, None, None].expand(3, 3, 4, 4) / 16
        layer.weight.copy_(torch.cat([eye, -eye]))
    return layer


def loud():
    """Numbers that half precision cannot hold."""
    return nn.Sequential(means(), nn.LeakyReLU(1e6))


def picky():
    """Takes pictures of one size."""

    class Picky(nn.Module):
        def forward(self, x):
            assert x.shape[2:] == (8, 8), "Wrong image height!"
            return x.repeat(1, 2, 1, 1)

    return Picky()


def backbone(factory="means"):
    return load_backbone(f"python:{__name__}:{factory}", normalise="none")


def png(colours):
    """A picture of squares, 8 pixels wide, of these colours."""
    from PIL import Image

    pixels = torch.tensor(colours, dtype=torch.uint8).repeat_interleave(8, 0).repeat_interleave(8, 1)
    file = io.BytesIO()
    Image.fromarray(pixels.numpy()).save(file, "PNG")
    return file.getvalue()


RED, GREEN = [255, 0, 0], [0, 51, 0]
PICTURE = png([[RED, GREEN], [GREEN, GREEN]])


@pytest.fixture
def folder(tmp_path):
    source = tmp_path / "pictures"
    (source / "train2014").mkdir(parents=True)
    (source / "train2014" / "COCO_train2014_000000000009.png").write_bytes(PICTURE)
    (source / "12.png").write_bytes(png([[GREEN, RED]]))
    (source / "notes.txt").write_text("no picture")
    (source / "._12.png").write_bytes(b"left by a file manager")
    return source


def test_features_are_found_and_read_as_those_of_vqa(folder, tmp_path):
    out = tmp_path / "out"
    done = extract(backbone(), find_pictures([folder]), out, size=(16, 16), grid=(2, 2))
    assert (done.written, done.kept, done.broken) == (2, 0, {})
    found = GridFeatures(out, channels=6).read(9, "train2014")
    wanted = torch.tensor([[RED, GREEN], [GREEN, GREEN]]) / 255
    torch.testing.assert_close(found, torch.cat([wanted, -wanted], -1), rtol=0, atol=1e-6)
    settings = json.loads((out / "features.json").read_text())
    assert settings["size"] == [16, 16] and settings["grid"] == [2, 2] and settings["dim"] == 6
    assert settings["mean"] == [0, 0, 0] and settings["std"] == [1, 1, 1] and settings["backbone"].endswith(":means")
    assert sorted(path.name for path in out.rglob("*") if path.is_file()) == [
        "12.npz", "COCO_train2014_000000000009.npz", "features.json",
    ]  # fmt: skip


def test_map_keeps_its_cells_and_precision_can_be_half(folder, tmp_path):
    extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(8, 16), format="pth", dtype="float16")
    path = tmp_path / "out" / "12.pth"
    stored = torch.load(path, weights_only=True)
    assert stored.shape == (1, 6, 2, 4) and stored.dtype == torch.float16
    torch.testing.assert_close(read_grid(path)[1, 2:, 0], torch.ones(2))
    assert path.stat().st_size < 3000  # its own numbers, not those of the batch


def test_size_is_the_backbones_own_or_448(folder, tmp_path):
    chosen = backbone()
    assert extract(chosen, find_pictures([folder / "12.png"]), tmp_path / "a").settings["size"] == [448, 448]
    chosen.size = (8, 8)
    assert extract(chosen, find_pictures([folder / "12.png"]), tmp_path / "b").settings["grid"] == [2, 2]


def test_zip_and_files_give_the_same_features(folder, tmp_path):
    with zipfile.ZipFile(tmp_path / "pictures.zip", "w") as archive:
        archive.write(folder / "12.png", "12.png")
        archive.writestr("__MACOSX/._12.png", b"left by a file manager")
    for source, out in [(tmp_path / "pictures.zip", "a"), (folder / "12.png", "b")]:
        assert extract(backbone(), find_pictures([source]), tmp_path / out, size=(16, 16)).written == 1
    assert (tmp_path / "a" / "12.npz").read_bytes() == (tmp_path / "b" / "12.npz").read_bytes()


def test_processes_read_the_same(folder, tmp_path):
    for workers, out in [(0, "a"), (1, "b")]:
        extract(backbone(), find_pictures([folder]), tmp_path / out, size=(16, 16), workers=workers)
    assert (tmp_path / "a" / "12.npz").read_bytes() == (tmp_path / "b" / "12.npz").read_bytes()


def test_what_is_there_is_kept_unless_it_is_to_be_written_again(folder, tmp_path):
    out, pictures = tmp_path / "out", find_pictures([folder])
    extract(backbone(), pictures, out, size=(16, 16))
    before = (out / "12.npz").read_bytes()
    (out / "12.npz").write_bytes(b"mark")
    (out / "train2014" / "COCO_train2014_000000000009.npz").unlink()
    done = extract(backbone(), pictures, out, size=(16, 16))
    assert (done.written, done.kept) == (1, 1) and (out / "12.npz").read_bytes() == b"mark"
    done = extract(backbone(), pictures, out, size=(16, 16), overwrite=True)
    assert (done.written, done.kept) == (2, 0) and (out / "12.npz").read_bytes() == before


def test_run_that_was_stopped_leaves_no_half_file(folder, tmp_path, monkeypatch):
    class Stop(Exception):
        pass

    def save(file, **arrays):
        file.write(b"half")
        raise Stop

    monkeypatch.setattr(np, "savez", save)
    with pytest.raises(Stop):
        extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(16, 16))
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["features.json"]
    monkeypatch.undo()
    assert extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(16, 16)).written == 2


@pytest.mark.parametrize(
    "other, message",
    [
        ({"size": (32, 32)}, r"size \[16, 16\], now \[32, 32\]"),
        ({"grid": (2, 2)}, r"grid \[4, 4\], now \[2, 2\]"),
        ({"dtype": "float16"}, "dtype 'float32', now 'float16'"),
        ({"overwrite": True, "channels": 2}, "dim 6, now 2"),
    ],
)
def test_other_settings_in_the_same_folder_are_refused(other, message, folder, tmp_path):
    pictures = find_pictures([folder])
    extract(backbone(), pictures, tmp_path / "out", size=(16, 16))
    with pytest.raises(DataError, match=rf"holds features made otherwise \(.*{message}.*\); give another folder"):
        extract(backbone(), pictures, tmp_path / "out", **{"size": (16, 16), **other})


def test_other_weights_in_the_same_folder_are_refused(folder, tmp_path):
    extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(16, 16))
    other = backbone()
    other.map.network.weight.mul_(2)
    with pytest.raises(DataError, match="weights '"):
        extract(other, find_pictures([folder]), tmp_path / "out", size=(16, 16))


def test_files_of_unknown_origin_are_not_mixed_in(folder, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "12.npz").write_bytes(b"theirs")
    with pytest.raises(DataError, match=r"12.npz is there, but no features.json"):
        extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(16, 16))


def test_file_that_is_no_picture_is_named_or_passed_over(folder, tmp_path):
    (folder / "13.png").write_bytes(PICTURE[:40])
    (folder / "14.jpg").write_bytes(b"not a picture")
    pictures = find_pictures([folder])
    with pytest.raises(DataError, match=r"13.png is damaged or not a picture .*pass over"):
        extract(backbone(), pictures, tmp_path / "out", size=(16, 16))
    with pytest.warns(BrokenSampleWarning) as caught:
        done = extract(backbone(), pictures, tmp_path / "out", size=(16, 16), skip_broken=True, batch_size=1)
    assert [str(w.message).partition(":")[0] for w in caught] == [
        "a picture is passed over (1 so far, of 4)",
        "a picture is passed over (2 so far, of 4)",
    ]
    assert sorted(done.broken) == ["13", "14"] and done.written == 2


def test_channels_are_the_principal_components(folder, tmp_path):
    pytest.importorskip("safetensors")
    pictures = find_pictures([folder])
    (folder / "15.png").write_bytes(b"not a picture")
    options = {"size": (16, 16), "channels": 1, "skip_broken": True}
    with pytest.warns(BrokenSampleWarning) as caught:
        done = extract(backbone(), find_pictures([folder]), tmp_path / "out", **options)
    assert len(caught) == 1  # though it was tried twice
    assert done.settings["dim"] == 1 and done.settings["principal_of"] == 6
    extract(backbone(), pictures, tmp_path / "all", size=(16, 16))
    whole, one = (read_grid(tmp_path / name / "12.npz").flatten(0, 1) for name in ("all", "out"))
    # Red and green lie on a line: distances along it are those of all channels.
    torch.testing.assert_close(torch.cdist(one, one), torch.cdist(whole, whole), atol=1e-3, rtol=1e-3)
    before = (tmp_path / "out" / "projection.safetensors").read_bytes()
    (tmp_path / "out" / "12.npz").unlink()
    assert extract(backbone(), pictures[:1], tmp_path / "out", size=(16, 16), channels=1).written == 1
    assert (tmp_path / "out" / "projection.safetensors").read_bytes() == before
    with pytest.raises(ValueError, match="has 6 channels; 7 of them"):
        extract(backbone(), pictures, tmp_path / "more", size=(16, 16), channels=7)


def test_numbers_too_large_for_half_precision_are_refused(folder, tmp_path):
    pictures = find_pictures([folder])
    with pytest.raises(DataError, match="take dtype float32"):
        extract(backbone("loud"), pictures, tmp_path / "out", size=(16, 16), dtype="float16")
    assert extract(backbone("loud"), pictures, tmp_path / "whole", size=(16, 16)).written == 2


def test_grid_that_is_no_square_needs_the_other_format(folder, tmp_path):
    with pytest.raises(ValueError, match="2 x 4 needs the format pth"):
        extract(backbone(), find_pictures([folder]), tmp_path / "out", size=(8, 16))
    assert not (tmp_path / "out").exists()


def test_size_that_the_backbone_refuses_is_an_error(folder, tmp_path):
    with pytest.raises(
        BackboneError, match=r"picky cannot take pictures of 16 x 16: Wrong image height!; give the size"
    ):
        extract(backbone("picky"), find_pictures([folder]), tmp_path / "out", size=(16, 16))


def test_sources_that_hold_no_pictures_are_errors(folder, tmp_path):
    with pytest.raises(FileNotFoundError, match="none does not exist"):
        find_pictures([tmp_path / "none"])
    (tmp_path / "empty").mkdir()
    with pytest.raises(DataError, match=r"empty has no pictures \(\.jpg"):
        find_pictures([tmp_path / "empty"])
    (tmp_path / "broken.zip").write_bytes(b"PK nonsense")
    with pytest.raises(DataError, match=r"broken.zip is damaged or no zip archive"):
        find_pictures([tmp_path / "broken.zip"])
    with pytest.raises(FileNotFoundError, match=r"none.zip does not exist"):
        find_pictures([tmp_path / "none.zip"])


def test_two_pictures_of_one_name_are_refused(folder):
    (folder / "12.jpg").write_bytes(PICTURE)
    with pytest.raises(DataError, match=r"12.jpg and .*12.png would have features of one name"):
        find_pictures([folder])


def test_archive_cannot_write_outside_the_folder(tmp_path):
    with zipfile.ZipFile(tmp_path / "trap.zip", "w") as archive:
        archive.writestr("../../trap.png", PICTURE)
    with pytest.raises(DataError, match=r"\.\./\.\./trap.png, which would be written outside"):
        find_pictures([tmp_path / "trap.zip"])
