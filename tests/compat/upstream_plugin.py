"""A pytest plugin under which ``import entmax`` finds :mod:`omegamax.compat.entmax`, with torch's seed fixed."""

import importlib
import os
import sys

import pytest
import torch

SEED = int(os.environ.get("OMEGAMAX_UPSTREAM_SEED", "0"))


def pytest_configure():
    # Here and not on import: collecting doctests imports this file too.
    for name in ("", ".activations", ".root_finding", ".losses"):
        sys.modules[f"entmax{name}"] = importlib.import_module(f"omegamax.compat.entmax{name}")
    torch.manual_seed(SEED)  # some inputs are drawn while the test files are imported


def pytest_report_header():
    return f"entmax is {importlib.import_module('entmax').__name__}"


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup():
    torch.manual_seed(SEED)
