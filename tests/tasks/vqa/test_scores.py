"""Measures collected over batches, against direct computation on all samples at once."""

import pytest
import torch

from omegamax.metrics import jensen_shannon, mass_inside
from omegamax.models.mcan import MCAN, MCANConfig, OutputConfig
from omegamax.tasks.vqa import Scores
from omegamax.tasks.vqa.scores import ComponentCount

KINDS = ("softmax", "sparsemax", "tvmax", "continuous_sparsemax", "multimodal")
N, GRID = 12, (3, 4)


def batch_of(generator, ragged=False):
    relevance = (torch.rand(N, *GRID, generator=generator) > 0.6).float()
    relevance[::4] = 0  # nothing is known of these
    mask = torch.ones(N, *GRID, dtype=torch.bool)
    if ragged:
        mask[1::2, :, 3] = False
        relevance = relevance * mask
    total = relevance.sum((1, 2), keepdim=True)
    return {
        "question": torch.randint(1, 9, (N, 5), generator=generator),
        "features": torch.randn(N, 12, 6, generator=generator),
        "feature_mask": mask.flatten(1),
        "grid": GRID,
        "answers": torch.rand(N, 7, generator=generator).round(decimals=1),
        "kind": torch.tensor([0, 1, 0, 0, 1, 1] * 2),  # none of the third kind
        "relevance": torch.where(total > 0, relevance / total.clamp(min=1), 0.0),
    }


def part(batch, rows):
    return {key: value if key == "grid" else value[rows] for key, value in batch.items()}


@pytest.fixture(params=KINDS)
def measured(request):
    generator = torch.Generator().manual_seed(1)
    sizes = dict.fromkeys(("word_dim", "image_dim", "hidden_dim", "feedforward_dim", "flat_dim", "fused_dim"), 6)
    output = OutputConfig(request.param, components="selected")
    model = MCAN(MCANConfig(words=9, answers=7, heads=1, layers=1, output=output, **sizes)).eval()
    batch = batch_of(generator, ragged=request.param in ("tvmax", "continuous_sparsemax"))
    with torch.no_grad():
        return model, batch, model(batch)


def test_means_are_those_of_all_samples(measured):
    model, batch, answer = measured
    scores = Scores()
    with torch.no_grad():
        for rows in torch.arange(N).split(5):  # the last one is smaller
            scores.update(model(part(batch, rows)), part(batch, rows))
    found = scores.compute()
    right = batch["answers"][torch.arange(N), answer.logits.argmax(1)]
    weights, relevance = answer.attention.weights, batch["relevance"]
    cells = batch["feature_mask"].view(N, *GRID)
    known = relevance.flatten(1).any(1)
    wanted = {
        "accuracy": right.mean(),
        "accuracy_yes_no": right[batch["kind"] == 0].mean(),
        "accuracy_number": right[batch["kind"] == 1].mean(),
        "divergence": jensen_shannon(weights[known], relevance[known], dim=(-2, -1), mask=cells[known]).mean(),
        "inside": mass_inside(weights[known], relevance[known] > 0, dim=(-2, -1), mask=cells[known]).mean(),
        "zero": torch.stack([(w[c] == 0).float().mean() for w, c in zip(weights, cells, strict=True)]).mean(),
    }
    assert found == pytest.approx({name: float(value) for name, value in wanted.items()}, abs=1e-6)
    scores.reset()
    with torch.no_grad():
        scores.update(answer, batch)
    assert scores.compute() == pytest.approx(found, abs=1e-6)


def test_components_are_counted(measured):
    _, batch, answer = measured
    scores = Scores()
    scores.update(answer, batch)
    scores.update(answer, batch)
    if answer.attention.density is None or not hasattr(answer.attention.density, "component_count"):
        assert scores.components() == {}
        return
    counts = answer.attention.density.component_count.tolist()
    assert scores.components() == {k: 2 * counts.count(k) for k in sorted(set(counts))}
    assert sum(scores.components().values()) == 2 * N


def test_answers_alone_can_be_measured(measured):
    _, batch, answer = measured
    scores = Scores()
    scores.update(answer, batch, maps=False)
    assert scores.compute().keys() == {"accuracy", "accuracy_yes_no", "accuracy_number"}
    scores.reset()
    scores.update(answer, {key: value for key, value in batch.items() if key != "relevance"})
    assert scores.compute().keys() == {"accuracy", "accuracy_yes_no", "accuracy_number", "zero"}


def test_count_adds_up_and_starts_anew():
    count = ComponentCount(most=4)
    count.update(torch.tensor([1, 4, 4]))
    count.update(torch.tensor([2]))
    assert count.compute().tolist() == [0, 1, 1, 0, 2]
    count.reset()
    count.update(torch.tensor([3]))
    assert count.compute().tolist() == [0, 0, 0, 1, 0]
