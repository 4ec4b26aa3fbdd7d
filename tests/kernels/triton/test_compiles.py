"""Every Triton kernel compiles for a GPU, be there one or not: the interpreter takes more than a compiler."""

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
    [("rows", 66), ("bounds", 6), ("losses", 32), ("attention", 45), ("contour", 8), ("variation", 7)],
)
def test_kernels_compile_for_hopper(operation, kernels, tmp_path):
    environment = {**os.environ, "TRITON_INTERPRET": "0", "TRITON_CACHE_DIR": str(tmp_path)}
    path = Path(__file__).parents[1] / operation / "compile_for_hopper.py"
    done = subprocess.run([sys.executable, str(path)], env=environment, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-3000:]
    assert len(done.stdout.splitlines()) == kernels, done.stdout
