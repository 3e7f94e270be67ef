"""A run of ``cross_validate`` that the tests of this folder share; marks of scikit-learn's."""

from __future__ import annotations

import pytest


def pytest_configure(config):
    """Marks of scikit-learn's own tests, which run here, too."""
    config.addinivalue_line("markers", "thread_unsafe: scikit-learn's, of tests in threads")


@pytest.fixture(scope="session")
def finished(finished_of):
    return finished_of("cross_validate")
