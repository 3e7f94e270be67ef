"""The peers on threads: what processes joblib starts for them is not tested here."""

from __future__ import annotations

import joblib
import pytest


@pytest.fixture(autouse=True)
def threads():
    with joblib.parallel_config(backend="threading"):
        yield
