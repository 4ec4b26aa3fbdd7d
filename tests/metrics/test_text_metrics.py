"""Measures of words that explain an answer: by hand, by brute force, with masks, ties and nothing at all."""

import itertools
import math

import pytest
import torch
from torchmetrics.functional.classification import binary_auroc, binary_average_precision

from omegamax import metrics
from omegamax.metrics import (
    auprc,
    communication_success,
    comprehensiveness,
    iou_f1,
    roc_auc,
    simulatability,
    sufficiency,
    token_f1,
)

FUNCTIONS = {"token_f1": token_f1, "auprc": auprc, "roc_auc": roc_auc}


def draw(seed, levels=4, rows=40, length=9):
    """Scores of few levels, so that ties are frequent; marks; and a mask that leaves one word at least."""
    generator = torch.Generator().manual_seed(seed)
    scores = torch.randint(levels, (rows, length), generator=generator).double() / levels
    marked = torch.rand(rows, length, generator=generator) < 0.35
    mask = torch.rand(rows, length, generator=generator) < 0.8
    mask[:, 0] = True
    return scores, marked, mask


def brute_auprc(scores, marked):
    """Area by straight lines through the points of every threshold, from recall 0 and precision 1."""
    points = [(0.0, 1.0)]
    for threshold in sorted(set(scores), reverse=True):
        chosen = [s >= threshold for s in scores]
        hits = sum(c and m for c, m in zip(chosen, marked, strict=True))
        points.append((hits / sum(marked), hits / sum(chosen)))
    return sum((b[0] - a[0]) * (a[1] + b[1]) / 2 for a, b in itertools.pairwise(points))


def brute_roc(scores, marked):
    yes = [s for s, m in zip(scores, marked, strict=True) if m]
    no = [s for s, m in zip(scores, marked, strict=True) if not m]
    pairs = list(itertools.product(yes, no))
    return sum((a > b) + 0.5 * (a == b) for a, b in pairs) / len(pairs)


def brute_f1(scores, marked):
    chosen = [s >= 0.5 for s in scores]
    hits = sum(c and m for c, m in zip(chosen, marked, strict=True))
    precision, recall = hits / sum(chosen) if any(chosen) else 0, hits / sum(marked)
    return 2 * precision * recall / (precision + recall) if hits else 0.0


BRUTE = {"token_f1": brute_f1, "auprc": brute_auprc, "roc_auc": brute_roc}


@pytest.mark.parametrize("name", FUNCTIONS)
@pytest.mark.parametrize("masked", [False, True])
def test_rows_are_those_of_brute_force(name, masked):
    scores, marked, mask = draw(3)
    mask = mask if masked else torch.ones_like(mask)
    given = scores >= 0.5 if name == "token_f1" else scores
    found = FUNCTIONS[name](given, marked, mask, reduction="none")
    wanted = []
    for row in range(len(scores)):
        kept = mask[row].tolist()
        s, m = ([v for v, k in zip(t[row].tolist(), kept, strict=True) if k] for t in (scores, marked))
        known = any(m) and (name != "roc_auc" or not all(m))
        wanted.append(BRUTE[name](s, m) if known else math.nan)
    wanted = torch.tensor(wanted, dtype=torch.float64)
    assert torch.allclose(found, wanted, rtol=0, atol=1e-12, equal_nan=True)
    mean = FUNCTIONS[name](given, marked, mask)
    assert torch.allclose(mean, wanted.nanmean(), rtol=0, atol=1e-12) and mean.dtype == torch.float64


def test_token_f1_by_hand():
    chosen = torch.tensor([[1, 1, 0, 0], [0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]])
    marked = torch.tensor([[1, 0, 1, 1], [0, 1, 0, 0], [1, 1, 1, 1], [0, 0, 0, 0]])
    found = token_f1(chosen, marked, reduction="none")
    assert found[:3].tolist() == [0.4, 0.0, 1.0] and math.isnan(found[3])  # precision 1/2, recall 1/3
    assert float(token_f1(chosen, marked)) == pytest.approx((0.4 + 0 + 1) / 3)
    assert float(token_f1(chosen.bool(), marked.float())) == pytest.approx(1.4 / 3)


