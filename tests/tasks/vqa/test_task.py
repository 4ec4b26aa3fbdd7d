"""The task: every kind of attention, every loss, frozen networks, hidden images."""

import warnings

import lightning as L
import pytest
import torch

from omegamax.data import DataError, Vocabulary
from omegamax.models import GridCNN
from omegamax.models.grid_cnn_file import save_grid_cnn
from omegamax.models.mcan import LOSSES, MCANConfig, OutputConfig
from omegamax.models.mcan.config import KINDS
from omegamax.tasks.callbacks import Curve
from omegamax.tasks.quiet import quiet
from omegamax.tasks.vqa import Rate, ScenesData, VQATask, write_safetensors

pytestmark = [
    pytest.mark.usefixtures("one_thread"),
    # Here it does not matter what the network sees.
    pytest.mark.filterwarnings("ignore:VQATask. freeze_cnn leaves a CNN of random weights:RuntimeWarning"),
]
SIZES = dict.fromkeys(("word_dim", "image_dim", "hidden_dim", "feedforward_dim", "flat_dim", "fused_dim"), 8)
SETTINGS = {"samples": (8, 6, 4), "image_size": 32, "grid": (3, 3), "batch_size": 4}
FAST = Rate(0.01, warmup=0, fall="constant")


def network(**changes):
    return MCANConfig(heads=2, layers=1, dropout=0.0, pixels=True, grid=(3, 3), **SIZES, **changes)


@pytest.fixture(scope="module")
def images():
    """The batches of a set, made once."""
    data = ScenesData(**SETTINGS)
    for name in ("train", "val", "test"):
        data.split(name)
    return data


def fresh(images):
    """The same set, without what a frozen network made of it."""
    data = ScenesData(**SETTINGS)
    data._splits = dict(images._splits)
    return data


def task_of(data, *, seed=0, rate=FAST, output=None, **settings):
    torch.manual_seed(seed)
    config = network() if output is None else network(output=output)
    return VQATask(data.vocabulary, config, rate=rate, **settings)


def trained(task, data, folder, steps=4):
    curve = Curve()
    trainer = L.Trainer(
        max_steps=steps,
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        default_root_dir=folder,
        callbacks=[curve],
    )
    with quiet():
        trainer.fit(task, datamodule=data)
    return curve.points


