"""Each build of the compiled kernels, not only the one that suits this processor best."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from omegamax.kernels import _library

HERE = Path(__file__).parent
KERNELS = HERE.parent / "kernels"
FILES = [HERE / "test_kernels.py", KERNELS / "contour" / "test_contour.py", KERNELS / "mixtures" / "test_em.py"]
LESSER = {"AVX512": ("avx2", "default"), "AVX2": ("default",)}.get(torch.backends.cpu.get_cpu_capability(), ())


@pytest.mark.slow
@pytest.mark.parametrize("capability", LESSER)
def test_build_for_a_lesser_processor_agrees_with_the_reference(capability: str):
    environment = {**os.environ, "ATEN_CPU_CAPABILITY": capability}  # torch, and so the loader, obey it
    loaded = subprocess.run(
        [sys.executable, "-c", "from omegamax.kernels import _library; print(_library.open_library('rows'))"],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    if _library.is_available("rows"):
        assert {"avx2": "_avx2.", "default": "_base."}[capability] in loaded
    chosen = "forward_agrees or vjp_agrees or gradient_agrees"
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *map(str, FILES), "-k", chosen],
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-3000:]
