"""A table of cells in the form of ``GridSearchCV.cv_results_``."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from pipelines.search.grid import Grid


def as_grid_search_cv(results: pd.DataFrame, grid: Grid) -> dict[str, Any]:
    """A table of cells as ``GridSearchCV.cv_results_``: C slowest, then gamma."""
    cells = results.sort_values(["C", "gamma", "fold"])
    shape = (len(grid.Cs) * len(grid.gammas), -1)
    scores = cells.score.to_numpy().reshape(shape)
    fit_seconds = cells.fit_seconds.to_numpy().reshape(shape)
    score_seconds = cells.score_seconds.to_numpy().reshape(shape)
    params = [{"C": C, "gamma": gamma} for C in grid.Cs for gamma in grid.gammas]
    mean = scores.mean(axis=1)
    rank = (-pd.Series(mean).round(12)).rank(method="min", na_option="bottom")
    return {
        "params": params,
        "param_C": np.ma.array([one["C"] for one in params]),
        "param_gamma": np.ma.array([one["gamma"] for one in params]),
        **{f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rank.to_numpy().astype(np.int32),
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": score_seconds.mean(axis=1),
        "std_score_time": score_seconds.std(axis=1),
    }
