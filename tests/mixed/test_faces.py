"""Faces, and the rule that integrates over all of them."""

import math

import pytest
import torch

from mixed.oracle import subsets
from omegamax import mixed
from omegamax.mixed._faces import on_faces


@pytest.mark.parametrize("vertices", [1, 2, 3, 5])
def test_faces_are_all_subsets_small_ones_first(vertices):
    rows = [f.nonzero().flatten().tolist() for f in mixed.faces(vertices)]
    assert rows == list(subsets(vertices))


def test_a_change_to_a_table_of_faces_does_not_stay():
    mixed.faces(3)[:] = False
    assert mixed.faces(3).any(-1).all()


@pytest.mark.parametrize("vertices", [1, 2, 3, 4])
def test_face_nodes_integrate_polynomials_on_every_face(vertices):
    # On a face of k vertices the mean of y_1^a y_2^b is that of a flat Dirichlet distribution.
    y, w = mixed.face_nodes(vertices, order=6, dtype=torch.float64)
    torch.testing.assert_close(y.sum(-1), torch.ones_like(w))
    for face in mixed.faces(vertices):
        own = (mixed.face_of(y) == face).all(-1)
        k = int(face.sum())
        inside = face.nonzero().flatten()
        for powers in [(0, 0), (1, 0), (2, 1), (3, 3)]:
            if k == 1 and powers[1]:
                continue
            value = w[own]
            exact = 1.0
            for at, power in zip(inside.tolist(), powers, strict=False):
                value = value * y[own][:, at] ** power
                exact *= math.factorial(power)
            exact /= math.factorial(k - 1 + sum(powers)) if k > 1 else 1.0
            assert value.sum().item() == pytest.approx(exact if k > 1 else 1.0, abs=1e-15)


def test_face_nodes_are_ordered_by_face():
    y, _ = mixed.face_nodes(3, order=2)
    every = (y > 0).unique_consecutive(dim=0)
    assert torch.equal(every, mixed.faces(3))


@pytest.mark.parametrize("bad", [0, 17, -1])
def test_faces_refuse_what_cannot_be_listed(bad):
    with pytest.raises(ValueError, match=r"faces: vertices must lie in \[1, 16\]"):
        mixed.faces(bad)


def test_faces_refuse_what_is_not_an_int():
    with pytest.raises(TypeError, match="faces: vertices must be an int, got float"):
        mixed.faces(3.0)
    with pytest.raises(ValueError, match="face_nodes: order must be an int of at least 1, got 0"):
        mixed.face_nodes(3, order=0)
    with pytest.raises(ValueError, match="face_nodes: order"):
        mixed.face_nodes(8, order=24)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_the_support_has_the_slack_of_its_dtype(dtype):
    y = torch.full((256,), 1 / 256).to(dtype)
    y = y / y.sum()
    assert on_faces.check(y)
    assert not on_faces.check(2 * y)
    assert not on_faces.check(torch.cat([y, torch.tensor([-0.1, 0.1]).to(dtype)]))
    assert not on_faces.check(torch.full((3,), math.nan, dtype=dtype))
