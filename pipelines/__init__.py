"""Thousands of independent fits, on a laptop or on hundreds of GPUs."""

from __future__ import annotations

import sys
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pipelines.commands import COMMANDS

if TYPE_CHECKING:
    from pipelines.bagging.estimator import BaggedNets
    from pipelines.bagging.regressor import BaggedNetsRegressor
    from pipelines.errors import InputError
    from pipelines.graph.random_graphs import RandomGraph
    from pipelines.graph.ranks import compute_pagerank
    from pipelines.report.comparison import compare_figure, compare_table, write_comparison
    from pipelines.report.run_table import list_runs
    from pipelines.run.result import Run
    from pipelines.search.grid_search import GridSearch
    from pipelines.search.race_search import RaceSearch
    from pipelines.svm.path_svc import PathSVC
    from pipelines.svm.path_svr import PathSVR
    from pipelines.svm_search.grid_search import SVMGridSearch

    __version__: str

__all__ = [
    "BaggedNets",
    "BaggedNetsRegressor",
    "GridSearch",
    "InputError",
    "PathSVC",
    "PathSVR",
    "RaceSearch",
    "RandomGraph",
    "Run",
    "SVMGridSearch",
    "compare_figure",
    "compare_table",
    "compute_pagerank",
    "list_runs",
    "write_comparison",
]
_MODULES = {
    "BaggedNets": "bagging.estimator",
    "BaggedNetsRegressor": "bagging.regressor",
    "GridSearch": "search.grid_search",
    "InputError": "errors",
    "PathSVC": "svm.path_svc",
    "PathSVR": "svm.path_svr",
    "RaceSearch": "search.race_search",
    "RandomGraph": "graph.random_graphs",
    "Run": "run.result",
    "SVMGridSearch": "svm_search.grid_search",
    "compare_figure": "report.comparison",
    "compare_table": "report.comparison",
    "compute_pagerank": "graph.ranks",
    "list_runs": "report.run_table",
    "write_comparison": "report.comparison",
}
# Commands that are modules of their name; ``report`` and ``export`` are packages.
_COMMANDS = [name for name, (module, _) in COMMANDS.items() if module == f"{__name__}.{name}"]
__all__ += _COMMANDS


def __getattr__(name: str) -> Any:
    # Loaded when asked for: --help must not wait for scikit-learn.
    if name in _MODULES:
        return getattr(import_module(f"pipelines.{_MODULES[name]}"), name)
    if name in _COMMANDS:
        return import_module(f"pipelines.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("pleasingly")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, "__version__"]


def _search_backend(
    client: Any = None, results: str | Path | None = None, nesting_level: int | None = None
) -> Any:
    """The joblib backend ``"pleasingly"``, made when joblib asks for it; see ``accelerate``."""
    from pipelines.search.acceleration import search_backend

    return search_backend(client, results, nesting_level)


# Commands do not register the backend unless joblib is loaded: its import takes longer than a
# --help. It may be missing where only the GPU is checked.
if "joblib" in sys.modules or Path((sys.argv or [""])[0]).name not in ("-m", "pleasingly"):
    with suppress(ModuleNotFoundError):
        from joblib import register_parallel_backend

        register_parallel_backend("pleasingly", _search_backend)
