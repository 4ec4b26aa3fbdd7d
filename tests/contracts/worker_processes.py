"""A program: the maps in workers of a parent that uses the kernels with two threads. Prints which found the same."""

from __future__ import annotations

import multiprocessing

import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

import omegamax

ROWS, SIZE = 1200, 64


MAPS = (
    omegamax.softmax,
    omegamax.sparsemax,
    omegamax.entmax15,
    lambda z: omegamax.entmax(z, 1.25),
    omegamax.normmax,
    lambda z: omegamax.k_subsets(z, 3),
    lambda z: omegamax.tv_prox_1d(z, 0.3),
    lambda z: omegamax.tv_prox_2d(z.reshape(-1, 8, 8), 0.1).reshape(z.shape),
)


def scores(seed: int) -> Tensor:
    """Enough rows to be split over threads."""
    return torch.randn(ROWS, SIZE, generator=torch.Generator().manual_seed(seed))


def results(seed: int) -> Tensor:
    """Outputs and gradients of one map of each kind."""
    z = scores(seed).requires_grad_()
    parts = []
    for apply in MAPS:
        p = apply(z)
        parts += [p.detach(), torch.autograd.grad(p, z, z.detach().cos())[0]]
    return torch.stack(parts).double().sum((1, 2))


class Seeds(Dataset):
    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        return results(index)


def child(z: Tensor, queue) -> None:
    # Only the library's kernels: torch's own do not survive a fork with their threads on.
    torch.set_num_threads(2)
    queue.put([float(apply(z).numpy().sum(dtype="float64")) for apply in MAPS])


def forked() -> Tensor:
    """What a child of this process finds."""
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=child, args=(scores(0), queue))
    process.start()
    found = torch.tensor(queue.get(timeout=300), dtype=torch.float64)
    process.join()
    return found


def check(start: str) -> None:
    if start == "fork before use":
        torch.randn(1200, 1200).sin().sum()  # torch's threads are there, and no library of ours is open yet
        found, expected = forked(), results(0)[::2]
    elif start == "fork with threads":
        expected = results(0)[::2]
        found = forked()
    else:
        expected = torch.stack([results(seed) for seed in range(4)])
        loader = DataLoader(Seeds(), batch_size=2, num_workers=2, multiprocessing_context=start, timeout=300)
        found = torch.cat(list(loader))
    assert torch.allclose(found, expected, rtol=0, atol=1e-7), (start, (found - expected).abs().max())
    print(start, flush=True)


if __name__ == "__main__":
    torch.set_num_threads(2)
    for way in ("fork before use", "fork with threads", "fork", "spawn"):
        check(way)
