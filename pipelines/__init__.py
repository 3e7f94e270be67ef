"""Thousands of independent fits, on a laptop or on hundreds of GPUs."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.bagging.estimator import BaggedNets
    from pipelines.search.cross_validate_many import cross_validate_many
    from pipelines.search.grid_search import GridSearch
    from pipelines.search.svm_grid_search import SVMGridSearch
    from pipelines.svm.path_svc import PathSVC
    from pipelines.svm.path_svr import PathSVR

    __version__: str

__all__ = [
    "BaggedNets", "GridSearch", "PathSVC", "PathSVR", "SVMGridSearch", "cross_validate_many",
]  # fmt: skip
_PLACES = {
    "BaggedNets": "bagging.estimator", "GridSearch": "search.grid_search",
    "PathSVC": "svm.path_svc", "PathSVR": "svm.path_svr",
    "SVMGridSearch": "search.svm_grid_search",
    "cross_validate_many": "search.cross_validate_many",
}  # fmt: skip


def __getattr__(name: str) -> Any:
    # Loaded when asked for: --help must not wait for scikit-learn.
    if name in _PLACES:
        return getattr(import_module(f"pipelines.{_PLACES[name]}"), name)
    if name == "__version__":
        from importlib.metadata import version

        return version("pleasingly")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
