"""The demonstration, from Python: what is trained, and what is left behind."""

import json

import pytest
import torch

from omegamax.data import Ready
from omegamax.models.mcan import OutputConfig
from omegamax.tasks.vqa import VQAData, VQATask, demo, read_checkpoint
from tasks.vqa.small_demo import RECIPE, in_this_process

TRAINED = [demo.START, demo.BLIND, *demo.PARTS]
EVERYONE = [*TRAINED, *demo.UNTRAINED]
pytestmark = pytest.mark.usefixtures("one_thread")


def train(out, seed=0):
    """Train the features and then all networks; what was told."""
    told = []

    def tell(part, done):
        told.append((part, done))

    data = RECIPE.data(seed, workers=0)
    with in_this_process():
        cnn = demo.train_features(RECIPE, data, seed, tell)
        data.featurise(cnn)
        demo.train_all(RECIPE, data, cnn, out, seed, tell)
    return told, data, cnn


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    before = torch.get_num_threads()
    out = tmp_path_factory.mktemp("demo")
    yield out, *train(out)
    torch.set_num_threads(before)


def weights(out, name):
    return read_checkpoint(out / name / "model.safetensors")[1]


def test_all_networks_are_there_and_say_what_they_are(trained):
    out, *_ = trained
    assert sorted(path.name for path in out.iterdir()) == sorted(EVERYONE)
    for name in EVERYONE:
        task = VQATask.load(out / name / "model.safetensors")
        untrained = {each: output for each, (output, _) in demo.UNTRAINED.items()}
        assert task.network.output == {**demo.PARTS, **untrained}.get(name, OutputConfig())
        assert task.blind == (name == demo.BLIND)
        assert VQAData.of(task.data_settings).settings == RECIPE.data(0, 0).settings


def test_curves_have_a_point_for_each_validation(trained):
    out, *_ = trained
    for name in EVERYONE:
        points = json.loads((out / name / "curve.json").read_text())
        assert [point["step"] for point in points] == [2, 4]
        assert all({"train_loss", "val_loss", "val_accuracy"} <= point.keys() for point in points)


def test_all_parts_tell_that_they_are_done(trained):
    _, told, *_ = trained
    done = [part for part, steps in told if steps == 4]
    assert done[:3] == [demo.FEATURES, demo.START, demo.BLIND] and sorted(done[3:]) == sorted(demo.PARTS)


def test_features_are_the_same_for_all_and_stay_as_they_are(trained):
    out, _, _, cnn = trained
    wanted = cnn.state_dict()
    for name in EVERYONE:
        found = weights(out, name)
        assert all(torch.equal(found[f"cnn.{key}"], value) for key, value in wanted.items())


def test_all_kinds_go_their_own_way_from_one_start(trained):
    """Four steps of Adam move no weight by much more than the sum of their rates."""
    out, *_ = trained
    start, blind = weights(out, demo.START), weights(out, demo.BLIND)
    key = max((k for k in start if not k.startswith("cnn.")), key=lambda k: start[k].numel())
    ways = [weights(out, name)[key] for name in demo.PARTS]
    for place, way in enumerate(ways):
        assert 0 < (way - start[key]).abs().max() < 0.02
        assert all(not torch.equal(way, other) for other in ways[:place])
    assert not torch.equal(blind[key], start[key])


def test_test_mca_has_the_weights_of_continuous_softmax_and_mixtures(trained):
    out, *_ = trained
    one, other = weights(out, "continuous_softmax"), weights(out, "test_mca")
    assert one.keys() == other.keys() and all(torch.equal(one[key], other[key]) for key in one)
    task = VQATask.load(out / "test_mca" / "model.safetensors")
    assert task.label == "test-MCA" and task.model.output.density.components == "test"


def test_other_seed_gives_other_pictures():
    one, other = (demo.Recipe().data(seed, 0).read("test")[0] for seed in (0, 1))
    assert not torch.equal(one.image, other.image)


def test_pictures_of_features_are_not_those_of_questions():
    """The features have not seen what the networks learn from, or are measured on."""
    data = RECIPE.data(0, 0)
    seen = {data.scenes(20, seed=1)[i].image.numpy().tobytes() for i in range(20)}
    asked = {data.read(split)[i].image.numpy().tobytes() for split in ("train", "val", "test") for i in range(16)}
    assert not seen & asked


def test_recipe_is_an_easier_part_of_the_embedded_set_with_all_kinds_of_questions():
    data = demo.Recipe().data(0, 0)
    samples = data.read("test")
    assert {samples.ask(i).kind for i in range(100)} == {"yes/no", "number", "other"}
    assert {"one", "several", "odd"} <= {samples.ask(i).region for i in range(100)}


def test_network_that_fails_is_not_passed_over(tmp_path):
    data = RECIPE.data(0, workers=0)
    cnn = demo.CellsTask(64, (4, 4), 5, 4).cnn
    data.featurise(cnn)
    assert isinstance(data.split("train"), Ready)

    def broken(recipe, data, name, *rest):
        raise RuntimeError(f"{name} has no luck")

    with in_this_process() as patch, pytest.raises(RuntimeError, match="start has no luck"):
        patch.setattr(demo, "_train", broken)
        demo.train_all(RECIPE, data, cnn, tmp_path, 0, lambda part, done: None)
