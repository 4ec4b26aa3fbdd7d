"""The entmax package's own tests, unchanged, against the stand-in."""

import os
import re
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

FILES = ["test_losses.py", "test_mask.py", "test_root_finding.py", "test_topk.py"]
HERE = Path(__file__).parent


@pytest.mark.slow
def test_own_tests_of_the_entmax_package_pass(tmp_path):
    # Copied out of their package: inside it, pytest would import the package itself and not its stand-in.
    for name in FILES:
        shutil.copy(Path(find_spec("entmax").origin).parent / name, tmp_path)
    options = ["-p", "upstream_plugin", "-p", "no:cacheprovider", "--color=no", f"--rootdir={tmp_path}"]
    result = subprocess.run(
        [sys.executable, "-m", "pytest", *options, *FILES],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(HERE), "PYTEST_ADDOPTS": "", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
    )
    assert "entmax is omegamax.compat.entmax" in result.stdout, result.stdout + result.stderr
    assert result.returncode == 0, result.stdout
    passed = int(re.search(r"(\d+) passed", result.stdout)[1])
    assert passed >= 100 and "skipped" not in result.stdout, result.stdout
