"""PageRank: graphs, and the power iteration on one machine, on many workers and on GPUs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pipelines.graph.ranks import Ranks, compute_pagerank

__all__ = ["Ranks", "compute_pagerank"]


def __getattr__(name: str) -> Any:
    # Imported on first use: --help must not wait for numba.
    if name in __all__:
        from pipelines.graph import ranks

        return getattr(ranks, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
