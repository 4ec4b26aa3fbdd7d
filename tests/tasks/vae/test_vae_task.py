"""A network of pictures learns, is measured rightly, and is the same for the same seed."""

from __future__ import annotations

import gzip
import struct

import lightning as L
import pytest
import torch

from omegamax.data import DataError
from omegamax.tasks.vae import CodeUsage, PictureData, VAETask
from omegamax.tasks.vae.data import PictureBatches, black_and_white

pytestmark = pytest.mark.filterwarnings("ignore:.*does not have many workers", "ignore:.*LeafSpec.*deprecated")

KINDS = [
    ("gaussian", 4, 1, 1),
    ("gumbel_softmax", 8, 2, 1),
    ("straight_through", 8, 2, 1),
    ("hard_concrete", 8, 2, 1),
    ("hard_concrete", 1, 4, 2),
    ("gaussian_sparsemax", 8, 2, 1),
    ("gaussian_sparsemax", 1, 4, 4),
    ("mixed_dirichlet", 1, 4, 4),
]


def write(path, array):
    """A file of the idx format."""
    head = bytes([0, 0, 8, array.dim()]) + struct.pack(f">{array.dim()}I", *array.shape)
    with gzip.open(path, "wb") as file:
        file.write(head + array.byte().numpy().tobytes())


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Pictures of 6 x 6 pixels: one of four quarters is bright."""
    path = tmp_path_factory.mktemp("pictures")
    generator = torch.Generator().manual_seed(0)
    for part, count in (("train", 600), ("t10k", 100)):
        labels = torch.randint(0, 4, (count,), generator=generator)
        images = torch.full((count, 6, 6), 20)
        for image, label in zip(images, labels.tolist(), strict=True):
            image[3 * (label // 2) :][:3, 3 * (label % 2) :][:, :3] = 235
        write(path / f"{part}-images-idx3-ubyte.gz", images)
        write(path / f"{part}-labels-idx1-ubyte.gz", labels)
    return path


def trainer(tmp_path, epochs=1):
    return L.Trainer(
        accelerator="cpu",
        default_root_dir=tmp_path,
        max_epochs=epochs,
        num_sanity_val_steps=0,
        log_every_n_steps=1,
        enable_progress_bar=False,
        enable_checkpointing=False,
        enable_model_summary=False,
        logger=False,
    )


def fitted(tmp_path, folder, kind, variables, vertices, draws, epochs, seed=0, **settings):
    L.seed_everything(seed, verbose=False)
    task = VAETask(kind, variables, vertices, pixels=36, hidden=32, layers=1, draws=draws, samples=20, **settings)
    data = PictureData(folder, batch_size=50, held_out=100, seed=seed)
    run = trainer(tmp_path, epochs)
    run.fit(task, data)
    (found,) = run.test(task, data, verbose=False)
    return task, data, found


@pytest.mark.parametrize("case", KINDS, ids=str)
def test_bound_improves_on_that_of_independent_pixels(tmp_path, folder, case):
    # At low temperatures relaxed codes that tell nothing are far from their prior.
    options = {"temperature": 1.0} if case[0] in ("gumbel_softmax", "hard_concrete") else {}
    _, data, found = fitted(tmp_path, folder, *case, epochs=12, rate=1e-2, options=options)
    p = data.brightness.clamp(1e-3, 1 - 1e-3)
    pictures = data.split("test").float()
    apart = (pictures * p.log() + (1 - pictures) * (1 - p).log()).sum((1, 2)).mean().item()
    assert found["test_bound"] > apart + 1.5  # which quarter is bright is worth about five nats
    assert found["test_bound"] == pytest.approx(found["test_reconstruction"] - found["test_divergence"], abs=1e-3)
    assert found["test_weighted"] > found["test_bound"] - 0.2  # two estimates


def test_measures_are_those_of_the_network(tmp_path, folder):
    task, data, found = fitted(tmp_path, folder, "straight_through", 3, 2, 1, epochs=1)
    assert found["test_corner"] == 1 and found["test_zero"] == 0.5 and found["test_nonzeros"] == 1
    pictures = data.split("test").float()
    with torch.no_grad():  # few codes, and all can be listed
        distribution = task.model.encode(pictures)
        codes = torch.cartesian_prod(*[torch.tensor([0.0, 1.0])] * 3)
        points = torch.stack([codes, 1 - codes], -1)[:, None].expand(-1, len(pictures), -1, -1)
        log_q = distribution.log_prob(points).sum(-1)
        fit = task.model._fit(pictures, points)
        bound = (log_q.exp() * (fit - log_q)).sum(0).mean() - 3 * torch.tensor(2.0).log()
        likelihood = (fit.logsumexp(0) - 3 * torch.tensor(2.0).log()).mean()
    assert found["test_bound"] == pytest.approx(bound.item(), abs=0.5)
    assert bound < likelihood
    assert found["test_weighted"] == pytest.approx(likelihood.item(), abs=0.05)


def test_same_seed_gives_the_same_network(tmp_path, folder):
    case = ("gaussian_sparsemax", 4, 2, 1)
    one, two, other = (fitted(tmp_path, folder, *case, epochs=2, seed=seed)[2] for seed in (1, 1, 2))
    assert one == two and one["test_bound"] != other["test_bound"]


def test_weight_of_the_divergence_grows_to_one(tmp_path, folder):
    losses, bounds = [], []

    class Watched(VAETask):
        def forward(self, pictures):
            bound = super().forward(pictures)
            bounds.append([part.mean().item() for part in bound])
            return bound

        def training_step(self, batch, index):
            loss = super().training_step(batch, index)
            losses.append(loss.item())
            return loss

    task = Watched("gaussian", 4, 1, pixels=36, hidden=8, warm_up=0.5)
    trainer(tmp_path, epochs=1).fit(task, PictureData(folder, batch_size=50, held_out=100))
    weights = [(loss + fit) / apart for loss, (_, fit, apart) in zip(losses, bounds, strict=False)]
    assert weights == pytest.approx([0, 0.2, 0.4, 0.6, 0.8, 1, 1, 1, 1, 1], abs=1e-4)


def test_decoder_starts_from_the_mean_picture(tmp_path, folder):
    task = VAETask("gaussian", 4, 1, pixels=36, hidden=8, rate=0.0)
    data = PictureData(folder, batch_size=50, held_out=100)
    trainer(tmp_path).fit(task, data)
    torch.testing.assert_close(task.model.decoder[-1].bias.sigmoid(), data.brightness.flatten())


def test_pictures_are_held_out_and_drawn_by_their_brightness(folder):
    data = PictureData(folder, batch_size=64, held_out=100, seed=3)
    data.setup()
    assert [len(data.split(name)) for name in ("train", "val", "test")] == [500, 100, 100]
    assert torch.equal(data.split("test"), data.split("test"))
    loader = data.train_dataloader()
    first = torch.cat(list(loader))
    assert len(loader) == 8 and set(first.unique().tolist()) == {0.0, 1.0}
    assert first.mean((1, 2)).std() > 0
    torch.testing.assert_close(first.mean(0), data.brightness, atol=0.1, rtol=0)
    assert torch.equal(first, torch.cat(list(loader)))
    loader.set_epoch(1)
    assert not torch.equal(first, torch.cat(list(loader)))
    few = PictureData(folder, held_out=100, train_size=7)
    few.setup()
    assert len(torch.cat(list(few.train_dataloader()))) == 7
    with pytest.raises(DataError, match="600 training pictures, and 600 are to be held out"):
        PictureData(folder, held_out=600).split("train")
    with pytest.raises(ValueError, match="PictureData: batch_size must be an integer"):
        PictureData(folder, batch_size=0)


def test_black_stays_black_and_white_white():
    images = torch.tensor([0, 255], dtype=torch.uint8).expand(1000, 2)
    made = black_and_white(images, torch.Generator().manual_seed(0))
    assert torch.equal(made, images.float() / 255)
    assert [len(batch) for batch in PictureBatches(made.bool(), 600)] == [600, 400]


def test_usage_adds_up_over_batches():
    torch.manual_seed(0)
    code = torch.distributions.Dirichlet(torch.full((3,), 0.3)).sample((40, 2))
    code = torch.where(code < 0.2, 0.0, code)
    whole, parts = CodeUsage(2, 3), CodeUsage(2, 3)
    whole.update(code)
    for part in code.split(7):
        parts.update(part)
    a, b = whole.compute(), parts.compute()
    assert a == b
    face = code > 0
    assert a["faces"] == (len(face[:, 0].unique(dim=0)) + len(face[:, 1].unique(dim=0))) / 2
    assert a["nonzeros"].item() == pytest.approx(face.sum(-1).float().mean().item())
    with pytest.raises(ValueError, match="CodeUsage: vertices must be at most 16"):
        CodeUsage(1, 20)
