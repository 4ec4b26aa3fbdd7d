"""Compute what a GPU would on the CPU: by Triton's kernels, and Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
from tests.kernels.interpreter import allow_run_time_loops, quicken

from omegamax.kernels import _dispatch

INTERPRETER = "interpreter"  # in the place of a device


@contextmanager
def interpreted() -> Iterator[None]:
    """Send operations on the CPU to Triton's kernels, where there is one; before Triton is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):  # of lanes that are dropped
        quicken(patch)
        allow_run_time_loops(patch)
        patch.setitem(_dispatch.PREFERENCE, "cpu", ("triton", "reference"))
        _dispatch._find.cache_clear()
        yield
    _dispatch._find.cache_clear()
