"""Tables of the candidates of a grid, as a search writes them."""

from __future__ import annotations

import pandas as pd

FOLDS = 5


def grid(errors, std):
    """Candidates, best first, of errors by gamma (rows) and C (columns)."""
    rows = [
        {
            "C": 10.0**c,
            "gamma": 10.0**g,
            "error_mean": error,
            "error_std": std,
            "score_mean": 1 - error,
            "score_std": std,
        }
        for g, row in enumerate(errors)
        for c, error in enumerate(row)
    ]
    table = pd.DataFrame(rows).sort_values(["error_mean", "C", "gamma"], ignore_index=True)
    return table.assign(rank=range(1, len(table) + 1))
