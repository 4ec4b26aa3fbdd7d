"""``omegamax vqa pretrain``: a network that names cells, for others to start from."""

import contextlib
import io
import re

import pytest
import torch
from tasks.vqa.networks import scenes

from omegamax.cli.main import main
from omegamax.data import DataError
from omegamax.models.grid_cnn_file import grid_cnn_settings, load_grid_cnn
from omegamax.models.mcan import MCANConfig
from omegamax.tasks.vqa import VQATask

SIZES = ["--dim", "24", "--grid", "6", "6", "--image-size", "48", "--accelerator", "cpu"]


def pretrain(*arguments, out):
    return main(["vqa", "pretrain", *SIZES, *map(str, arguments), "--out", str(out)])


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """The file of a network after 90 steps, and what was printed."""
    out, shown = tmp_path_factory.mktemp("pretrain") / "new" / "cnn.safetensors", io.StringIO()
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with contextlib.redirect_stdout(shown):
        assert pretrain("--samples", 384, "--steps", 90, out=out) == 0
    torch.set_num_threads(before)
    return out, shown.getvalue()


def test_cells_are_named_better_than_by_chance(made):
    """Of eight colours, on pictures that it has not seen; shapes take longer."""
    out, shown = made
    ((shape, colour),) = re.findall(r"cells named rightly: shape (\S+), colour (\S+)\n", shown)
    assert float(colour) > 0.25 and 0 < float(shape) < 1
    assert f"--model.cnn {out}" in shown


def test_file_is_what_a_network_starts_from(made):
    out, _ = made
    settings = grid_cnn_settings(out)
    assert (settings["dim"], settings["grid"], settings["size"]) == (24, [6, 6], [48, 48])
    vocabulary, network = scenes().vocabulary, MCANConfig.small(image_dim=24, grid=(6, 6))
    task = VQATask(vocabulary, network, cnn=str(out), freeze_cnn=True)
    wanted = load_grid_cnn(out).state_dict()
    assert all(torch.equal(value, wanted[name]) for name, value in task.model.cnn.state_dict().items())
    assert not any(p.requires_grad for p in task.model.cnn.parameters())
    with pytest.raises(DataError, match=r"cnn.safetensors holds a GridCNN of other sizes"):
        VQATask(vocabulary, network.replace(image_dim=32), cnn=str(out))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--steps", "0"], "--steps: must be an integer, at least 1"),
        (["--grid", "4", "none"], "--grid: must be an integer, at least 1, got none"),
        (["--seed", "-1"], "--seed: must be an integer, at least 0"),
        (["--samples", "10"], "--samples: must be an integer, at least 64"),
    ],
)
def test_numbers_that_make_no_sense(tmp_path, capsys, arguments, message):
    with pytest.raises(SystemExit) as exit:
        pretrain(*arguments, out=tmp_path / "cnn.safetensors")
    assert exit.value.code == 2 and message in capsys.readouterr().err


def test_what_cannot_be_done_is_said_before_training(tmp_path, capsys):
    assert pretrain("--steps", 1, out=tmp_path / "cnn.pth") == 2
    assert "must end in .safetensors" in capsys.readouterr().err
    assert pretrain("--image-size", 3, out=tmp_path / "cnn.safetensors") == 2
    assert "image_size" in capsys.readouterr().err
    assert pretrain("--accelerator", "abacus", "--samples", 64, out=tmp_path / "cnn.safetensors") == 2
    assert "abacus" in capsys.readouterr().err