def test_auprc_by_hand():
    # Points (recall, precision): (1/2, 1), (1/2, 1/2), (1, 2/3): areas 1/2 and 7/24.
    assert float(auprc(torch.tensor([[3.0, 2.0, 1.0]]), torch.tensor([[1, 0, 1]]))) == pytest.approx(1 / 2 + 7 / 24)
    assert float(auprc(torch.tensor([5.0, 4.0, 1.0]), torch.tensor([1, 1, 0]))) == 1.0
    # All equal: one point (1, 1/4), and a line to it from (0, 1).
    assert float(auprc(torch.ones(1, 4), torch.tensor([[0, 0, 1, 0]]))) == pytest.approx(5 / 8)


def test_infinite_scores_and_nan():
    marked = torch.tensor([[True, False, True], [True, False, True], [False, True, False]])
    scores = torch.tensor([[math.inf, -math.inf, 0.0], [math.nan, 1.0, 2.0], [-math.inf, -math.inf, math.nan]])
    mask = torch.tensor([[True, True, True], [True, True, True], [True, True, False]])
    found = auprc(scores, marked, mask, reduction="none")
    assert found[0] == 1 and found[1].isnan() and found[2] == 0.75  # one point (1, 1/2)
    found = roc_auc(scores, marked, mask, reduction="none")
    assert found[0] == 1 and found[1].isnan() and found[2] == 0.5


def test_nan_spoils_the_mean_of_a_class_and_texts_without_marks_do_not():
    scores = torch.tensor([[0.5, 0.2], [math.nan, 0.1], [math.nan, 0.1]])
    for name, function in (("AUPRC", auprc), ("RocAUC", roc_auc)):
        metric = getattr(metrics, name)()
        for row, marked in enumerate(([1, 0], [0, 0])):  # the second has nothing marked
            metric.update(scores[row], torch.tensor(marked))
        assert metric.compute() == 1 == function(scores[:2], torch.tensor([[1, 0], [0, 0]])) and metric.skipped == 1
        metric.update(scores[2:], torch.tensor([[1, 0]]))
        assert math.isnan(metric.compute()) and metric.skipped == 1
    for name in ("Comprehensiveness", "Sufficiency"):
        metric = getattr(metrics, name)()
        metric.update(torch.tensor([[0.5, 0.5], [math.nan, 0.5]]), torch.tensor([[0.5, 0.5], [0.5, 0.5]]))
        assert math.isnan(metric.compute()) and metric.skipped == 0


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.int64])
def test_scores_of_any_type(dtype):
    scores, marked, _ = draw(5)
    scaled = (4 * scores).to(dtype)
    assert torch.equal(auprc(scaled, marked), auprc(scores, marked))
    assert torch.equal(roc_auc(scaled, marked), roc_auc(scores, marked))


def test_iou_f1_by_hand():
    chosen = torch.tensor([[1, 1, 0, 1, 0, 0], [0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1]])
    marked = torch.tensor([[1, 1, 1, 0, 0, 1], [0, 1, 1, 0, 0, 0], [0, 0, 0, 0, 0, 0]])
    # First: (0, 2) agrees with (0, 3) by 2/3, (3, 4) with none: 1 of 2, and 1 of 2. Second: nothing chosen, recall 0.
    # Third: nothing marked, precision 0. Precision (1/2 + 0) / 2, recall (1/2 + 0) / 2.
    assert float(iou_f1(chosen, marked)) == pytest.approx(0.25)
    assert float(iou_f1(chosen[:1], marked[:1], threshold=0.7)) == 0.0
    assert float(iou_f1(chosen[:1], marked[:1], torch.tensor([[True] * 3 + [False] * 3]))) == 1.0
    assert math.isnan(iou_f1(chosen[:1] * 0, marked[:1] * 0))
    with pytest.raises(ValueError, match="threshold must be"):
        iou_f1(chosen, marked, threshold=0.0)


