"""Networks that look at regions with boxes: training from files, validation against maps, comparison, pictures."""

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import curve
from tests.data.test_vqa2 import save_map, write
from tests.tasks.vqa.networks import trained
from tests.tasks.vqa.networks import write as write_run
from tests.tasks.vqa.test_sets import vqa2_arguments

from omegamax.cli.main import main
from omegamax.cli.vqa.application import VQA
from omegamax.data import Sample, pool_boxes, spread_boxes
from omegamax.data.pictures import decode
from omegamax.data.vqa2 import read_results
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.vqa import VQA2Data
from omegamax.tasks.vqa.explain import explain
from omegamax.tasks.vqa.photographs import blank
from omegamax.tasks.vqa.report import Comparison

pytestmark = pytest.mark.usefixtures("one_thread")

COUNTS = {9: 3, 25: 5}  # regions of the pictures


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """VQA-v2 with a file of regions for each picture of 80 x 40 pixels; photographs of validation; a human map."""
    folder = tmp_path_factory.mktemp("vqa2")
    for name in ("regions", "val2014", "hat"):
        (folder / name).mkdir()
    draw = np.random.default_rng(0)
    for subset in ("train2014", "val2014", "test-dev2015"):
        write(folder, subset)
        for number, count in COUNTS.items():
            first = draw.uniform(0, (40, 20), (count, 2))
            bbox = np.concatenate([first, first + draw.uniform(4, (40, 20), (count, 2))], 1)
            name = f"COCO_{subset.replace('-dev', '')}_{number:012d}"
            x = draw.normal(size=(8, count)).astype(np.float32)
            np.savez(folder / "regions" / f"{name}.npz", x=x, bbox=bbox, image_w=80, image_h=40)
    for number in COUNTS:
        Image.new("RGB", (80, 40), (90, 160, 40)).save(folder / "val2014" / f"COCO_val2014_{number:012d}.jpg")
    save_map(folder / "hat" / "9001_1.png", [[0, 255]])
    return folder


def arguments(out, folder, *more):
    return vqa2_arguments(out, folder, "regions", "--model.network.output.padding=false", *more)


@pytest.mark.parametrize("keep", ["true", "false"])
@pytest.mark.parametrize("output", ["sparsemax", "continuous_softmax"])
def test_network_learns_from_regions(tmp_path, folder, output, keep):
    more = (f"--model.network.output.kind={output}", f"--data.keep={keep}", f"--data.human={folder / 'hat'}")
    given = arguments(tmp_path, folder, *more, "--trainer.max_steps=2")
    assert VQA.run_stage("fit", given) == 0
    assert 0 <= curve(tmp_path)[-1]["val_divergence"] <= 1
    assert VQA.run_stage("predict", given) == 0 and len(read_results(tmp_path / "answers.json")) == 3


def test_boxes_matter_to_a_density_and_not_to_weights(folder):
    data = VQA2Data(str(folder), features=str(folder / "regions"), least=1, batch_size=3)
    (batch,) = data.val_dataloader()
    assert batch["boxes"].shape == (3, 5, 4) and batch["feature_mask"].sum(1).tolist() == [3, 3, 5]
    moved = {**batch, "boxes": batch["boxes"] / 2}
    for kind, same in (("softmax", True), ("continuous_sparsemax", False)):
        output = OutputConfig(kind, padding=False)
        task = trained(kind, data, pixels=False, image_dim=8, output=output)
        with torch.no_grad():
            assert torch.equal(task(batch).logits, task(moved).logits) == same
            far = torch.where(batch["feature_mask"][..., None], batch["boxes"], torch.nan)
            torch.testing.assert_close(task({**batch, "boxes": far}).logits, task(batch).logits)


@pytest.mark.parametrize(
    "more, said",
    [
        (["--model.network.output.kind=tvmax"], "tvmax needs cells with neighbours, got boxes"),
        (
            ["--model.network.output.kind=continuous_softmax", "--model.network.output.padding=true"],
            "boxes leave no grid to pad, got padding=True; give padding=False",
        ),
    ],
)
def test_attention_that_boxes_cannot_have_is_named(tmp_path, folder, capsys, more, said):
    assert VQA.run_stage("fit", arguments(tmp_path, folder, *more)) == 2
    assert capsys.readouterr().err.strip().splitlines()[-1] == f"omegamax vqa fit: error: OutputAttention: {said}"


