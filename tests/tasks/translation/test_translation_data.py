"""Batches by tokens: none is too large, every pair is in one, and the order follows from seed and epoch."""

import pytest
import torch

from omegamax.tasks.token_batches import TokenOrder
from omegamax.tasks.translation import PairFilesData, TinyPairsData, TranslationData

LENGTHS = torch.randint(1, 40, (300,), generator=torch.Generator().manual_seed(0))


def padded(batch):
    return len(batch) * int(LENGTHS[batch].max())


@pytest.mark.parametrize("seed", [None, 3])
def test_batches_hold_at_most_so_many_tokens_and_every_sample_once(seed):
    order = TokenOrder(LENGTHS, 100, seed)
    batches = list(order)
    assert sorted(i for batch in batches for i in batch) == list(range(300)) and len(batches) == len(order)
    assert all(padded(batch) <= 100 for batch in batches)
    assert sum(map(padded, batches)) < 1.3 * int(LENGTHS.sum())  # little of it is padding
    assert max(map(len, TokenOrder(LENGTHS, 100, seed, most=4))) == 4


def test_order_follows_from_seed_and_epoch_and_can_be_taken_up():
    order, same = TokenOrder(LENGTHS, 100, 3), TokenOrder(LENGTHS, 100, 3)
    first = list(order)
    assert first == list(same) != list(TokenOrder(LENGTHS, 100, 4))
    order.set_epoch(1)
    again = list(order)
    assert again != first and len(again) == len(first)
    order.first = 5
    assert list(order) == again[5:]


@pytest.mark.parametrize("processes", [2, 7, 400])
def test_processes_share_the_batches(processes):
    every = list(TokenOrder(LENGTHS, 100, 3))
    parts = [TokenOrder(LENGTHS, 100, 3, processes=processes, rank=rank) for rank in range(processes)]
    assert len({len(part) for part in parts}) == 1 and all(len(list(part)) == len(part) for part in parts)
    assert {tuple(batch) for part in parts for batch in part} == {tuple(batch) for batch in every}
    fixed = [list(TokenOrder(LENGTHS, 100, processes=processes, rank=rank)) for rank in range(processes)]
    assert sorted(i for part in fixed for batch in part for i in batch) == list(range(300))


def test_sample_beyond_the_limit_is_a_batch_by_itself():
    assert list(TokenOrder(torch.tensor([7, 50, 7]), 14)) == [[1], [0, 2]]
    assert list(TokenOrder(torch.zeros(0, dtype=torch.long), 14)) == []


def test_settings_of_the_data_are_kept_and_bounded():
    data = TinyPairsData((20, 5, 5), lowercase=True, batch_tokens=64)
    again = TranslationData.of(data.settings)
    assert again.settings == data.settings and again.vocabulary == data.vocabulary
    assert data.form.label == "lower-cased, NFC"
    with pytest.raises(ValueError, match="batch_tokens"):
        TinyPairsData(batch_tokens=1 << 30)
    with pytest.raises(ValueError, match="subwords must be one of 'bpe', 'words', got 'bytes'"):
        TinyPairsData(subwords="bytes")


def test_files_of_ones_own_are_split_for_validation(tmp_path):
    lines = [f"wort {i % 7} {i}" for i in range(200)]
    for language in ("xx", "yy"):
        (tmp_path / f"all.{language}").write_text("\n".join(lines) + "\n")
    data = PairFilesData(str(tmp_path / "all"), source="xx", target="yy", held_out=0.2, size=60, subwords="bpe")
    train, val = data.split("train"), data.split("val")
    assert len(train) + len(val) == 200 and not {p.id for p in train.pairs} & {p.id for p in val.pairs}
    assert data.vocabulary.joint and len(data.split("test")) == len(val)
