"""What all Triton kernels share, and whether they can be used: Triton is imported when a GPU tensor first needs it."""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings
from collections.abc import Hashable
from typing import Any

# Launches of maps of contiguous rows, by what tells them apart: here, where one is looked for without importing Triton.
kept_launches: dict[Hashable, Any] = {}

NEEDED = (3, 4)  # the first version with triton.knobs


def _read_version() -> tuple[int, ...] | None:
    """Return the version that is installed, read from its source: importing it takes a while."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    with open(spec.origin, encoding="utf-8") as source:
        stated = re.search(r"^__version__ *= *[\"'](\d+)\.(\d+)", source.read(), re.MULTILINE)
    return tuple(map(int, stated.groups())) if stated else NEEDED


FOUND = _read_version()  # known before anything is traced, so that torch.compile need not look for it


def available() -> bool:
    """Return whether there is a Triton that compiles these kernels; torch for CUDA brings one."""
    return FOUND is not None and FOUND >= NEEDED


@functools.cache
def warn_if_old() -> None:
    """Warn once if there is a Triton that is too old to be used."""
    if FOUND is not None and FOUND < NEEDED:
        found, needed = (".".join(map(str, version)) for version in (FOUND, NEEDED))
        warnings.warn(
            f"omegamax: found Triton {found}, its GPU kernels need {needed} or later, so the maps run on plain torch, "
            "which is exact but slower. A newer torch brings a newer Triton.",
            RuntimeWarning,
            stacklevel=2,
        )
