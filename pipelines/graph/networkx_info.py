"""What networkx shows of the backend ``pleasingly``: read at its import, so that it imports little.

The backend itself is ``pipelines.graph.networkx_backend``.
"""

from __future__ import annotations

from typing import Any


def get_info() -> dict[str, Any]:
    """The functions of networkx that the backend has, and what is to be known of them."""
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
