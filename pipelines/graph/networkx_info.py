"""The description of the backend ``pleasingly`` for networkx, which reads it when it is imported.

So this module imports little; the backend itself is ``pipelines.graph.networkx_backend``.
"""

from __future__ import annotations

from typing import Any


def get_info() -> dict[str, Any]:
    """The functions of networkx that the backend has, and what differs in them."""
    return {
        "backend_name": "pleasingly",
        "project": "pleasingly",
        "package": "pleasingly",
        "short_summary": "PageRank by compressed rows on every CPU core",
        "functions": {
            "pagerank": {
                "additional_docs": "alpha must lie strictly between 0 and 1, and weights be at "
                "least 0. With ``dangling``, ``nstart`` is not used.",
            }
        },
    }
