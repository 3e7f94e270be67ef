"""What a run of PageRank leaves: ranks, variants, iterations, and its record of the answer."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.graph.iteration import Array
from pipelines.run_folder import names

TOP = 100
BINS = 60


def write(
    folder: Path,
    rows: Sequence[dict[str, Any]],
    nodes: pd.Index,
    ranks: Array,
    vectors: Sequence[str],
    n_edges: int,
) -> dict[str, Any]:
    """Write the tables of a run.

    Parameters
    ----------
    rows : of the variants, the one whose ranks these are first among those that did not fail
    ranks : float64 of shape (n, k)

    Returns
    -------
    facts for ``run.json``: sizes, the highest ranks of the first vector, its distribution, and
    how exact the ranks are
    """
    frame = pd.DataFrame(ranks, columns=list(vectors))
    frame.insert(0, "node", nodes)
    frame.to_parquet(folder / names.RANKS, index=False)
    table = pd.DataFrame(rows).drop(columns=["changes", "seconds"], errors="ignore")
    table.to_parquet(folder / names.VARIANTS, index=False)
    iterations = [
        {"variant": row["variant"], "iteration": i + 1, "change": change, "seconds": seconds}
        for row in rows
        for i, (change, seconds) in enumerate(
            zip(row.get("changes", ()), row.get("seconds", ()), strict=False)
        )
    ]
    pd.DataFrame(iterations).to_parquet(folder / names.ITERATIONS, index=False)
    main = next(row for row in rows if not row["status"].startswith("failed"))
    order = np.argsort(-ranks[:, 0], kind="stable")[:TOP]
    return {
        "n_nodes": len(nodes),
        "n_edges": n_edges,
        "vectors": list(vectors),
        "n_cells": len(rows),
        "n_failed": sum(row["status"].startswith("failed") for row in rows),
        "variant": main["variant"],
        "n_iterations": main["iterations"],
        **{name: main[name] for name in ("change", "residual", "bound", "converged")},
        "top": [{"node": str(nodes[i]), "rank": float(ranks[i, 0])} for i in order],
        "distribution": distribution(ranks[:, 0]),
    }


def distribution(ranks: Array) -> dict[str, list[float]]:
    """How many nodes have a rank within each of some bins of equal width on a logarithmic axis."""
    positive = ranks[ranks > 0]
    if not len(positive):
        return {"bounds": [], "counts": []}
    low, high = float(positive.min()), float(positive.max())
    bounds = np.geomspace(low * (1 - 1e-9), high * (1 + 1e-9), BINS + 1)
    counts, _ = np.histogram(positive, bounds)
    return {"bounds": bounds.tolist(), "counts": counts.tolist()}
