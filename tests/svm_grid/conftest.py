"""Runs of ``svm_grid`` that the tests of this folder share."""

from __future__ import annotations

import pytest

from tests.command_runs import run_as_a_process


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """Its best gamma is the largest."""
    return run_as_a_process("svm_grid", tmp_path_factory.mktemp("runs") / "svm_grid")
