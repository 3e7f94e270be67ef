"""Rank candidates: one rule for ties, and for candidates that are not finished."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

# A mean over folds carries rounding; candidates closer than this are tied.
TIE_DECIMALS = 12
VALUES = ["error", "score"]


def candidates_of(cells: pd.DataFrame, parameters: Sequence[str], n_folds: int) -> pd.DataFrame:
    """Return the candidates of a table of cells, best first; see ``ranked``.

    Parameters
    ----------
    cells : table with ``parameters``, ``error`` (a fraction) and ``score`` (larger is
        better); NaN where the fit failed
    parameters : names of the columns that tell one candidate from another
    n_folds : int
    """
    by_candidate = cells.groupby(list(parameters))
    values = by_candidate[VALUES]
    counts = by_candidate["score"].count(), by_candidate.size()
    return ranked(values.mean(), values.std(ddof=0), *counts, n_folds)


def ranked(
    mean: pd.DataFrame, std: pd.DataFrame, n_ok: pd.Series, n_cells: pd.Series, n_folds: int
) -> pd.DataFrame:
    """Return candidates in order, from what their cells come to; all indexed by the parameters.

    A tie goes to the smaller first parameter, then to the smaller second. A candidate
    with a failed fold has no mean and comes last. One of which some folds are
    still to come is left out: it cannot be compared yet.

    Parameters
    ----------
    mean, std : tables of ``error`` and ``score``, the deviation not corrected, as scikit-learn's
    n_ok, n_cells : how many cells have a score, and how many there are
    n_folds : int

    Returns
    -------
    table with the parameters, ``error_mean``, ``error_std``, ``score_mean``, ``score_std``,
    ``n_ok``, ``rank`` (1 is best by the mean score, no two alike), best first
    """
    parameters = [str(name) for name in mean.index.names]
    table = mean.add_suffix("_mean").join(std.add_suffix("_std"))
    table = table[[f"{value}_{kind}" for value in VALUES for kind in ("mean", "std")]]
    table["n_ok"] = n_ok
    table.loc[n_ok < n_folds, table.columns[:4]] = math.nan
    table = table[n_cells >= n_folds].reset_index()
    table["tie"] = -table["score_mean"].round(TIE_DECIMALS)
    table = table.sort_values(["tie", *parameters], na_position="last", ignore_index=True)
    table["rank"] = range(1, len(table) + 1)
    return table.drop(columns="tie")
