"""How far does the share of nines in a bag go? A threshold on it, chosen on training bags, for two ways to draw bags.

python experiments/mil/shares.py          # --data FOLDER, or OMEGAMAX_DATA, with mnist in it

writes ``results/shares.csv``. Weights that add up to one and are the same for all digits show a classifier the share of
nines, and not how many there are. The share is counted from the labels of the digits: what a perfect eye would get.
"""

from __future__ import annotations

import argparse
import os
import sys
from pathlib import Path
from typing import Any

import torch
from job import BAGS, DIGITS, HERE
from torch import Tensor

from omegamax.data import MNIST
from omegamax.tasks.mil.data import SPLITS, MNISTBagsData
from omegamax.tasks.trials import Trials

FILE = HERE / "results" / "shares.csv"
KEYS = ("set", "mean", "deviation")
COLUMNS = (*KEYS, "threshold", "train_accuracy", "accuracy", "bags")


def best_threshold(share: Tensor, label: Tensor) -> tuple[float, float]:
    """Return the threshold with the most bags on their side of it (positive: at least that), and their part."""
    marks = torch.cat([share.unique(), torch.tensor([2.0])])
    right = ((share[:, None] >= marks) == (label[:, None] == 1)).double().mean(0)
    best = int(right.argmax())
    return float(marks[best]), float(right[best])


def shares(data: MNISTBagsData, split: str, digits: MNIST) -> tuple[Tensor, Tensor]:
    """Return the share of nines of each bag, and its label."""
    table = data.draw(split, digits).table()
    assert table.positive is not None
    return (table.positive & table.mask).sum(1).double() / table.mask.sum(1), table.label


def measure(folder: str, name: str, mean: float, deviation: float, bags: tuple[int, int, int] = BAGS) -> dict[str, Any]:
    """Return the row of a set with bags of this mean and deviation."""
    data = MNISTBagsData(folder, DIGITS[name], bags=bags, mean=mean, deviation=deviation)
    found = {split: shares(data, split, data.digits(split)) for split in SPLITS}
    threshold, train = best_threshold(*found["train"])
    share, label = found["test"]
    accuracy = float(((share >= threshold) == (label == 1)).double().mean())
    row = {"set": name, "mean": mean, "deviation": deviation, "threshold": round(threshold, 4)}
    return {**row, "train_accuracy": round(train, 4), "accuracy": round(accuracy, 4), "bags": bags[2]}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default=os.environ.get("OMEGAMAX_DATA"), help="folder with the folder of the digits")
    parser.add_argument("--out", type=Path, default=FILE)
    options = parser.parse_args()
    if options.data is None:
        parser.error("give the folder with the sets, --data or the variable OMEGAMAX_DATA")
    file = Trials(options.out, COLUMNS, KEYS)
    folder = str(Path(options.data) / "mnist")
    for name, count in DIGITS.items():
        for mean, deviation in dict.fromkeys(((9.0 + count, float(count)), (10.0, 1.0))):
            if file.missing([{"set": name, "mean": mean, "deviation": deviation}]):
                file.add([measure(folder, name, mean, deviation)])
    return 0


if __name__ == "__main__":
    sys.exit(main())
