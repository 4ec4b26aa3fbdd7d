"""The width of a look as confidence: of densities, of weights, and of a network's answers."""

import math

import pytest
import torch
from tests.tasks.vqa.networks import scenes, trained

from omegamax.densities import Gaussian
from omegamax.metrics import confidence_curve
from omegamax.models.mcan import Answer, GridAttention, ImageGrid
from omegamax.tasks.vqa.confidence import collect_confidence, narrowness

pytestmark = pytest.mark.usefixtures("one_thread")


def answer(weights, density=None):
    return Answer(None, GridAttention(weights, ImageGrid((2, 2)), density), None, None)


def test_narrow_looks_are_confident():
    weights = torch.tensor([[[1.0, 0.0], [0.0, 0.0]], [[0.25, 0.25], [0.25, 0.25]]])
    torch.testing.assert_close(narrowness(answer(weights)), torch.tensor([0.0, -math.log(4)]))
    density = Gaussian(torch.zeros(2, 2), torch.eye(2) * torch.tensor([0.01, 0.04])[:, None, None])
    wanted = -torch.tensor([math.pi * 0.01, math.pi * 0.04]).log()
    torch.testing.assert_close(narrowness(answer(weights, density)), wanted)


@pytest.mark.parametrize("source", ["width", "probability"])
@pytest.mark.parametrize("kind", ["softmax", "continuous_sparsemax", "multimodal"])
def test_answers_of_a_network(kind, source):
    data = scenes()
    task = trained(kind, data, grid=(4, 4)).train()
    confidence, correct = collect_confidence(task, data.test_dataloader(), source)
    assert task.training and confidence.shape == correct.shape == (20,) and confidence.isfinite().all()
    batches = list(data.test_dataloader())
    task.eval()
    with torch.no_grad():
        best = torch.cat([task(batch).logits.argmax(-1) for batch in batches])
        if source == "probability":
            said = torch.cat([task.loss.probabilities(task(batch).logits).amax(-1) for batch in batches])
            torch.testing.assert_close(confidence, said.double())
    scores = torch.cat([batch["answers"] for batch in batches])
    assert torch.equal(correct, scores[torch.arange(20), best].double())
    assert confidence_curve(confidence, correct, bins=4).count.tolist() == [5] * 4


def test_nothing_to_ask_is_refused():
    data = scenes()
    with pytest.raises(ValueError, match="batches must hold at least one batch, got none"):
        collect_confidence(trained("softmax", data, grid=(4, 4)), [])
