"""One tour for all tests of it."""

import contextlib
import io

import pytest


@pytest.fixture(scope="session")
def printed_and_folder(tmp_path_factory):
    from omegamax.cli.main import main

    out = tmp_path_factory.mktemp("demo") / "tour"
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        assert main(["tour", "--out", str(out)]) == 0
    return printed.getvalue(), out


@pytest.fixture(scope="session")
def folder(printed_and_folder):
    return printed_and_folder[1]
