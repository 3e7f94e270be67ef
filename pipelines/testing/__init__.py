"""Contracts that strategies, shared fits, backends, clusters and loggers of others are held to.

Each is a class of tests. Who writes such a part subclasses it in a test file and defines its
fixture; pytest does the rest::

    class TestMine(StrategyContract):
        @pytest.fixture
        def make_strategy(self):
            return MyStrategy
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pipelines.testing.backends import BackendContract
    from pipelines.testing.clusters import ClusterKindContract
    from pipelines.testing.loggers import LoggerContract
    from pipelines.testing.shared_fits import SharedFitContract
    from pipelines.testing.strategies import StrategyContract

__all__ = [
    "BackendContract",
    "ClusterKindContract",
    "LoggerContract",
    "SharedFitContract",
    "StrategyContract",
]
_MODULES = {
    "BackendContract": "backends",
    "ClusterKindContract": "clusters",
    "LoggerContract": "loggers",
    "SharedFitContract": "shared_fits",
    "StrategyContract": "strategies",
}
# pytest explains the asserts of test files alone, unless it is told of others before their import.
pytest.register_assert_rewrite(*(f"{__name__}.{module}" for module in _MODULES.values()))


def __getattr__(name: str) -> Any:
    # Who tests a cluster does without scikit-learn.
    if name in _MODULES:
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
