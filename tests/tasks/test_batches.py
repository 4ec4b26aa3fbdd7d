"""The order of samples: shared by processes, shuffled by seed and epoch, taken up again."""

import pytest
import torch

from omegamax.data import DataError
from omegamax.tasks.batches import Batches, LengthOrder, Order


def loader(count=10, size=3, seed=0, **settings):
    return Batches(torch.arange(count), Order(count, size, seed, **settings), torch.stack)


def flat(batches):
    return [int(x) for batch in batches for x in batch]


def by_length(count, *settings, **more):
    lengths = torch.randint(1, 100, (count,), generator=torch.Generator().manual_seed(count))
    return LengthOrder(lengths, *settings, **more, pool=2)


@pytest.mark.parametrize("make", [Order, by_length])
@pytest.mark.parametrize("count, size, processes", [(10, 3, 2), (9, 2, 3), (5, 4, 4), (2, 1, 3), (1, 5, 2), (12, 3, 2)])
def test_processes_share_the_batches_of_one(make, count, size, processes):
    for epoch in (0, 1):
        one = make(count, size * processes, seed=7)
        parts = [make(count, size, seed=7, processes=processes, rank=rank) for rank in range(processes)]
        for each in (one, *parts):
            each.set_epoch(epoch)
        assert len({len(part) for part in parts}) == 1 and all(len(list(part)) == len(part) for part in parts)
        assert len(one) == len(parts[0])
        together = [sorted(flat(batches)) for batches in zip(*parts, strict=True)]
        alone = [sorted(batch) for batch in one]
        assert together[:-1] == alone[:-1] and set(together[-1]) >= set(alone[-1])
        assert sum(map(len, together)) == -(-count // processes) * processes
        assert set(flat(together)) == set(range(count))


@pytest.mark.parametrize("count, size, processes", [(10, 3, 2), (9, 2, 3), (5, 4, 4), (2, 1, 3), (0, 2, 2), (9, 4, 2)])
def test_evaluation_takes_each_sample_once(count, size, processes):
    parts = [Order(count, size, processes=processes, rank=rank) for rank in range(processes)]
    assert sorted(flat(batch for part in parts for batch in part)) == list(range(count))
    assert all(len(list(part)) == len(part) for part in parts)
    assert flat(Order(count, size)) == list(range(count))


def test_shuffling_depends_on_seed_and_epoch_alone():
    orders = {}
    for seed in (0, 1):
        for epoch in (0, 1):
            batches = loader(seed=seed)
            batches.sampler.set_epoch(epoch)
            torch.manual_seed(epoch + 5)
            orders[seed, epoch] = tuple(flat(batches))
            assert orders[seed, epoch] == tuple(flat(batches)) and sorted(orders[seed, epoch]) == list(range(10))
    assert len(set(orders.values())) == 4


def test_epoch_is_asked_for_when_the_first_batch_is():
    batches = loader()
    early = iter(batches)
    batches.sampler.set_epoch(3)
    late = loader()
    late.sampler.set_epoch(3)
    assert flat(early) == flat(late)


def test_draws_of_training_are_left_alone():
    batches = loader()
    torch.manual_seed(1)
    wanted = torch.rand(3)
    torch.manual_seed(1)
    list(batches)
    assert torch.equal(torch.rand(3), wanted)


@pytest.mark.parametrize("at", range(5))
def test_batches_go_on_from_where_they_were(at):
    batches = loader()
    batches.sampler.set_epoch(2)
    loop = iter(batches)
    before = [next(loop) for _ in range(at)]
    again = loader()
    again.load_state_dict(batches.state_dict())
    again.sampler.set_epoch(2)
    assert len(again) == 4 and flat(before) + flat(again) == flat(batches)
    assert len(list(again)) == 4  # and whole the next time


def test_place_of_another_epoch_is_not_taken():
    batches = loader()
    next(iter(batches))
    again = loader()
    again.load_state_dict(batches.state_dict())
    again.sampler.set_epoch(1)
    assert sorted(flat(again)) == list(range(10))


@pytest.mark.parametrize(
    "other, said",
    [(loader(count=11), "samples 10, not 11"), (loader(size=4), "batch_size 3, not 4"), (loader(seed=2), "seed")],
)
def test_place_among_other_batches_is_refused(other, said):
    with pytest.raises(DataError, match=f"from the middle of an epoch over other batches .*{said}"):
        other.load_state_dict(loader().state_dict())


def test_place_holds_for_other_processes_with_the_same_batch_together():
    state = loader(size=4).state_dict()
    two = loader(size=2, processes=2, rank=1)
    two.load_state_dict({**state, "batch": 2})
    assert flat(two) == flat([list(Order(10, 2, 0, processes=2, rank=1))[2]])


def test_batches_of_about_one_length_are_padded_little():
    draws = torch.randn(5000, generator=torch.Generator().manual_seed(0))
    lengths = (5.3 + 0.7 * draws).exp().round().clamp(1, 2000).long()  # as those of reviews

    def padded(order):
        longest = torch.tensor([lengths[batch].max() * len(batch) for batch in map(torch.tensor, order)])
        return float(longest.sum() / lengths.sum())

    assert padded(Order(5000, 16, seed=0)) > 1.8
    assert padded(LengthOrder(lengths, 16, seed=0)) < 1.15 and padded(LengthOrder(lengths, 16)) < 1.05


def test_batches_by_length_are_shuffled_anew_in_each_epoch():
    order = by_length(50, 4, seed=3)
    first = list(order)
    assert sorted(flat(first)) == list(range(50)) and len(first[-1]) == 2
    order.set_epoch(1)
    second = list(order)
    assert sorted(flat(second)) == list(range(50)) and second != first
    assert flat(by_length(50, 4)) == order.lengths.argsort(stable=True, descending=True).tolist()
    means = torch.stack([order.lengths[batch].float().mean() for batch in second[:-1]])
    assert not torch.equal(means, means.sort().values)  # not from short to long
