"""Thousands of independent fits, on a laptop or on hundreds of GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.bagging.estimator import BaggedNets
    from pipelines.svm.estimator import SVMGridSearch
    from pipelines.svm.path_svc import PathSVC
    from pipelines.validation.grid_search import GridSearch
    from pipelines.validation.many import cross_validate_many

    __version__: str

__all__ = ["BaggedNets", "GridSearch", "PathSVC", "SVMGridSearch", "cross_validate_many"]


def __getattr__(name: str) -> Any:
    # Loaded when asked for: --help must not wait for scikit-learn.
    if name == "SVMGridSearch":
        from pipelines.svm.estimator import SVMGridSearch

        return SVMGridSearch
    if name == "BaggedNets":
        from pipelines.bagging.estimator import BaggedNets

        return BaggedNets
    if name == "PathSVC":
        from pipelines.svm.path_svc import PathSVC

        return PathSVC
    if name == "GridSearch":
        from pipelines.validation.grid_search import GridSearch

        return GridSearch
    if name == "cross_validate_many":
        from pipelines.validation.many import cross_validate_many

        return cross_validate_many
    if name == "__version__":
        from importlib.metadata import version

        return version("pleasingly")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
