"""The one rule that ranks candidates: by the mean score, ties to the smaller parameters."""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

# A mean over folds carries rounding; candidates closer than this are tied.
TIE_DECIMALS = 12


def mean_scores(cells: pd.DataFrame, parameters: Sequence[str]) -> pd.DataFrame:
    """Mean, standard deviation (not corrected) and count of every candidate's cells.

    Parameters
    ----------
    cells : table with the columns ``parameters``, ``error`` and ``score``, NaN where a fit failed
    parameters : names of the columns that make a candidate

    Returns
    -------
    table with ``parameters``, ``error_mean``, ``error_std``, ``score_mean``, ``score_std``
    and ``n_ok``, the number of its scores
    """
    by_candidate = cells.groupby(list(parameters))[["error", "score"]]
    mean, std, count = by_candidate.mean(), by_candidate.std(ddof=0), by_candidate.count()
    table = mean.add_suffix("_mean").join(std.add_suffix("_std"))
    table = table[["error_mean", "error_std", "score_mean", "score_std"]]
    return table.assign(n_ok=count["score"]).reset_index()


def rank(candidates: pd.DataFrame, parameters: Sequence[str], n_folds: int) -> pd.DataFrame:
    """Candidates best first; one that lacks a fold has no mean and comes last.

    Parameters
    ----------
    candidates : what ``mean_scores`` gives
    parameters : in the order in which ties are resolved: to the smaller first, then second
    n_folds : int
        A candidate with fewer scores has none of its own.

    Returns
    -------
    the table with ``rank`` (1 is best, no two alike)
    """
    means = ["error_mean", "error_std", "score_mean", "score_std"]
    candidates = candidates.copy()
    candidates.loc[candidates["n_ok"] < n_folds, means] = float("nan")
    candidates["tie"] = -candidates["score_mean"].round(TIE_DECIMALS)
    candidates = candidates.sort_values(["tie", *parameters], na_position="last")
    candidates["rank"] = range(1, len(candidates) + 1)
    return candidates.drop(columns="tie").reset_index(drop=True)
