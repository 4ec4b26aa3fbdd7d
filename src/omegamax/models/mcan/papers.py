"""The attention of every row of the papers' tables, by name.

All were trained with Adam, batches of 64, the sizes of :meth:`MCANConfig.paper`, binary cross-entropy, and

* tables 6.2 and 6.3 of the thesis, table 2 of Martins et al. (NeurIPS 2020): 13 epochs, a learning rate of
  min(2.5 t 1e-5, 1e-4) in epoch t = 1, 2, ..., multiplied by 0.2 at epochs 10 and 12;
* table 1 of Farinhas, Martins and Aguiar (2021): at most 15 epochs, min(2.5 t 1e-5, 5e-4), after 10 epochs
  multiplied by 0.2 every 2.
"""

from __future__ import annotations

from typing import Any

from omegamax.models.mcan.config import OutputConfig

FLOOR = 1e-6  # variance that the authors add to covariances


def _continuous(kind: str, functions: int, padding: bool = True) -> OutputConfig:
    return OutputConfig(kind, functions=functions, padding=padding, floor=FLOOR)


def _multimodal(components: str, most: int, iterations: tuple[int, int], **settings: Any) -> OutputConfig:
    settings = {"floor": FLOOR, **settings}
    return OutputConfig("multimodal", components=components, max_components=most, iterations=iterations, **settings)


# Farinhas (thesis, 2021), Tables 6.1 to 6.4; from "unimodal" on: Farinhas, Martins and Aguiar (2021), Sec. 6.1. The
# floor is that of the code that both come with; K-MCA starts from a split of the image, the others at random.
PAPERS: dict[str, OutputConfig] = {
    "softmax": OutputConfig("softmax"),
    "continuous-softmax-100": _continuous("continuous_softmax", 10),
    "continuous-softmax-49": _continuous("continuous_softmax", 7),
    "continuous-sparsemax-100": _continuous("continuous_sparsemax", 10),
    "continuous-sparsemax-49": _continuous("continuous_sparsemax", 7),
    "2-mca": _multimodal("fixed", 2, (2, 2)),
    "4-mca": _multimodal("fixed", 4, (5, 5)),
    "test-mca-10": _multimodal("test", 5, (20, 20), init="random", selection=10.0),
    "test-mca-100": _multimodal("test", 5, (20, 20), init="random", selection=100.0),
    "test-mca-500": _multimodal("test", 5, (20, 20), init="random", selection=500.0),
    "unimodal": _continuous("continuous_softmax", 10, padding=False),
    "multimodal": _multimodal("random", 4, (5, 10), init="random", padding=False, selection=5.0),
}
