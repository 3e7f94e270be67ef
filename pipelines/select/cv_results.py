"""A table of cells in the form of ``GridSearchCV.cv_results_``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import pandas as pd

from pipelines.run_folder.ranking import TIE_DECIMALS


def as_grid_search_cv(results: pd.DataFrame, grid: Mapping[str, Sequence[float]]) -> dict[str, Any]:
    """A table of cells as ``GridSearchCV.cv_results_``.

    Parameters
    ----------
    results : table with the names of ``grid``, ``fold``, ``score``, and the seconds
    grid : values by parameter; the first varies the slowest
    """
    cells = results.sort_values([*grid, "fold"])
    params = [dict(zip(grid, values, strict=True)) for values in product(*grid.values())]
    shape = (len(params), -1)
    scores = cells.score.to_numpy().reshape(shape)
    fit_seconds = cells.fit_seconds.to_numpy().reshape(shape)
    score_seconds = cells.score_seconds.to_numpy().reshape(shape)
    mean = scores.mean(axis=1)
    rank = (-pd.Series(mean).round(TIE_DECIMALS)).rank(method="min", na_option="bottom")
    return {
        "params": params,
        **{f"param_{name}": np.ma.array([one[name] for one in params]) for name in grid},
        **{f"split{fold}_test_score": scores[:, fold] for fold in range(scores.shape[1])},
        "mean_test_score": mean,
        "std_test_score": scores.std(axis=1),
        "rank_test_score": rank.to_numpy().astype(np.int32),
        "mean_fit_time": fit_seconds.mean(axis=1),
        "std_fit_time": fit_seconds.std(axis=1),
        "mean_score_time": score_seconds.mean(axis=1),
        "std_score_time": score_seconds.std(axis=1),
    }
