"""Features of one more picture: those that the folder would have."""

import json

import numpy as np
import pytest
import torch
from PIL import Image

from omegamax.data import DataError
from omegamax.data.pictures import read_picture
from omegamax.data.vqa2 import read_grid
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.tasks.features import FolderFeatures, extract, find_pictures, load_backbone


@pytest.fixture
def made(tmp_path):
    torch.manual_seed(0)
    save_grid_cnn(GridCNN(6, (4, 4)), tmp_path / "cnn.safetensors")
    draws = np.random.default_rng(0)
    (tmp_path / "pictures").mkdir()
    for name in "ab":
        Image.fromarray(draws.integers(0, 256, (30, 40, 3), dtype=np.uint8)).save(tmp_path / "pictures" / f"{name}.png")
    return tmp_path


@pytest.mark.parametrize("channels", [None, 3])
def test_picture_has_the_features_of_the_folder(made, channels):
    backbone = load_backbone(f"gridcnn:{made / 'cnn.safetensors'}", normalise="half")
    extract(backbone, find_pictures([made / "pictures"]), made / "out", size=(32, 48), grid=(2, 2), channels=channels)
    found = FolderFeatures(made / "out")(read_picture(made / "pictures" / "b.png"))
    torch.testing.assert_close(found, read_grid(made / "out" / "b.npz"), rtol=1e-5, atol=1e-6)


def test_folder_that_cannot_be_followed_is_refused(made):
    with pytest.raises(DataError, match=r"no features\.json"):
        FolderFeatures(made)
    backbone = load_backbone(f"gridcnn:{made / 'cnn.safetensors'}")
    extract(backbone, find_pictures([made / "pictures"]), made / "out", size=(32, 32))
    save_grid_cnn(GridCNN(6, (4, 4)), made / "cnn.safetensors")
    with pytest.raises(DataError, match="made with other weights"):
        FolderFeatures(made / "out")
    path = made / "out" / "features.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "backbone": "python:os:getcwd"}))
    with pytest.raises(DataError, match="code that is not run"):
        FolderFeatures(made / "out")
