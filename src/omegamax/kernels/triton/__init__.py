"""Kernels for GPUs, written in Triton: imported when a tensor on a GPU first needs one, never on other machines."""

from __future__ import annotations

import functools
import importlib.util
import re
import warnings

NEEDED = (3, 4)  # the first version with triton.knobs


def _found() -> tuple[int, ...] | None:
    """The version that is installed, read from its source: an import takes a while, and most processes need none."""
    spec = importlib.util.find_spec("triton")
    if spec is None or spec.origin is None:
        return None
    with open(spec.origin, encoding="utf-8") as source:
        stated = re.search(r"^__version__ *= *[\"'](\d+)\.(\d+)", source.read(), re.MULTILINE)
    return tuple(map(int, stated.groups())) if stated else NEEDED


FOUND = _found()  # known before anything is traced: compilers look for nothing


def available() -> bool:
    """Whether there is a Triton that compiles these kernels; torch for CUDA brings one."""
    return FOUND is not None and FOUND >= NEEDED


@functools.cache
def warn_if_old() -> None:
    """Say once that there is a Triton and that it is not used."""
    if FOUND is not None and FOUND < NEEDED:
        found, needed = (".".join(map(str, version)) for version in (FOUND, NEEDED))
        warnings.warn(
            f"omegamax: found Triton {found}, its GPU kernels need {needed} or later, so the maps run on plain torch, "
            "which is exact but slower. A newer torch brings a newer Triton.",
            RuntimeWarning,
            stacklevel=2,
        )
