"""Differences of measures between networks: each against its metric, and intervals that hold what they should."""

import pytest
import torch
from tests.tasks.captioning.test_caption_compare import prediction, read, runs
from torchmetrics.text import BLEUScore

from omegamax.tasks.captioning.compare import compare, measure_captions
from omegamax.tasks.captioning.differences import MEASURES, count_bleu, find_differences, score_bleu
from omegamax.tasks.captioning.predictions import CaptionPredictions
from omegamax.tasks.captioning.report.page import page
from omegamax.tasks.captioning.report.table import difference_columns


def predictions():
    return {name: run.predictions for name, run in runs().items()}


def test_bleu_from_sums_is_that_of_torchmetrics():
    for some in predictions().values():
        sums = torch.stack([count_bleu(each) for each in some]).sum(0)
        metric = BLEUScore(4)
        metric.update([each.caption for each in some], [each.references for each in some])
        assert float(score_bleu(sums)) == pytest.approx(float(metric.compute()), abs=1e-7)
    assert float(score_bleu(count_bleu(prediction("0.jpg", "a red car")))) == 0  # no n-gram of four
    assert count_bleu(prediction("0.jpg", "a dog", references=())) is None


def test_differences_are_those_of_the_measures():
    some = predictions()
    ours, theirs = (measure_captions(some[name]) for name in ("tvmax", "softmax"))
    found = find_differences(some, draws=200)
    assert list(found) == ["tvmax"] and set(found["tvmax"]) == set(MEASURES)
    for name in ("rep", "words", "js", "zero"):
        value, low, high = found["tvmax"][name]
        assert value == pytest.approx(ours[name] - theirs[name], abs=1e-6) and low <= value <= high


def test_a_network_does_not_differ_from_itself_and_many_photographs_tell_more():
    one = CaptionPredictions(prediction(f"{i}.jpg", "a dog runs on the grass " * (1 + i % 2), i) for i in range(40))
    other = CaptionPredictions(prediction(f"{i}.jpg", "a dog runs on the " * (1 + i % 3), i) for i in range(40))
    assert all(ends == (0, 0, 0) for ends in find_differences({"one": one, "two": one}, 50)["two"].values())
    value, low, high = find_differences({"one": one, "two": other}, 500)["two"]["words"]
    gaps = torch.tensor([float(len(b.tokens) - len(a.tokens)) for a, b in zip(one, other, strict=True)])
    error = 1.96 * float(gaps.std()) / 40**0.5
    assert value == pytest.approx(float(gaps.mean()))
    assert high - value == pytest.approx(error, rel=0.15) and value - low == pytest.approx(error, rel=0.15)


def test_what_is_not_known_of_both_is_left_out():
    bare = CaptionPredictions([prediction("0.jpg", "a dog runs", references=(), maps=False)])
    whole = CaptionPredictions([prediction("0.jpg", "a dog runs")])
    assert set(find_differences({"a": whole, "b": bare}, 10)["b"]) == {"words"}
    assert find_differences({"a": whole}, 10) == {}


def test_page_and_table_show_differences():
    made = compare(runs(), read, examples=0)
    (words,) = [column for column in difference_columns(made.rows) if column.key == "words"]
    assert words.shown(made.rows[1]).startswith("-1.0 [") and words.shown(made.rows[0]) == "\u2013"
    text = page(made)
    assert 'id="differences"' in text and "minus softmax" in text and words.shown(made.rows[1]) in text
    alone = compare({"softmax": runs()["softmax"]}, read, examples=0)
    assert 'id="differences"' not in page(alone)
