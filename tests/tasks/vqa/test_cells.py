"""A GridCNN that learns to name what is in each cell."""

import lightning as L
import pytest
import torch

from omegamax.data.scenes import Cells, Scenes
from omegamax.tasks.quiet import quiet
from omegamax.tasks.rate import Rate
from omegamax.tasks.vqa.cells import CellsTask, cells_loader

pytestmark = pytest.mark.usefixtures("one_thread")
SCENES = Scenes(16, image_size=32, shapes=["star", "ring", "bar"], colours=["red", "blue", "green"])


def test_loader_has_all_pictures_with_their_labels():
    loader = cells_loader(SCENES, (4, 4), 6, shuffle=False)
    image, shape, colour = (torch.cat(part) for part in zip(*loader, strict=True))
    cells = Cells(SCENES, (4, 4))
    for i in range(16):
        assert torch.equal(image[i], cells[i]["image"]) and torch.equal(shape[i], cells[i]["shape"])
        assert torch.equal(colour[i], cells[i]["colour"])
    assert len(cells_loader(SCENES, (4, 4), 6)) == 2  # whole batches alone


def test_network_learns_what_it_is_shown(tmp_path):
    torch.manual_seed(0)
    task = CellsTask(16, (4, 4), shapes=3, colours=3, rate=Rate(0.02, warmup=0, fall="cosine", interval="step"))
    train, val = cells_loader(SCENES, (4, 4), 16), cells_loader(SCENES, (4, 4), 16, shuffle=False)
    trainer = L.Trainer(
        max_epochs=150,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        check_val_every_n_epoch=150,
        num_sanity_val_steps=0,
        default_root_dir=tmp_path,
    )
    with quiet():
        trainer.fit(task, train, val)
    reached = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert reached["val_colour"] > 0.8 and reached["val_shape"] > 0.4 and reached["train_loss"] < 1.0
    image, shape, _ = next(iter(val))
    with torch.no_grad():
        right = (task(image.float() / 255)[0].argmax(1) == shape)[shape > 0].float().mean()
    assert reached["val_shape"] == pytest.approx(float(right), abs=1e-6)
