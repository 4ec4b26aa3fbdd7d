"""Axes, batches and masks, the same for every measure."""

import pytest
import torch

from omegamax import metrics
from omegamax.densities import Gaussian

F64 = torch.float64
PAIRS = [metrics.jensen_shannon, metrics.rank_correlation, metrics.mass_inside]
SINGLES = [metrics.entropy, metrics.zero_area]
pairs = pytest.mark.parametrize("measure", PAIRS, ids=lambda f: f.__name__)
all_of_them = pytest.mark.parametrize(
    "measure",
    [*PAIRS, *(lambda p, q, *, f=f, **options: f(p, **options) for f in SINGLES)],
    ids=[f.__name__ for f in PAIRS + SINGLES],
)


def maps(*shape):
    p, q = torch.rand(2, *shape, dtype=F64)
    return p.where(p > 0.3, 0), q.where(q > 0.3, 0)


def close(a, b):
    return a.shape == b.shape and torch.allclose(a, b, rtol=0, atol=1e-14, equal_nan=True)


@all_of_them
def test_axes_of_a_map(measure):
    p, q = maps(3, 4, 5)
    flat = measure(p.flatten(1), q.flatten(1))
    assert flat.shape == (3,)
    for dim in ((-2, -1), (1, 2), (2, -2), [1, 2]):
        assert close(measure(p, q, dim=dim), flat)
    assert close(measure(p, q, size=(4, 5)), flat)
    assert close(measure(p, q), measure(p.reshape(12, 5), q.reshape(12, 5)).reshape(3, 4))
    assert close(measure(p, q, dim=0), measure(p.movedim(0, -1), q.movedim(0, -1)))
    assert close(measure(p, q, dim=(0, 2)), measure(p.movedim(1, 0).flatten(1), q.movedim(1, 0).flatten(1)))
    assert measure(p[0, 0], q[0, 0]).shape == ()


@pairs
def test_batches_broadcast(measure):
    p, q = maps(3, 5)
    value = measure(p.unsqueeze(1), q)
    assert value.shape == (3, 3)
    for i in range(3):
        for j in range(3):
            assert close(value[i, j], measure(p[i], q[j]))
    assert close(measure(p, q[0]), value[:, 0])
    assert close(measure(p[0], q), value[0])


@all_of_them
def test_mask_is_as_if_the_cells_were_absent(measure):
    p, q = maps(3, 4, 5)
    keep = torch.tensor([True, True, False, True, False])
    wanted = measure(p[..., keep], q[..., keep], dim=(-2, -1))
    assert close(measure(p, q, dim=(-2, -1), mask=keep), wanted)
    assert close(measure(p, q, dim=(1, 2), mask=keep.expand(3, 4, 5)), wanted)
    assert close(measure(p, q, size=(4, 5), mask=keep.expand(3, 1, 5)), wanted)
    rows = torch.tensor([True, True, True, False])
    assert close(measure(p, q, dim=(-2, -1), mask=rows.unsqueeze(-1)), measure(p[:, :3], q[:, :3], dim=(1, 2)))
    assert measure(p[0], q[0], dim=(-2, -1), mask=torch.ones(7, 4, 5, dtype=torch.bool)).shape == (7,)


@all_of_them
def test_an_empty_batch_gives_an_empty_result(measure):
    assert measure(torch.rand(0, 5), torch.rand(0, 5)).shape == (0,)


@all_of_them
def test_errors_of_every_measure(measure):
    p, q = maps(3, 4, 5)
    with pytest.raises(IndexError, match="dim=3 is out of range for maps of 3 axes"):
        measure(p, q, dim=3)
    with pytest.raises(ValueError, match="dim must name each axis once"):
        measure(p, q, dim=(-1, 2))
    with pytest.raises(TypeError, match="dim must be an int or a tuple of ints"):
        measure(p, q, dim=())
    with pytest.raises(TypeError, match="dim must be an int or a tuple of ints"):
        measure(p, q, dim="hw")
    with pytest.raises(ValueError, match="dim and size both name the axes"):
        measure(p, q, dim=-1, size=5)
    with pytest.raises(ValueError, match=r"p must be a map of \(5, 4\) cells along axes \(-2, -1\), got shape"):
        measure(p, q, size=(5, 4))
    with pytest.raises(IndexError, match=r"p of shape \(5,\) has no axes \(-2, -1\)"):
        measure(p[0, 0], q[0, 0], size=(4, 5))
    with pytest.raises(TypeError, match="mask must be a bool tensor"):
        measure(p, q, mask=torch.ones(5))
    with pytest.raises(ValueError, match="mask must be a map of"):
        measure(p, q, mask=torch.ones(4, dtype=torch.bool))
    with pytest.raises(TypeError, match=r"p must be a torch\.Tensor or a density, got list"):
        measure([0.5, 0.5], q)
    with pytest.raises(TypeError, match="p must be a real tensor"):
        measure(p.to(torch.complex64), q)
    with pytest.raises(ValueError, match="p needs at least one cell"):
        measure(p[..., :0], q[..., :0])


@pairs
def test_errors_of_pairs(measure):
    p, q = maps(3, 4, 5)
    with pytest.raises(ValueError, match=r"must be a map of \(5,\) cells along axes \(-1,\), got shape \(4,\)"):
        measure(p, q.mT)
    with pytest.raises(ValueError, match=r"must have batch axes that broadcast with \(3, 4\), got \(2, 4\)"):
        measure(p, q[:2])


@pytest.mark.parametrize("measure", PAIRS[:2], ids=lambda f: f.__name__)
def test_errors_of_densities(measure):
    line, plane = Gaussian(torch.zeros(1), 1.0), Gaussian(torch.zeros(2), 1.0)
    with pytest.raises(ValueError, match=r"p and q must have the same number of axes, got densities of \[1, 2\]"):
        measure(line, plane, size=4)
    with pytest.raises(ValueError, match="size must have one entry for each of 2 axes"):
        measure(plane, torch.ones(4, 4, 4), size=(4, 4, 4))
    with pytest.raises(ValueError, match="q is a density, whose map needs size"):
        measure(torch.ones(4), line)


@pytest.mark.parametrize("measure", [metrics.jensen_shannon, metrics.mass_inside], ids=lambda f: f.__name__)
def test_where_values_cannot_be_read_a_negative_cell_gives_nan(measure):
    p = torch.tensor([[0.5, 0.7, -0.2], [0.5, 0.3, 0.2]])
    q = torch.rand(2, 3)
    assert torch.func.vmap(measure)(p, q).isnan().tolist() == [True, False]
    assert torch.func.vmap(lambda p: metrics.entropy(p))(p).isnan().tolist() == [True, False]
    assert torch.func.vmap(lambda p: metrics.zero_area(p))(p).isnan().tolist() == [True, False]
