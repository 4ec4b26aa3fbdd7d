"""Batches: padding, masks, scores and relevance."""

import pickle

import pytest
import torch

from omegamax.data import Collate, Sample, Vocabulary, pool

VOCABULARY = Vocabulary(["is", "it", "red"], ["yes", "no"])


def sample(question="is it red?", *, answers=None, kind="yes/no", id="a", **rest):
    if not {"image", "features"} & set(rest):
        rest["image"] = torch.zeros(3, 4, 4)
    return Sample(question, {"yes": 1.0} if answers is None else answers, kind, id, **rest)


def test_questions_are_padded_and_answers_scored():
    batch = Collate(VOCABULARY)([sample(id="x"), sample("red", answers={"no": 0.5}, kind="other", region="odd")])
    assert batch["question"].tolist() == [[2, 3, 4], [4, 0, 0]] and batch["question"].dtype == torch.int64
    assert batch["answers"].tolist() == [[1, 0], [0, 0.5]]
    assert batch["kind"].tolist() == [0, 2]
    assert batch["id"] == ["x", "a"] and batch["region"] == [None, "odd"]
    assert set(batch) == {"question", "answers", "kind", "id", "region", "image"}


def test_long_questions_are_cut():
    assert Collate(VOCABULARY, length=2)([sample()])["question"].tolist() == [[2, 3]]


def test_images_are_floats_from_zero_to_one():
    bright = torch.full((3, 4, 4), 255, dtype=torch.uint8)
    image = Collate(VOCABULARY)([sample(image=bright), sample(image=torch.full((3, 4, 4), 0.5).double())])["image"]
    assert image.dtype == torch.float32 and image.shape == (2, 3, 4, 4)
    assert image[0].unique().tolist() == [1] and image[1].unique().tolist() == [0.5]


def test_ragged_grids_are_padded_with_masks():
    a, b = torch.randn(2, 3, 5), torch.randn(3, 1, 5).half()
    batch = Collate(VOCABULARY)([sample(features=a), sample(features=b)])
    assert batch["grid"] == (3, 3) and batch["sizes"].tolist() == [[2, 3], [3, 1]]
    cells, mask = batch["features"].unflatten(1, (3, 3)), batch["feature_mask"].unflatten(1, (3, 3))
    assert cells.dtype == torch.float32
    assert torch.equal(cells[0, :2], a) and torch.equal(cells[1, :, :1], b.float())
    assert mask.tolist() == [[[True] * 3, [True] * 3, [False] * 3], [[True, False, False]] * 3]
    assert not cells[~mask].any()


def test_relevance_is_pooled_to_the_grid_of_the_image():
    marked = torch.zeros(8, 8)
    marked[:4, :4], marked[4:, 4:6] = 10, 10
    batch = Collate(VOCABULARY, grid=(2, 2))([sample(relevance=marked), sample(), sample(relevance=0 * marked)])
    assert torch.allclose(batch["relevance"][0], torch.tensor([[2 / 3, 0], [0, 1 / 3]]))
    assert not batch["relevance"][1:].any()
    assert "relevance" not in Collate(VOCABULARY)([sample(relevance=marked)])
    assert "relevance" not in Collate(VOCABULARY, grid=(2, 2))([sample()])


def test_relevance_follows_each_ragged_grid():
    marked = torch.tensor([[0, 255], [0, 0]], dtype=torch.uint8)
    grids = [sample(features=torch.zeros(2, 4, 1), relevance=marked), sample(features=torch.zeros(3, 1, 1))]
    relevance = Collate(VOCABULARY)(grids)["relevance"]
    assert relevance.tolist() == [[[0, 0, 0.5, 0.5], [0] * 4, [0] * 4], [[0] * 4] * 3]


@pytest.mark.parametrize("grid", [(1, 1), (2, 7), (14, 14), (20, 3)])
def test_pooled_maps_sum_to_one(grid):
    assert pool(torch.rand(13, 9), grid).sum().item() == pytest.approx(1, abs=1e-6)
    assert pool(torch.rand(13, 9) > 0.5, grid).shape == grid
    assert not pool(torch.zeros(13, 9), grid).any()


def test_errors_say_which_sample():
    collate = Collate(VOCABULARY)
    with pytest.raises(ValueError, match=r"sample 'q7': .*question '\?!' has no words"):
        collate([sample(), sample("?!", id="q7")])
    with pytest.raises(ValueError, match=r"sample 'q7': .*unknown answer 'maybe'"):
        collate([sample(answers={"maybe": 1.0}, id="q7")])
    assert Collate(VOCABULARY, unknown="drop")([sample(answers={"maybe": 1.0})])["answers"].tolist() == [[0, 0]]
    with pytest.raises(ValueError, match=r"one size; 'a' has \(4, 4\), 'q7' \(4, 5\)"):
        collate([sample(), sample(image=torch.zeros(3, 4, 5), id="q7")])
    with pytest.raises(ValueError, match="one depth; 'a' has 1, 'q7' 2"):
        collate([sample(features=torch.zeros(1, 1, 1)), sample(features=torch.zeros(1, 1, 2), id="q7")])
    with pytest.raises(ValueError, match="some samples have images and others features"):
        collate([sample(), sample(features=torch.zeros(1, 1, 1))])
    with pytest.raises(ValueError, match="no samples"):
        collate([])
    with pytest.raises(ValueError, match="unknown must be one of 'error', 'drop', got 'skip'"):
        Collate(VOCABULARY, unknown="skip")
    for grid in [(7,), (7, 0), (7, 1.5)]:
        with pytest.raises((TypeError, ValueError), match="Collate: grid must"):
            Collate(VOCABULARY, grid=grid)
    with pytest.raises(ValueError, match="length must be an integer >= 1, got 0"):
        Collate(VOCABULARY, length=0)


def test_collate_can_be_sent_to_another_process():
    again = pickle.loads(pickle.dumps(Collate(VOCABULARY, grid=(2, 2))))
    assert again([sample()])["question"].tolist() == [[2, 3, 4]]
