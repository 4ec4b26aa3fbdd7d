"""The record refuses what no dataset should yield."""

import pytest
import torch

from omegamax.data import Sample

IMAGE = torch.zeros(3, 4, 5)
GOOD = {"question": "is it?", "answers": {"yes": 1.0}, "kind": "yes/no", "id": "val-3", "image": IMAGE}


def test_the_best_answer_is_the_first_of_the_highest():
    assert Sample(**GOOD | {"answers": {"no": 0.3, "yes": 0.9, "maybe": 0.9}}).answer == "yes"
    assert Sample(**GOOD | {"answers": {}}).answer is None


@pytest.mark.parametrize(
    "change, error, words",
    [
        ({"question": "  \n"}, ValueError, "question is empty"),
        ({"question": None}, TypeError, "question must be a str, got NoneType"),
        ({"kind": "yesno"}, ValueError, "kind must be one of 'yes/no', 'number', 'other', got 'yesno'"),
        ({"region": "two"}, ValueError, "region must be one of 'one', 'several', 'odd' or None, got 'two'"),
        ({"answers": ["yes"]}, TypeError, "answers must map each answer to its score, got list"),
        ({"answers": {"yes": 1.2}}, ValueError, "the score of answer 'yes' must lie in"),
        ({"answers": {"yes": float("nan")}}, ValueError, "the score of answer 'yes' must lie in"),
        ({"image": None}, ValueError, "give either image or features, got neither"),
        ({"features": torch.zeros(2, 2, 3)}, ValueError, "give either image or features, got both"),
        ({"image": torch.zeros(4, 4, 3)}, ValueError, r"image must be \[3, H, W\], got shape \(4, 4, 3\)"),
        ({"image": torch.zeros(3, 0, 3)}, ValueError, r"image must be \[3, H, W\], got shape \(3, 0, 3\)"),
        ({"image": torch.zeros(3, 4, 4, dtype=torch.int64)}, TypeError, "image must be uint8 or floating"),
        ({"image": [0.0]}, TypeError, "image must be a torch.Tensor, got list"),
        ({"image": None, "features": torch.zeros(4, 3)}, ValueError, r"features must be \[h, w, D\]"),
        ({"image": None, "features": torch.zeros(2, 2, 3).int()}, TypeError, "features must be floating"),
        ({"relevance": torch.zeros(1, 4, 4)}, ValueError, r"relevance must be \[H, W\]"),
        ({"relevance": torch.tensor([[-1.0]])}, ValueError, "relevance must be >= 0 and finite"),
        ({"relevance": torch.tensor([[float("inf")]])}, ValueError, "relevance must be >= 0 and finite"),
        ({"relevance": torch.tensor([[float("nan")]])}, ValueError, "relevance must be >= 0 and finite"),
    ],
)
def test_errors_name_the_sample_and_the_field(change, error, words):
    with pytest.raises(error, match=f"sample 'val-3': {words}"):
        Sample(**GOOD | change)
