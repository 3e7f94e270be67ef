"""Runs of ``cross_validate`` that the tests of this folder share."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from pipelines.cross_validate import main
from tests.command_runs import command_line

SMALL = ["--limit", "300", "--folds", "3", "--cluster", "local", "--estimator", "knn",
         "--param", "n_neighbors=1,3,5", "--estimator", "forest", "--param",
         "n_estimators=5,10", "max_depth=3,none"]  # fmt: skip
# Fits that share nothing, so that there are many tasks to disturb.
LONGER = ["--limit", "500", "--folds", "4", "--cluster", "local", "--estimator", "tree", "--param",
          "max_depth=1,2,3,4,5,6,7,8,9,10", "splitter=best,random",
          "--estimator", "knn"]  # fmt: skip


def pytest_configure(config: pytest.Config) -> None:
    """Marks of scikit-learn's own tests, which run here, too."""
    config.addinivalue_line("markers", "thread_unsafe: scikit-learn's, of tests in threads")


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    folder = tmp_path_factory.mktemp("runs") / "small"
    done = subprocess.run(
        command_line("cross_validate", *SMALL, "--results", str(folder)),
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
