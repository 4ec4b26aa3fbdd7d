"""Which rule computes the expectation of which basis under which density."""

from __future__ import annotations

import pytest
import torch

from omegamax.basis import Basis, GaussianRBF
from omegamax.densities import BetaGaussian, Density, _base, register_expectation


class Parent(Density):
    """A density over the line that nothing is known of."""

    def __init__(self) -> None:
        super().__init__(torch.Size([]), torch.Size([1]), validate_args=False)


class Child(Parent):
    pass


class Grandchild(Child):
    pass


class Bumps(Basis):
    dimension = 1

    def __len__(self) -> int:
        return 1


class RoundBumps(Bumps):
    pass


@pytest.fixture(autouse=True)
def empty_registry(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(_base, "EXPECTATIONS", dict(_base.EXPECTATIONS))


def answer(number: float):
    """A rule that says which one it is."""
    return lambda density, basis: torch.tensor([number])


def test_rule_of_an_ancestor_serves_its_descendants():
    register_expectation(Parent, Bumps)(answer(1.0))
    for density in (Parent(), Child(), Grandchild()):
        for basis in (Bumps(), RoundBumps()):
            assert density.expect(basis).item() == 1.0


def test_closest_pair_of_types_wins():
    register_expectation(Parent, Bumps)(answer(1.0))
    register_expectation(Child, Bumps)(answer(2.0))
    register_expectation(Child, RoundBumps)(answer(3.0))
    assert Parent().expect(RoundBumps()).item() == 1.0
    assert Child().expect(Bumps()).item() == 2.0
    assert Child().expect(RoundBumps()).item() == 3.0
    assert Grandchild().expect(Bumps()).item() == 2.0
    assert Grandchild().expect(RoundBumps()).item() == 3.0


def test_density_weighs_more_than_basis():
    register_expectation(Parent, RoundBumps)(answer(1.0))
    register_expectation(Child, Bumps)(answer(2.0))
    assert Child().expect(RoundBumps()).item() == 2.0
    assert Parent().expect(RoundBumps()).item() == 1.0


def test_later_rule_for_the_same_types_replaces_the_earlier():
    register_expectation(Parent, Bumps)(answer(1.0))
    register_expectation(Parent, Bumps)(answer(2.0))
    assert Parent().expect(Bumps()).item() == 2.0


def test_decorated_function_is_still_itself():
    function = answer(1.0)
    assert register_expectation(Parent, Bumps)(function) is function


def test_unknown_pair_is_named():
    with pytest.raises(NotImplementedError, match=r"Grandchild.*RoundBumps"):
        Grandchild().expect(RoundBumps())
    with pytest.raises(NotImplementedError, match=r"Parent.*GaussianRBF"):
        Parent().expect(GaussianRBF(torch.zeros(1, 1), 1.0))


@pytest.mark.parametrize(("n", "k"), [(1, 2), (2, 1), (3, 2)])
def test_dimensions_must_agree(n: int, k: int):
    density, basis = BetaGaussian(torch.zeros(n), 1.0), GaussianRBF(torch.zeros(4, k), 1.0)
    with pytest.raises(ValueError, match=rf"{n} dimension.*GaussianRBF over {k}"):
        density.expect(basis)
