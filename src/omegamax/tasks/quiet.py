"""Messages of Lightning that are of no use to those who run a command."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

_INFO = "lightning.pytorch.utilities.rank_zero"
_WARNINGS = (
    # Of Lightning's use of torch.
    (r"`isinstance\(treespec, LeafSpec\)` is deprecated", FutureWarning),
    # Short runs log little, and going on with a run finds its files.
    (r"The number of training batches .* is smaller than the logging interval", UserWarning),
    (r"Checkpoint directory .* exists and is not empty", UserWarning),
    (r"The dirpath has changed from .*, therefore `best_model_score`", UserWarning),
    (r"Experiment logs directory .* exists and is not empty", UserWarning),
    # A test reads the mean of the weights, which stands in their place, and restores no more.
    (r"You're using the WeightAveraging callback, but loading a checkpoint outside the 'fit' stage", UserWarning),
)


@contextmanager
def quiet() -> Iterator[None]:
    """Run a block without advertisements, and without warnings that ask nothing of the user."""
    logger = logging.getLogger(_INFO)
    logger.addFilter(_no_advertisement)
    try:
        with warnings.catch_warnings():
            for message, category in _WARNINGS:
                warnings.filterwarnings("ignore", message, category)
            # Of Lightning's use of jsonargparse.
            warnings.filterwarnings("ignore", category=DeprecationWarning, module=r"lightning\.pytorch\.cli")
            yield
    finally:
        logger.removeFilter(_no_advertisement)


def _no_advertisement(record: logging.LogRecord) -> bool:
    return "Tip: For seamless cloud" not in record.getMessage()