def test_spans_against_sets_of_indices():
    scores, marked, mask = draw(7, rows=60, length=12)
    chosen = scores >= 0.5
    precision, recall = [], []
    for row in range(60):
        spans = []
        for given in (chosen, marked):
            kept = [i for i in range(12) if bool(given[row, i] & mask[row, i])]
            groups = {}
            for count, i in enumerate(kept):
                groups.setdefault(i - count, set()).add(i)  # words in a row share the difference
            spans.append(list(groups.values()))
        hits = sum(any(len(a & b) / len(a | b) >= 0.5 for b in spans[1]) for a in spans[0])
        precision += [hits / len(spans[0])] if spans[0] else []
        recall += [hits / len(spans[1])] if spans[1] else []
    p, r = sum(precision) / len(precision), sum(recall) / len(recall)
    assert float(iou_f1(chosen, marked, mask)) == pytest.approx(2 * p * r / (p + r), abs=1e-12)


def test_falls_of_the_predicted_class_by_hand():
    full = torch.tensor([[0.7, 0.2, 0.1], [0.1, 0.3, 0.6]], dtype=torch.float64)
    other = torch.tensor([[0.1, 0.8, 0.1], [0.2, 0.1, 0.7]], dtype=torch.float64)
    for function in (comprehensiveness, sufficiency):
        assert function(full, other, reduction="none").tolist() == pytest.approx([0.6, -0.1])
        assert float(function(full, other)) == pytest.approx(0.25)
    full.requires_grad_()
    assert torch.autograd.gradcheck(lambda p: comprehensiveness(p, other), full)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_falls_in_half_precision_are_not_rounded_to_it(dtype):
    full = torch.tensor([[0.9, 0.1], [0.3, 0.7]], dtype=dtype)
    other = torch.tensor([[0.123, 0.877], [0.77, 0.23]], dtype=dtype)
    falls = [float(full[0, 0]) - float(other[0, 0]), float(full[1, 1]) - float(other[1, 1])]
    for function, name in ((comprehensiveness, "Comprehensiveness"), (sufficiency, "Sufficiency")):
        assert function(full, other).dtype == torch.float32
        assert function(full, other, reduction="none").tolist() == pytest.approx(falls, abs=1e-7)
        assert float(function(full, other)) == pytest.approx(sum(falls) / 2, abs=1e-7)
        assert float(getattr(metrics, name)()(full, other)) == pytest.approx(sum(falls) / 2, abs=1e-7)


