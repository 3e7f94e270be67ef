"""Tests that need a GPU: where it, or a package, is missing, they are skipped by its name.

A machine's own Python may lack pytest, and then ``benchmarks.gpu.child`` calls the
test functions: they take no fixtures, and import what may be missing inside.
"""

import pytest

from benchmarks.gpu.checks import missing, needs_of


def pytest_runtest_setup(item):
    reason = missing(needs_of(item.path.name))
    if reason is not None:
        pytest.skip(reason)
