"""Triton's interpreter, made to run loops whose bounds are known only when they run."""

from __future__ import annotations

import pytest
import torch

from kernels.interpreter import allow_run_time_loops
from kernels.interpreter import quick_interpreter as quick_interpreter


def choose_as_if_long(operation: str, case, itemsize: int, size: int) -> tuple[str, ...]:
    """Choose the kernels of long rows for rows of more than 8 entries, which the interpreter can solve."""
    from omegamax.kernels.choice import choose

    return choose(operation, case, itemsize, size if size <= 8 else 10**6)


@pytest.fixture
def run_time_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the interpreter run loops whose ends are known only then."""
    pytest.importorskip("triton", minversion="3.4")
    if not torch.cuda.is_available():
        allow_run_time_loops(monkeypatch)
