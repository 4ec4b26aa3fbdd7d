"""Compute what a GPU would on the CPU: by Triton's kernels, and Triton's interpreter."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from tests.kernels.interpreter import allow_run_time_loops, quicken
from torch import Tensor

from omegamax import kernels
from omegamax.kernels import _dispatch
from omegamax.nn import _row_weights

INTERPRETER = "interpreter"  # in the place of a device


def is_compiled(op: str, z: Tensor) -> bool:
    """Tell whether a GPU would run ``op`` as a kernel."""
    return kernels.current_backend() in ("auto", "triton") and "triton" in kernels.TABLE.get(op, ())


def poisoned(make: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Fill new memory with what spoils results if a kernel reads what none has written."""

    def fill(*given, **options) -> Tensor:
        new = make(*given, **options)
        if new.is_floating_point():
            return new.fill_(torch.nan)
        return new if new.dtype == torch.bool or new.is_complex() else new.fill_(torch.iinfo(new.dtype).max)

    return fill


@contextmanager
def interpreted() -> Iterator[None]:
    """Send operations on the CPU to Triton's kernels, where there is one; before Triton is imported."""
    os.environ["TRITON_INTERPRET"] = "1"
    with pytest.MonkeyPatch.context() as patch, np.errstate(all="ignore"):  # of lanes that are dropped
        quicken(patch)
        allow_run_time_loops(patch)
        patch.setitem(_dispatch.PREFERENCE, "cpu", ("triton", "reference"))
        for module in (kernels, _dispatch):
            patch.setattr(module, "is_compiled", is_compiled)
            patch.setattr(module, "takes_half", is_compiled)
        patch.setattr(_row_weights, "readable", lambda t: False)
        for owner, name in ((torch, "empty"), (torch, "empty_like"), (torch.Tensor, "new_empty")):
            patch.setattr(owner, name, poisoned(getattr(owner, name)))
        _dispatch._find.cache_clear()
        yield
    _dispatch._find.cache_clear()
