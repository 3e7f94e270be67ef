"""Runs of ``svm_grid`` that the tests of this folder share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.svm_grid import main
from tests.command_runs import command_line

# Its best gamma is the largest.
SMALL = ["--limit", "400", "--n-c", "3", "--n-gamma", "3", "--log-gamma", "-6", "-2",
         "--folds", "3", "--cluster", "local"]  # fmt: skip
# A solver that shares nothing, so that there are many tasks to disturb.
LONGER = ["--limit", "500", "--n-c", "5", "--n-gamma", "4", "--cluster", "local",
          "--solver", "sklearn"]  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "small"
    done = subprocess.run(
        command_line("svm_grid", *SMALL, "--results", str(folder)),
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    return folder, done.stdout


@pytest.fixture(scope="session")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "longer"
    assert main([*LONGER, "--results", str(folder), "--quiet"]) == 0
    return folder
