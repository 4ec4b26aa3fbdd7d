"""What two processes do with their slices of the scores; run by test_sharded.py, one process for each rank."""

from __future__ import annotations

import os
import sys
from typing import Any

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Shard

import omegamax

SIZES = (4, 7)  # classes of the two


def scores(dtype: torch.dtype = torch.float64) -> torch.Tensor:
    z = 2 * torch.randn(6, sum(SIZES), generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    z[2, 1:5] = -torch.inf
    z[3] = z[3].round()
    return z.to(dtype)


TARGET = torch.tensor([0, 10, 5, -100, 3, 4])
CASES: list[dict[str, Any]] = [
    *({"alpha": alpha, "reduction": "none"} for alpha in (0.7, 1.0, 1.2, 1.5, 2.0)),
    {"alpha": 1.5, "reduction": "mean"},
    {"alpha": 1.5, "reduction": "sum", "label_smoothing": 0.2},
    {"alpha": 1.3, "reduction": "mean", "dtype": torch.float32},
]


def outcome(loss, z, target, alpha, dtype=torch.float64, **options) -> dict[str, torch.Tensor]:
    a = torch.tensor(alpha, dtype=torch.float64, requires_grad=True)
    z = z.requires_grad_()
    value = loss(z, target, a, **options)
    value.sum().backward()
    return {"loss": value.detach(), "z": z.grad, "alpha": a.grad}


def main(rank: int, store: str, out: str) -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=2)
    found = []
    for case in CASES:
        mine = scores(case.get("dtype", torch.float64)).split(SIZES, -1)[rank].clone()
        target = TARGET.clone()
        if case.get("label_smoothing"):
            mine = mine.clamp(min=-3)  # what is masked costs infinitely much
        found.append(outcome(omegamax.sharded_entmax_loss, mine, target, **case))
    mesh = init_device_mesh("cpu", (2,))
    even = scores()[:, :10].chunk(2, -1)[rank].clone().requires_grad_()
    spread = DTensor.from_local(even, mesh, [Shard(1)])
    loss = omegamax.sharded_entmax_loss(spread, TARGET.clamp(max=9), 1.5)
    loss.backward()
    found.append({"loss": loss.detach(), "z": even.grad, "alpha": torch.zeros(())})
    errors = []
    for z, target, alpha in ((even, TARGET + 20, 1.5), (even, TARGET, 3.0), (even, TARGET[:3], 1.5)):
        try:
            omegamax.sharded_entmax_loss(z, target, alpha)
        except (ValueError, IndexError) as error:
            errors.append(str(error))
    torch.save({"found": found, "errors": errors}, f"{out}/{rank}.pt")
    dist.barrier()  # neither leaves while the other still reads from it
    dist.destroy_process_group()
    # The mesh keeps groups of its own, whose threads Python's end may catch running: torch then aborts, now and then.
    os._exit(0)


if __name__ == "__main__":
    main(int(sys.argv[1]), *sys.argv[2:])
