"""Several views of a picture: pieces laid side by side, sizes and mirror images averaged, by hand."""

import json

import pytest
import torch
from tests.tasks.features.test_features import PICTURE, backbone

from omegamax.data import DataError
from omegamax.data.pictures import decode
from omegamax.data.vqa2 import read_grid
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.tasks.features import FolderFeatures, extract, find_pictures, load_backbone
from omegamax.tasks.features.views import Views


def means(images):
    """A backbone with cells of 4 x 4 pixels, which tells left from right: each cell sees the one to its left, too."""
    cells = torch.nn.functional.avg_pool2d(images, 4)
    return torch.cat([cells, cells.roll(1, -1)], 1)


def test_pieces_are_laid_side_by_side():
    images = torch.rand(2, 3, 24, 16)
    found = Views((12, 8), crops=2).see(means, [images])
    assert found.shape == (2, 6, 6, 4)
    for row in range(2):
        for column in range(2):
            piece = images[:, :, 12 * row : 12 * row + 12, 8 * column : 8 * column + 8]
            assert found[:, :, 3 * row : 3 * row + 3, 2 * column : 2 * column + 2].equal(means(piece))


def test_mirror_images_and_sizes_are_averaged():
    images = torch.rand(2, 3, 8, 8)
    both = Views((8, 8), mirror=True).see(means, [images])
    torch.testing.assert_close(both, (means(images) + means(images.flip(-1)).flip(-1)) / 2)
    torch.testing.assert_close(both.flip(-1), Views((8, 8), mirror=True).see(means, [images.flip(-1)]))
    large = torch.rand(2, 3, 16, 16)
    views = Views((8, 8), scales=((16, 16),))
    found = views.see(means, [images, large])
    torch.testing.assert_close(found, (means(images) + torch.nn.functional.avg_pool2d(means(large), 2)) / 2)
    assert views.see(means, [images, large], (1, 1)).shape == (2, 6, 1, 1)
    assert views.sizes == [(8, 8), (16, 16)] and Views((8, 4), crops=3).sizes == [(24, 12)]


def test_views_are_said_and_read():
    views = Views((8, 8), ((16, 24),), 2, True)
    assert Views.of((8, 8), json.loads(json.dumps(views.describe()))) == views
    assert Views.of((8, 8), {}) == Views((8, 8))
    for wrong in ({"crops": 0}, {"crops": 17}, {"scales": ((0, 4),)}):
        with pytest.raises(ValueError, match="Views:"):
            Views((8, 8), **wrong)


def test_features_of_several_views(tmp_path):
    (tmp_path / "a.png").write_bytes(PICTURE)
    done = extract(backbone(), find_pictures([tmp_path / "a.png"]), tmp_path / "out", size=(8, 8), crops=2)
    assert done.settings["grid"] == [4, 4]
    found = read_grid(tmp_path / "out" / "a.npz")
    wanted = torch.nn.functional.avg_pool2d(decode(PICTURE, "a").float() / 255, 4).permute(1, 2, 0)
    torch.testing.assert_close(found[..., :3], wanted, rtol=0, atol=1e-6)
    with pytest.raises(DataError, match=r"made otherwise \(views .*'crops': 2"):
        extract(backbone(), find_pictures([tmp_path / "a.png"]), tmp_path / "out", size=(8, 8), grid=(4, 4))


def test_one_more_picture_has_the_views_of_the_folder(tmp_path):
    torch.manual_seed(0)
    save_grid_cnn(GridCNN(6, (4, 4)), tmp_path / "cnn.safetensors")
    (tmp_path / "a.png").write_bytes(PICTURE)
    net = load_backbone(f"gridcnn:{tmp_path / 'cnn.safetensors'}")
    pictures, out = find_pictures([tmp_path / "a.png"]), tmp_path / "out"
    extract(net, pictures, out, size=(32, 32), scales=[(48, 48)], crops=2, mirror=True)
    found = FolderFeatures(out)(decode(PICTURE, "a"))
    torch.testing.assert_close(found, read_grid(out / "a.npz"), rtol=1e-5, atol=1e-6)
    record = json.loads((out / "features.json").read_text())
    (out / "features.json").write_text(json.dumps({**record, "views": {"crops": 10**9}}))
    with pytest.raises(DataError, match="views that cannot be read"):
        FolderFeatures(out)
    del record["views"]  # as it was written before there were several
    (out / "features.json").write_text(json.dumps(record))
    assert FolderFeatures(out).views == Views((32, 32))
