"""What networks made of each question: by hand, and in examples whose themes are known."""

import math

import pytest
import torch

from omegamax.densities import BetaGaussian, Gaussian, Mixture
from omegamax.tasks.vqa.outcomes import DENSITIES, SEVERAL, WEIGHTS, WIDE, Outcomes, ellipse_area, pick
from tasks.vqa.networks import scenes, trained

pytestmark = pytest.mark.usefixtures("one_thread")


def made(scores, areas=None, components=None, kinds=None):
    outcomes = Outcomes()
    numbers = [None if x is None else torch.tensor(x) for x in (areas, components)]
    outcomes.extend(torch.tensor(scores), torch.tensor(kinds or [2] * len(scores)), *numbers)
    return outcomes


@pytest.mark.parametrize("kind", ["tvmax", "continuous_softmax", "multimodal"])
def test_batches_are_collected_in_order(kind):
    data = scenes()
    task, outcomes, wanted = trained(kind, data, grid=data.grid), Outcomes(), []
    with torch.no_grad():
        for batch in data.test_dataloader():
            answer = task(batch)
            outcomes.update(answer, batch)
            for place, logits in enumerate(answer.logits):
                density = answer.attention.density
                area = None if density is None else math.pi * density.covariance_matrix[place].det().sqrt().item()
                wanted.append((batch["answers"][place][logits.argmax()].item(), batch["kind"][place].item(), area))
    scores, kinds, areas = zip(*wanted, strict=True)
    assert outcomes.scores.tolist() == list(scores) and outcomes.kinds.tolist() == list(kinds)
    assert (outcomes.components is None) == (kind != "multimodal")
    assert (outcomes.areas is None) == (kind == "tvmax")
    if outcomes.areas is not None:
        assert outcomes.areas.tolist() == pytest.approx(list(areas), rel=1e-4)


def test_area_is_that_of_the_ellipse_of_one_deviation():
    scale = torch.tensor([[0.04, 0.01], [0.01, 0.02]], dtype=torch.float64)
    p = Gaussian(torch.zeros(2, dtype=torch.float64), scale)
    axes = torch.linalg.eigvalsh(scale).sqrt()
    assert ellipse_area(p).item() == pytest.approx(math.pi * axes.prod().item(), abs=1e-12)
    covariance = torch.diag(torch.tensor([0.09, 0.01], dtype=torch.float64))
    sparse = BetaGaussian.from_moments(torch.zeros(2, dtype=torch.float64), covariance, 2.0)
    assert ellipse_area(sparse).item() == pytest.approx(math.pi * 0.03, abs=1e-12)
    # Two narrow parts far apart: the ellipse of the whole spans both, 0.5 and 0.1 in its half axes.
    parts = Gaussian(torch.tensor([[-0.4, 0.0], [0.4, 0.0]], dtype=torch.float64), covariance.expand(2, 2, 2))
    assert ellipse_area(Mixture(torch.tensor([0.5, 0.5]).double(), parts)).item() == pytest.approx(
        math.pi * 0.05, abs=1e-12
    )


def test_reliability_is_accuracy_by_area():
    areas = [0.5, 0.1, math.nan, 0.2, 0.4, 0.3]
    found = made([0.0, 1.0, 1.0, 1.0, 0.3, 0.6], areas).reliability(bins=2)
    assert [b.count for b in found] == [2, 3]
    assert [b.area for b in found] == pytest.approx([0.02**0.5, 0.06 ** (1 / 3)])  # geometric means
    assert [b.accuracy for b in found] == pytest.approx([1.0, 0.3])
    assert made([1.0]).reliability() == [] and len(made([1.0], [0.1]).reliability()) == 1


def test_auc_says_how_often_the_right_answer_is_the_narrower_one():
    found = made([1.0, 0.0, 1.0, 0.0], [0.1, 0.2, 0.3, 0.4]).confidence()
    assert found.auc == 0.75 and made([1.0]).confidence() is None
    assert made([1.0], [math.nan]).confidence() is None


def test_difference_is_paired():
    one, other = made([1.0, 0.0, 1.0, 1.0]), made([1.0, 1.0, 0.0, 1.0])
    mean, low, high = made([1.0, 1.0, 1.0, 1.0]).difference(one)
    error = (3 * 0.25**2 + 0.75**2) ** 0.5 / 3**0.5 / 2  # deviation of 0, 1, 0, 0, over the root of four
    assert (mean, low, high) == pytest.approx((0.25, 0.25 - 1.96 * error, 0.25 + 1.96 * error))
    assert one.difference(one) == (0.0, 0.0, 0.0) and one.difference(other)[0] == 0.0
    assert made([1.0]).difference(made([0.0]))[1:] == (-math.inf, math.inf)


def test_themes_are_what_they_say_and_come_in_turn():
    kinds = [0, 0, 0, 1, 2, 2, 2]
    networks = {
        "softmax": made([0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0], kinds=kinds),
        "continuous": made([1.0, 1.0, 0.6, 1.0, 0.0, 1.0, 1.0], [0.1, 0.1, 0.1, 0.1, 0.9, 0.3, 0.2], kinds=kinds),
        "mixture": made([1.0, 1.0, 1.0, 1.0, 0.3, 1.0, 0.0], [0.1] * 7, [1, 1, 3, 1, 2, 1, 2], kinds),
    }
    # 4: only softmax is right; of the rest the widest, 5 and 6, are right; 2 has three components.
    assert pick(networks, 2) == {0: DENSITIES, 3: DENSITIES, 4: WEIGHTS, 5: WIDE, 6: WIDE, 2: SEVERAL}
    assert pick(networks, 1) == {0: DENSITIES, 4: WEIGHTS, 5: WIDE, 2: SEVERAL}
    assert pick(networks, 1, taken=[0, 5]) == {3: DENSITIES, 4: WEIGHTS, 6: WIDE, 2: SEVERAL}
    assert pick(networks, 0) == {} and pick({}, 3) == {}


def test_themes_that_need_two_kinds_of_attention_need_both():
    assert set(pick({"continuous": made([1.0, 0.0], [0.5, 0.6])}, 3).values()) == {WIDE}
    assert pick({"softmax": made([1.0, 0.0])}, 3) == {}
