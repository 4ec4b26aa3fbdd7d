"""Every Triton kernel compiles for a GPU, be there one or not, and fits on it: an interpreter takes more than both."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("triton", minversion="3.4")


@pytest.mark.slow
@pytest.mark.parametrize(
    "operation, kernels",
    [
        ("rows", 83),
        ("bounds", 11),
        ("losses", 43),
        ("attention", 63),
        ("contour", 18),
        ("moments", 16),
        ("plane", 12),
        ("mixtures", 31),
        ("variation", 18),
    ],
)
def test_kernels_compile_for_hopper(operation, kernels, tmp_path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    command = [sys.executable, "-m", f"kernels.{operation}.compile_for_hopper"]
    tests = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=tests, env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == kernels, done.stdout
