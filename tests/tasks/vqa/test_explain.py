"""One question put to a trained network, from Python."""

import pytest
import torch

from omegamax.data import Collate, DataError, Sample
from omegamax.data.pictures import resize
from omegamax.densities import Density
from omegamax.tasks.vqa.explain import explain, find_unknown_words
from tasks.vqa.networks import KINDS, scenes, trained

QUESTION = "what colour is the circle?"
pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.fixture(scope="module")
def data():
    return scenes()


@pytest.fixture(scope="module")
def tasks(data):
    return {kind: trained(kind, data, grid=data.grid) for kind in KINDS}


def sample(image=None, **given):
    return Sample(QUESTION, {}, "other", "new.png", image=image, **given)


def picture(height=32, width=32):
    return torch.randint(0, 256, (3, height, width), dtype=torch.uint8)


@torch.no_grad()
def asked(task, image):
    """The probabilities of all answers, and the attention, straight from the model."""
    question = task.vocabulary.encode(QUESTION)[None]
    answer = task.model({"question": question, "image": image[None].float() / 255})
    return task.loss.probabilities(answer.logits)[0], answer.attention


@pytest.mark.parametrize("kind", KINDS)
def test_answers_and_look_are_the_model_s(tasks, kind):
    task, image = tasks[kind], picture()
    said = explain(task, sample(image), top=4)
    wanted, attention = asked(task, image)
    assert [task.vocabulary.answer_index(answer) for answer, _ in said.answers] == wanted.topk(4).indices.tolist()
    assert [p for _, p in said.answers] == wanted.topk(4).values.tolist()
    torch.testing.assert_close(said.weights, attention.weights[0], rtol=0, atol=0)
    assert isinstance(said.look, Density) == kind.startswith(("continuous", "multi"))
    assert (said.components is not None) == (kind == "multimodal")


@pytest.mark.parametrize(("height", "width"), [(1, 1), (17, 90), (200, 40)])
def test_picture_of_any_size_is_brought_to_that_of_training(tasks, height, width):
    task, image = tasks["softmax"], picture(height, width)
    wanted, _ = asked(task, resize(image, (32, 32)))
    assert explain(task, sample(image)).answers[0][1] == wanted.max().item()


def test_colours_in_the_unit_interval_are_the_same_as_bytes(tasks):
    image = picture(40, 50)
    as_bytes, as_colours = (explain(tasks["softmax"], sample(each)) for each in (image, image.float() / 255))
    assert as_bytes.answers == as_colours.answers


def test_no_more_answers_than_there_are(tasks, data):
    said = explain(tasks["softmax"], sample(picture()), top=1000)
    assert len(said.answers) == data.vocabulary.num_answers
    assert sum(p for _, p in said.answers) == pytest.approx(1, abs=1e-5)


def test_network_that_sees_no_picture_says_the_same_to_all(data):
    task = trained("softmax", data, grid=data.grid, blind=True)
    assert explain(task, sample(picture())).answers == explain(task, sample(picture(9, 70))).answers


def test_unknown_words_are_reported_and_share_an_index(tasks):
    task = tasks["softmax"]
    assert find_unknown_words(task, "What colour is the zebra, or quagga?") == ["zebra", "or", "quagga"]
    assert find_unknown_words(task, QUESTION) == []
    image = picture()
    one, other = (Sample(f"is the {word} red?", {}, "other", "x", image=image) for word in ("zebra", "quagga"))
    assert explain(task, one).answers == explain(task, other).answers


@pytest.fixture(scope="module")
def on_features(data):
    from omegamax.models.mcan import MCANConfig, OutputConfig
    from omegamax.tasks.vqa import VQATask

    torch.manual_seed(0)
    output = OutputConfig("tvmax")
    return VQATask(data.vocabulary, MCANConfig.small(pixels=False, image_dim=24, layers=1, output=output)).eval()


@pytest.mark.parametrize("grid", [(14, 14), (3, 5)])
def test_features_of_any_grid(on_features, grid):
    features = torch.randn(*grid, 24)
    said = explain(on_features, sample(features=features))
    batch = Collate(on_features.vocabulary)([sample(features=features)])
    with torch.no_grad():
        wanted = on_features.loss.probabilities(on_features(batch).logits)[0]
    assert said.weights.shape == grid
    assert said.answers[0][1] == wanted.max().item()


def test_what_does_not_fit_is_refused_with_its_name(on_features):
    with pytest.raises(DataError, match=r"'new.png'.*trained on features, not on pictures; give a file of features"):
        explain(on_features, sample(picture()))
    with pytest.raises(DataError, match=r"'new.png'.*takes 24 features of a cell, and there are 7"):
        explain(on_features, sample(features=torch.randn(4, 4, 7)))
