"""Records of a comparison: what they refuse, and that they come back from a file as they went."""

import json
import math

import pytest

from omegamax.tasks.vqa.report import Comparison, Example, Look, Row
from tasks.vqa.report.cases import MULTI, NAMES, SOFT, comparison, marked, png


@pytest.mark.parametrize("make", [comparison, marked])
def test_comparison_comes_back_from_a_file_as_it_went(tmp_path, make):
    before = make()
    before.save(tmp_path / "c.json")
    assert Comparison.load(tmp_path / "c.json") == before


def test_file_is_json_that_any_reader_takes(tmp_path):
    def refuse(name):
        raise AssertionError(name)

    comparison().save(tmp_path / "c.json")
    json.loads((tmp_path / "c.json").read_text(), parse_constant=refuse)


@pytest.mark.parametrize("value", [math.nan, math.inf, None])
def test_number_that_is_not_finite_is_not_known(value):
    row = Row("a", "softmax", {"overall": value}, 1, value, value, value, value, None, [{"step": 1, "val_loss": value}])
    assert row.accuracy == {"overall": None}
    assert (row.step_ms, row.divergence, row.inside, row.zero) == (None,) * 4
    assert row.curve == [{"step": 1, "val_loss": None}]


def test_tensors_and_arrays_of_one_entry_are_taken(tmp_path):
    import numpy as np
    import torch

    row = Row("a", "softmax", {"overall": torch.tensor(0.5)}, 1, np.float32(2), components={np.int64(2): np.int64(1)})
    Comparison("t", "", [row]).save(tmp_path / "c.json")
    (read,) = Comparison.load(tmp_path / "c.json").rows
    assert read == row and read.accuracy == {"overall": 0.5} and read.step_ms == 2.0 and read.components == {2: 1}


def test_answer_is_right_if_it_is_the_examples_or_said_to_be():
    first, _, third, fourth = comparison().examples
    assert [first.right(name) for name in NAMES] == [True, True, True]
    assert [third.right(name) for name in NAMES] == [False, True, None]  # the last did not look
    assert fourth.right(SOFT) is None  # nobody knows
    said = Look([("grey", 0.5)], png(0, 0, 0), right=True)
    assert Example("x", "?", "gray", "other", None, png(0, 0, 0), None, {SOFT: said}).right(SOFT) is True


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: Row(" ", "softmax", {}, 0), "name is empty"),
        (lambda: Row("a", "softmax", {}, 0, curve=[{"val_loss": 1.0}]), "Row 'a': every point .* needs a 'step'"),
        (lambda: Look([], b"GIF89a..."), "Look: picture must be a PNG .* begin b'GIF89a"),
        (lambda: Look([], "x.png"), "Look: picture must be a PNG file as bytes, got str"),
        (lambda: Example("7", "?", "a", "other", None, b"", None, {}), "Example '7': picture must be a PNG"),
        (lambda: Example("7", "?", "a", "other", None, png(0, 0, 0), b"", {}), "Example '7': relevance must be"),
        (lambda: Comparison("", "", [Row("a", "softmax", {}, 0)] * 2), "two rows are called 'a'"),
        (lambda: Comparison("", "", [], None, comparison().examples[:1] * 2), "two examples are called 'val/0"),
        (lambda: Comparison("", "", [], None, comparison().examples), "look of 'softmax'; the rows are"),
    ],
)
def test_record_refuses_what_cannot_be_shown(make, message):
    with pytest.raises(ValueError, match=message):
        make()


OTHERS = ["", "[]", "{}", '{"format": "omegamax comparison 1"}', "\x89PNG", "[" * 200_000 + "]" * 200_000, '{"a": NaN}']


@pytest.mark.parametrize("text", OTHERS, ids=lambda text: ascii(text[:40]))
def test_load_names_a_file_that_is_no_comparison(tmp_path, text):
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=r"other\.json is not a saved comparison"):
        Comparison.load(path)


def test_load_refuses_a_number_that_no_float_holds(tmp_path):
    path = tmp_path / "other.json"
    comparison().save(path)
    data = json.loads(path.read_text(encoding="utf-8"))
    data["examples"][0]["ticks"] = [[10**350, "far"]]
    path.write_text(json.dumps(data), encoding="utf-8")
    with pytest.raises(ValueError, match=r"other\.json is not a saved comparison"):
        Comparison.load(path)


def test_load_names_a_file_that_is_too_long(tmp_path):
    path = tmp_path / "other.json"
    with path.open("wb") as file:
        file.truncate(2**40)  # a hole: no room on the disk
    with pytest.raises(ValueError, match=r"other\.json is not a saved comparison: .* at most 1,073,741,824 bytes"):
        Comparison.load(path)


def test_components_are_in_order():
    assert list(next(row for row in comparison().rows if row.name == MULTI).components) == [1, 2]
