"""Small networks train with one thread, unless the user says how many."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

pytest.importorskip("lightning")

import lightning as L

from omegamax.tasks.threads import SMALL, VARIABLE, Threads


class Network(L.LightningModule):
    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(size))


@pytest.fixture
def two_threads(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.delenv(VARIABLE, raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


def during_fit(size: int) -> int:
    callback, network, trainer = Threads(), Network(size), SimpleNamespace()
    callback.on_fit_start(trainer, network)
    count = torch.get_num_threads()
    callback.teardown(trainer, network, "fit")
    return count


def test_small_network_takes_one_thread_and_gives_the_others_back(two_threads):
    assert during_fit(10) == 1
    assert torch.get_num_threads() == 2


def test_large_network_keeps_its_threads(two_threads):
    assert during_fit(SMALL) == 2


def test_number_that_the_user_set_stays(two_threads, monkeypatch):
    monkeypatch.setenv(VARIABLE, "2")
    assert during_fit(10) == 2
