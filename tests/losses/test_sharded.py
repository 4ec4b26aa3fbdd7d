"""Two processes with a slice of the classes each find the loss and the gradients of one with all of them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tests.losses.sharded_workers import CASES, SIZES, TARGET, outcome, scores

import omegamax

WORKER = Path(__file__).with_name("sharded_workers.py")


@pytest.fixture(scope="module")
def ranks(tmp_path_factory) -> list[dict]:
    folder = tmp_path_factory.mktemp("sharded")
    command = [sys.executable, str(WORKER)]
    running = [
        subprocess.Popen([*command, str(rank), str(folder / "store"), str(folder)], stderr=subprocess.PIPE, text=True)
        for rank in range(2)
    ]
    for process in running:
        _, error = process.communicate(timeout=600)
        assert process.returncode == 0, error
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in range(2)]


@pytest.mark.parametrize("number", range(len(CASES)))
def test_two_processes_find_what_one_finds(ranks, number: int):
    case = CASES[number]
    z = scores()
    if case.get("label_smoothing"):
        z = z.clamp(min=-3)
    wanted = outcome(omegamax.entmax_loss, z, TARGET, **{k: v for k, v in case.items() if k != "dtype"})
    atol = 1e-10 if case.get("dtype", torch.float64) is torch.float64 else 2e-6
    for rank, slice_ in enumerate(wanted["z"].split(SIZES, -1)):
        found = ranks[rank]["found"][number]
        for name, value in (("loss", wanted["loss"]), ("alpha", wanted["alpha"]), ("z", slice_)):
            torch.testing.assert_close(found[name].double(), value, rtol=0, atol=atol, msg=f"{name} of {rank}, {case}")
    assert torch.equal(ranks[0]["found"][number]["loss"], ranks[1]["found"][number]["loss"])


def test_a_distributed_tensor_knows_its_processes(ranks):
    wanted = outcome(omegamax.entmax_loss, scores()[:, :10].clone(), TARGET.clamp(max=9), 1.5)
    for rank, slice_ in enumerate(wanted["z"].chunk(2, -1)):
        found = ranks[rank]["found"][-1]
        torch.testing.assert_close(found["loss"], wanted["loss"], rtol=0, atol=1e-10)
        torch.testing.assert_close(found["z"], slice_, rtol=0, atol=1e-10)


def test_what_does_not_fit_is_refused_by_all(ranks):
    for rank in ranks:
        assert [error.split(": ")[1][:24] for error in rank["errors"]] == [
            "target must hold class i",
            "alpha must be one number",
            "z must have shape [N, C]",
        ]


def test_processes_must_know_of_each_other():
    with pytest.raises(RuntimeError, match=r"torch\.distributed must be initialised"):
        omegamax.sharded_entmax_loss(torch.zeros(2, 3), torch.zeros(2, dtype=torch.long))