@pytest.mark.parametrize("freeze", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_attention_trains_and_is_measured(images, tmp_path, kind, freeze):
    data = fresh(images)
    task = task_of(data, output=OutputConfig(kind, k=4, functions=3), freeze_cnn=freeze)
    before = {name: p.clone() for name, p in task.named_parameters()}
    points = trained(task, data, tmp_path)
    assert [point["step"] for point in points] == [2, 4] and points[1]["train_loss"] < points[0]["train_loss"]
    for point in points:
        assert all(value == value and abs(value) < float("inf") for value in point.values())
        assert 0 <= point["val_divergence"] <= 1 and 0 <= point["val_inside"] <= 1 and 0 <= point["val_zero"] <= 1
    changed = {name for name, p in task.named_parameters() if not torch.equal(p, before[name])}
    cnn = {name for name in before if name.startswith("model.cnn.")}
    assert changed.isdisjoint(cnn) if freeze else cnn <= changed
    assert {name for name in before if name.startswith(("model.question.lstm", "model.classifier.answer"))} <= changed
    assert {name for name in before if name.startswith("model.output.score") and "weight" in name} <= changed


def test_number_of_parameters_does_not_depend_on_the_attention(images):
    tasks = [task_of(images, output=OutputConfig(kind)) for kind in KINDS]
    assert len({task.parameters_learnt for task in tasks}) == 1
    frozen = task_of(images, freeze_cnn=True)
    assert frozen.parameters_learnt == tasks[0].parameters_learnt - sum(
        p.numel() for p in frozen.model.cnn.parameters()
    )


@pytest.mark.parametrize("kind", ["entmax", "tvmax", "continuous_entmax"])
def test_learnable_parameter_of_the_attention_is_learnt(images, tmp_path, kind):
    data = fresh(images)
    task = task_of(data, output=OutputConfig(kind, learnable=True, functions=3))
    plain = task_of(data, output=OutputConfig(kind, functions=3))
    names = {name for name, _ in task.named_parameters()} - {name for name, _ in plain.named_parameters()}
    assert task.parameters_learnt == plain.parameters_learnt + 1 and len(names) == 1
    (name,) = names
    before = task.get_parameter(name).clone()
    batch = next(iter(data.val_dataloader()))
    task.loss(task(batch).logits, batch["answers"]).backward()
    assert task.get_parameter(name).grad.abs() > 0
    trained(task, data, tmp_path)
    assert not torch.equal(task.get_parameter(name), before)


@pytest.mark.parametrize("loss", LOSSES)
def test_every_loss_is_lowered(images, tmp_path, loss):
    data = fresh(images)
    task = task_of(data, loss=loss)
    points = trained(task, data, tmp_path, steps=6)
    assert points[-1]["train_loss"] < points[0]["train_loss"]
    batch = next(iter(data.test_dataloader()))
    answers = task.eval().predict_step(batch, 0)
    probabilities = task.loss.probabilities(task(batch).logits).max(1)
    assert [entry["answer"] for entry in answers] == [data.vocabulary.answers[i] for i in probabilities.indices]
    assert [entry["probability"] for entry in answers] == probabilities.values.tolist()
    assert [entry["id"] for entry in answers] == batch["id"]


def test_losses_are_means_over_samples(images, tmp_path):
    data = fresh(images)
    task = task_of(data, rate=Rate(1e-30, warmup=0, fall="constant"))  # stays where it is
    (point,) = trained(task, data, tmp_path, steps=2)
    task.eval()
    with torch.no_grad():
        for name, split in (("train_loss", "train"), ("val_loss", "val")):
            samples = data.split(split)
            batch = samples.__getitems__(range(len(samples)))
            assert point[name] == pytest.approx(float(task.loss(task(batch).logits, batch["answers"])), rel=1e-5)


def test_frozen_network_computes_features_once_or_each_time_alike(images, tmp_path):
    once, each = fresh(images), ScenesData(**SETTINGS, keep=False)
    points = [trained(task_of(data, freeze_cnn=True), data, tmp_path) for data in (once, each)]
    assert "features" in once.split("train").batch and "image" not in once.split("train").batch
    for a, b in zip(*points, strict=True):
        assert a == pytest.approx(b, rel=1e-5, abs=1e-6)
    other = task_of(images, seed=1)
    with pytest.raises(ValueError, match="features were made by another network"):
        once.featurise(other.model.cnn)


def test_features_of_a_frozen_network_are_those_of_the_checkpoint(images, tmp_path):
    """Not those of the network as it was before weights were restored."""
    data = fresh(images)
    task = task_of(data, freeze_cnn=True)
    trained(task, data, tmp_path)
    trainer = L.Trainer(
        accelerator="cpu",
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        default_root_dir=tmp_path,
    )
    with quiet():
        trainer.strategy.connect(task)
        trainer.save_checkpoint(tmp_path / "a.ckpt")
        wanted = trainer.validate(task, fresh(images).val_dataloader(), verbose=False)
        again = task_of(images, seed=5, freeze_cnn=True)
        found = trainer.validate(
            again, datamodule=fresh(images), ckpt_path=tmp_path / "a.ckpt", verbose=False, weights_only=True
        )
    assert found[0] == pytest.approx(wanted[0], rel=1e-5)


def test_network_starts_from_a_file(images, tmp_path):
    cnn = GridCNN(8, (3, 3))
    save_grid_cnn(cnn, tmp_path / "cnn.safetensors")
    task = task_of(images, cnn=str(tmp_path / "cnn.safetensors"))
    assert all(torch.equal(a, b) for a, b in zip(task.model.cnn.parameters(), cnn.parameters(), strict=True))
    save_grid_cnn(GridCNN(16, (3, 3)), tmp_path / "other.safetensors")
    with pytest.raises(DataError, match=r"other\.safetensors holds a GridCNN of other sizes than the network's, 8"):
        task_of(images, cnn=str(tmp_path / "other.safetensors"))
    for settings in ({"freeze_cnn": True}, {"cnn": "cnn.safetensors"}):
        with pytest.raises(ValueError, match="need a network with pixels=True"):
            VQATask(images.vocabulary, network().replace(pixels=False), **settings)


def test_hidden_image_makes_no_difference(images, tmp_path):
    data = fresh(images)
    task = task_of(data, blind=True)
    points = trained(task, data, tmp_path)
    assert "val_accuracy" in points[0] and not {"val_divergence", "val_inside", "val_zero"} & points[0].keys()
    batch = next(iter(data.test_dataloader()))
    task.eval()
    with torch.no_grad():
        other = {**batch, "image": torch.rand_like(batch["image"])}
        assert torch.equal(task(batch).logits, task(other).logits)
        seeing = task_of(data)
        assert not torch.equal(seeing(batch).logits, seeing(other).logits)


def test_rate_rises_stays_and_falls():
    paper = Rate(1e-4, warmup=4, fall="steps", milestones=[10, 12], factor=0.2)
    found = [paper.factor_at(epoch) for epoch in range(13)]
    assert found == pytest.approx([0.25, 0.5, 0.75] + [1.0] * 7 + [0.2] * 2 + [0.04])
    cosine = Rate(1.0, warmup=2, fall="cosine", interval="step")
    assert [cosine.factor_at(i, 4) for i in (0, 2, 4, 9)] == pytest.approx([0.5, 0.5, 0.0, 0.0])
    assert Rate(fall="constant", warmup=0).factor_at(99) == 1
    with pytest.raises(ValueError, match="interval must be one of"):
        Rate(interval="day")


def test_rate_reaches_the_optimiser(images, tmp_path):
    data = fresh(images)
    task = task_of(data, rate=Rate(0.1, warmup=4, fall="constant", interval="step"), weight_decay=0.5, betas=(0.5, 0.6))
    rates = []
    task.on_train_batch_start = lambda batch, index: rates.append(task.optimizers().param_groups[0]["lr"])
    trained(task, data, tmp_path, steps=5)
    assert rates == pytest.approx([0.025, 0.05, 0.075, 0.1, 0.1])
    group = task.optimizers().param_groups[0]
    assert group["betas"] == (0.5, 0.6) and group["weight_decay"] == 0.5


# --- Starting from another network


def saved(task, folder):
    path = folder / "start.safetensors"
    write_safetensors(path, task.record, task.model.state_dict())
    return str(path)


@pytest.mark.parametrize("kind", ["tvmax", "continuous_sparsemax", "multimodal"])
def test_a_kind_starts_from_the_weights_of_another(images, tmp_path, kind):
    before = task_of(images, seed=3)
    task = task_of(images, seed=4, output=OutputConfig(kind), start=saved(before, tmp_path))
    assert all(torch.equal(value, task.model.state_dict()[name]) for name, value in before.model.state_dict().items())


@pytest.mark.parametrize("learnt", [False, True])
def test_a_learnt_alpha_is_left_as_it_is(images, tmp_path, learnt):
    alpha = OutputConfig("entmax", alpha=1.25, learnable=True)
    before = task_of(images, seed=3, output=None if learnt else alpha)
    task = task_of(images, seed=4, output=alpha if learnt else None, start=saved(before, tmp_path))
    extra = {*task.model.state_dict()} ^ {*before.model.state_dict()}
    assert extra and all(name.startswith("output.") for name in extra)
    score = "output.score.0.weight"
    assert torch.equal(task.model.state_dict()[score], before.model.state_dict()[score])


def sharp_start(images, folder):
    before = task_of(images, seed=3)
    with torch.no_grad():
        before.model.output.score[-1].weight.mul_(40.0)
    return saved(before, folder)


def test_sharpness_is_matched_on_the_first_batch(images, tmp_path):
    path = sharp_start(images, tmp_path)
    data = fresh(images)
    task = task_of(data, seed=4, output=OutputConfig("tvmax"), start=path)
    twin = task_of(data, seed=4, output=OutputConfig("tvmax"), start=path)
    first = next(iter(fresh(images).train_dataloader()))
    wanted = twin.model.match(first, task_of(images, start=path).model.output)
    assert 0 < wanted < 0.9 and float(task.model.output.score_scale) == 1
    trained(task, data, tmp_path)
    assert float(task.model.output.score_scale) == pytest.approx(wanted, rel=1e-6)
    assert "_source" not in {name.split(".")[0] for name in task.state_dict()}
    # The scale goes with the weights: into a file, and into a network that goes on from it.
    path = saved(task, tmp_path)
    assert float(VQATask.load(path).model.output.score_scale) == pytest.approx(wanted, rel=1e-6)
    again = task_of(data, seed=5, output=OutputConfig("tvmax"), start=path)
    trained(again, fresh(images), tmp_path)
    assert float(again.model.output.score_scale) == pytest.approx(wanted, rel=1e-6)


def test_sharpness_is_left_alone(images, tmp_path):
    """If that is asked for, or the attention is the same, or a checkpoint brings its own scale."""
    path = sharp_start(images, tmp_path)
    for output, match in ((OutputConfig("tvmax"), False), (OutputConfig("softmax"), True)):
        task = task_of(images, output=output, start=path, match=match)
        trained(task, fresh(images), tmp_path, steps=1)
        assert float(task.model.output.score_scale) == 1
    task = task_of(images, output=OutputConfig("tvmax"), start=path)
    task.on_load_checkpoint({"vqa": task.describe()})
    trained(task, fresh(images), tmp_path, steps=1)
    assert float(task.model.output.score_scale) == 1


def test_sharpness_that_cannot_be_matched_says_so(images, tmp_path):
    """One cell at a time is sharper than four can be."""
    before = task_of(images, seed=3, output=OutputConfig("sparsemax"))
    with torch.no_grad():
        before.model.output.score[-1].weight.mul_(1e6)
    path = saved(before, tmp_path)
    task = task_of(images, output=OutputConfig("k_subsets", k=4), start=path)
    with pytest.raises(ValueError, match=r"as sharp as the reference.*give match=False to leave the scores"):
        trained(task, fresh(images), tmp_path, steps=1)
    trained(task_of(images, output=OutputConfig("k_subsets", k=4), start=path, match=False), fresh(images), tmp_path, 1)


def test_start_of_other_words_or_sizes_is_refused(images, tmp_path):
    path = saved(task_of(images), tmp_path)
    with pytest.raises(DataError, match=r"start\.safetensors knows .* trained on the same data"):
        VQATask(Vocabulary(["red"], ["yes"]), network(), start=path)
    with pytest.raises(DataError, match="a network of other sizes"):
        VQATask(images.vocabulary, network().replace(flat_dim=16), start=path)
    with pytest.raises(DataError, match="a network of other sizes"):
        VQATask(images.vocabulary, network().replace(layers=2), start=path)


LOOKS = {
    "heads": OutputConfig("continuous_softmax", functions=3, heads=2),
    "glimpses": OutputConfig("tvmax", glimpses=2),
    "features": OutputConfig("softmax", density_features=True),
    "question": OutputConfig("multimodal", functions=3, components="fixed", max_components=2, source="question"),
    "mixing": OutputConfig("multimodal", functions=3, components="fixed", mixing="sparsemax", combined=True),
}


@pytest.mark.parametrize("name", LOOKS)
def test_other_looks_train_and_come_back_from_a_file(images, tmp_path, name):
    task = task_of(images, output=LOOKS[name])
    points = trained(task, fresh(images), tmp_path)
    assert points[1]["train_loss"] < points[0]["train_loss"]
    again = VQATask.load(saved(task, tmp_path))
    batch = next(iter(fresh(images).test_dataloader()))
    with torch.no_grad():
        assert torch.equal(again(batch).logits, task.eval()(batch).logits)


def test_network_that_predicts_its_density_has_no_sharpness_to_match(images, tmp_path):
    path = sharp_start(images, tmp_path)
    task = task_of(images, output=LOOKS["question"], start=path)
    trained(task, fresh(images), tmp_path, steps=1)
    assert float(task.model.output.score_scale) == 1


@pytest.mark.parametrize("freeze", [False, True])
def test_words_start_from_vectors_of_a_file(images, tmp_path, freeze):
    path = tmp_path / "vectors.txt"
    path.write_text("there 1 2 3 4 5 6 7 8\nred 8 7 6 5 4 3 2 1\n")
    task = task_of(images, word_vectors=str(path), freeze_words=freeze)
    before = task.model.question.embedding.weight.clone()
    assert before[images.vocabulary.encode("red")[0]].tolist() == [8, 7, 6, 5, 4, 3, 2, 1]
    trained(task, fresh(images), tmp_path)
    assert torch.equal(task.model.question.embedding.weight, before) == freeze
    with pytest.raises(ValueError, match="give word_vectors or start, which has an embedding of its own"):
        task_of(images, word_vectors=str(path), start="start.safetensors")
    path.write_text("red 1 2 3\n")
    with pytest.raises(DataError, match="has vectors of size 3, wanted 8"):
        task_of(images, word_vectors=str(path))


def test_random_cnn_that_is_never_trained_is_warned_of(images, tmp_path):
    with pytest.warns(RuntimeWarning, match="leaves a CNN of random weights"):
        trained(task_of(images, freeze_cnn=True), fresh(images), tmp_path)


def test_frozen_cnn_with_weights_of_its_own_is_not_warned_of(images, tmp_path):
    task = task_of(images, freeze_cnn=True)
    task.model.load_state_dict(task_of(images, seed=5).model.state_dict())
    with warnings.catch_warnings():
        warnings.filterwarnings("error", ".*random weights")
        trained(task, fresh(images), tmp_path)