@pytest.mark.parametrize("name", ["TokenF1", "AUPRC", "RocAUC", "IOUF1"])
def test_classes_of_words_are_the_functions_over_all_batches(name):
    function = {"TokenF1": token_f1, "AUPRC": auprc, "RocAUC": roc_auc, "IOUF1": iou_f1}[name]
    scores, marked, mask = draw(11)
    given = scores >= 0.5 if name in ("TokenF1", "IOUF1") else scores
    metric = getattr(metrics, name)()
    for part in torch.arange(len(scores)).split(7):
        metric.update(given[part], marked[part], mask[part])
    assert torch.allclose(metric.compute(), function(given, marked, mask), rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", ["Comprehensiveness", "Sufficiency"])
def test_classes_of_falls_are_the_functions_over_all_batches(name):
    full, other = torch.rand(2, 30, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64).softmax(-1)
    metric = getattr(metrics, name)()
    for part in torch.arange(30).split(8):
        metric.update(full[part], other[part])
    assert torch.allclose(metric.compute(), getattr(metrics, name.lower())(full, other), rtol=0, atol=1e-12)


@pytest.mark.parametrize("function", [token_f1, auprc, roc_auc, iou_f1])
def test_what_does_not_fit_is_refused(function):
    name, ones = function.__name__, torch.ones(2, 3)
    with pytest.raises(ValueError, match=rf"{name}: both must be \[\*, L\] of one shape"):
        function(ones, torch.ones(2, 4))
    with pytest.raises(ValueError, match=rf"{name}: marked must be bool, or 0 and 1"):
        function(ones, 0.5 * ones)
    with pytest.raises(ValueError, match=rf"{name}: mask must be bool \(2, 3\)"):
        function(ones, ones, torch.ones(2, 1, dtype=torch.bool))
    for given in ([[1, 0]], ones), (ones, [[1, 0]]), (ones, ones, [[True, False]]):
        with pytest.raises(TypeError, match=rf"{name}: (chosen|scores|marked|mask) must be a torch.Tensor, got list"):
            function(*given)
    assert torch.isfinite(function(ones[:, :1], ones[:, :1])) or name == "roc_auc"  # one word


def test_nothing_marked_has_no_mean():
    for function in (token_f1, auprc, roc_auc):
        assert math.isnan(function(torch.ones(2, 3), torch.zeros(2, 3)))
    with pytest.raises(ValueError, match="reduction must be one of"):
        token_f1(torch.ones(2, 3), torch.ones(2, 3), reduction="sum")
    with pytest.raises(ValueError, match=r"full and without must be \[\*, C\] of one shape"):
        comprehensiveness(torch.ones(2, 3), torch.ones(2, 2))


def test_communication_success_by_hand():
    guessed, decided = torch.tensor([[0, 1, 2], [2, 2, 0]]), torch.tensor([[0, 1, 1], [2, 0, 0]])
    assert float(communication_success(guessed, decided)) == pytest.approx(4 / 6, abs=1e-15)
    each = communication_success(guessed, decided, reduction="none")
    assert each.tolist() == [[1, 1, 0], [1, 0, 1]] and each.dtype == torch.float64
    assert float(communication_success(guessed[0, :1].int(), decided[0, :1])) == 1.0
    assert math.isnan(communication_success(guessed[0, :0], decided[0, :0]))
    metric = metrics.CommunicationSuccess()
    metric.update(guessed, decided)
    metric.update(torch.tensor([1, 1, 1, 1]), torch.tensor([1, 1, 1, 0]))
    assert float(metric.compute()) == pytest.approx(7 / 10, abs=1e-15)
    with pytest.raises(TypeError, match="communication_success: guessed must be a tensor of integers"):
        communication_success(torch.ones(2), decided[0, :2])
    with pytest.raises(ValueError, match=r"guessed and decided must have one shape, got \(2,\) and \(3,\)"):
        communication_success(guessed[0, :2], decided[0])
    with pytest.raises(ValueError, match="reduction must be one of"):
        communication_success(guessed, decided, reduction="sum")


def test_areas_are_those_of_torchmetrics():
    scores, label = draw(0, levels=8, rows=3, length=40)[0], torch.arange(120).view(3, 40) % 3 == 0
    wanted = torch.stack([binary_auroc(s.sigmoid().double(), y.int()) for s, y in zip(scores, label, strict=True)])
    torch.testing.assert_close(roc_auc(scores, label, reduction="none"), wanted.double(), rtol=0, atol=1e-6)


def test_auprc_is_erasers_trapezoid_and_not_average_precision():
    """The trapezoid, as in the ERASER benchmark; average precision is a step function, and differs."""
    scores, marked = torch.tensor([[0.9, 0.8, 0.7, 0.6]]), torch.tensor([[0, 1, 0, 1]])
    # Recall 0, 0, 1/2, 1/2, 1; precision 1, 0, 1/2, 1/3, 1/2.
    assert float(auprc(scores, marked)) == pytest.approx((0 + 1 / 2) / 2 / 2 + (1 / 3 + 1 / 2) / 2 / 2, abs=1e-12)
    assert float(binary_average_precision(scores[0], marked[0])) == pytest.approx(1 / 2 * 1 / 2 + 1 / 2 * 1 / 2)


def test_simulatability_by_hand():
    guessed, decided = torch.tensor([[0, 1, 2], [2, 0, 1]]), torch.tensor([[0, 1, 1], [2, 2, 1]])
    alone = torch.tensor([[0, 0, 1], [0, 0, 0]])
    assert float(simulatability(guessed, decided)) == pytest.approx(4 / 6, abs=1e-15)
    assert float(simulatability(guessed, decided, alone)) == pytest.approx(4 / 6 - 2 / 6, abs=1e-15)
    assert simulatability(guessed, decided, alone, reduction="none").tolist() == [[0, 1, -1], [1, 0, 1]]
    assert math.isnan(simulatability(guessed[:0], decided[:0], alone[:0]))
    metric = metrics.Simulatability()
    for row in range(2):
        metric.update(guessed[row], decided[row], alone[row])
    assert float(metric.compute()) == pytest.approx(2 / 6, abs=1e-15)
    with pytest.raises(ValueError, match="simulatability: alone and decided must have one shape"):
        simulatability(guessed, decided, alone[0])
    with pytest.raises(TypeError, match="simulatability: guessed must be a tensor of integers"):
        simulatability(guessed.double(), decided)