def test_wrong_box_ends_the_command_with_its_file(tmp_path, folder, capsys):
    path = tmp_path / "COCO_train2014_000000000009.npz"
    np.savez(path, x=np.ones((8, 1), np.float32), bbox=[[3, 3, 2, 9]], image_w=80, image_h=40)
    given = [f"--data.features={tmp_path}" if "features" in each else each for each in arguments(tmp_path, folder)]
    assert VQA.run_stage("fit", given) == 2
    shown = capsys.readouterr().err.strip().splitlines()[-1]
    assert str(path) in shown and "bbox[0] = [3.0, 3.0, 2.0, 9.0] must have x1 < x2 and y1 < y2" in shown


def test_weights_of_boxes_are_drawn_where_they_are(folder):
    data = VQA2Data(str(folder), features=str(folder / "regions"), least=1)
    sample = data.read("val")[2]
    said = explain(trained("softmax", data, pixels=False, image_dim=8), sample)
    assert said.weights.shape == (1, 5) and torch.equal(said.boxes, sample.boxes)
    assert torch.equal(said.look[0], spread_boxes(said.weights[0], sample.boxes, said.look[0].shape))
    assert said.look.sum().item() == pytest.approx(1, abs=1e-5)
    x1, y1, x2, y2 = (
        torch.stack([sample.boxes.amin(0), sample.boxes.amax(0)])[[0, 0, 1, 1], [0, 1, 2, 3]] * 96
    ).tolist()
    outside = torch.ones(96, 96, dtype=torch.bool)
    outside[int(y1) : int(y2) + 1, int(x1) : int(x2) + 1] = False
    assert bool(outside.any()) and not said.look[0][outside].any()


def test_comparison_and_explanation(tmp_path, folder, capsys):
    data = VQA2Data(str(folder), features=str(folder / "regions"), least=1)
    runs = []
    for kind in ("softmax", "continuous_softmax"):
        output = OutputConfig(kind, padding=False)
        runs.append(write_run(trained(kind, data, pixels=False, image_dim=8, output=output), tmp_path / kind))
    quick = ["--split", "val", "--examples", "3", "--themed", "0", "--rounds", "0", "--human", folder / "hat"]
    assert main(["vqa", "compare", *map(str, [*runs, *quick]), "--out", str(tmp_path / "out")]) == 0
    examples = {each.id: each for each in Comparison.load(tmp_path / "out" / "comparison.json").examples}
    assert set(examples) == {"9000", "9001", "25000"} and all(each.note is None for each in examples.values())
    shown = examples["9001"].looks
    for look in shown.values():
        assert 0 <= look.divergence <= 1 and decode(look.picture, "look").shape == (3, 156, 312)
    file = folder / "regions" / "COCO_val2014_000000000009.npz"
    ask = ["vqa", "explain", str(file), "how many cups?", "--checkpoint", *map(str, runs)]
    assert main([*ask, "--out", str(tmp_path / "where.png")]) == 0
    assert decode((tmp_path / "where.png").read_bytes(), "where").shape[2] > 400
    wanted = pool_boxes(torch.tensor([[0.0, 255.0]]), data.read("val")[1].boxes)
    said = explain(trained("softmax", data, pixels=False, image_dim=8), data.read("val")[1])
    assert shown["softmax"].inside == pytest.approx(float(said.weights[0][wanted > 0].sum()), abs=1e-5)


def test_regions_without_a_picture_are_drawn_on_a_grey_square():
    given = {"features": torch.ones(1, 2, 3), "boxes": torch.tensor([[0.0, 0.0, 0.5, 1.0], [0.2, 0.1, 0.9, 0.4]])}
    assert blank(Sample("is it?", {}, "other", "q", **given)).shape == (3, 224, 224)
