"""Runs of ``svm_grid`` that the tests of this folder share."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def finished(finished_of: Callable[[str], tuple[Path, str]]) -> tuple[Path, str]:
    """Its best gamma is the largest."""
    return finished_of("svm_grid")
