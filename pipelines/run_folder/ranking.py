"""The ranking of candidates: one rule for ties, and for candidates that are not finished."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

# Means over folds carry rounding errors; candidates that agree to these decimals are tied.
TIE_DECIMALS = 12
VALUES = ["error", "score"]  # columns of cells that have a mean and a standard deviation
# Further columns of a table in which some candidates lack folds; see ``search.unfinished``.
UNFINISHED = ("score_part", "behind", "stopped")


def ranked_candidates(
    cells: pd.DataFrame,
    parameters: Sequence[str],
    n_folds: int,
    reduce: Callable[[np.ndarray], np.ndarray] | None = None,
) -> pd.DataFrame:
    """The candidates of a table of cells, best first.

    Parameters
    ----------
    cells : DataFrame
        With ``parameters``, ``error`` (a fraction) and ``score`` (larger is better); NaN where the
        fit failed.
    parameters : sequence of str
        Columns that tell one candidate from another.
    n_folds : int
        Number of cells of a complete candidate; see ``ranked``.
    reduce : function, optional
        Used in place of ``means_of``.

    Returns
    -------
    DataFrame
        As ``ranked`` returns it.
    """
    import pandas as pd

    by_candidate = cells.groupby(list(parameters), dropna=False)
    number, cell = by_candidate.ngroup().to_numpy(), by_candidate.cumcount().to_numpy()
    n_cells = by_candidate.size()
    values = np.full((len(n_cells), len(VALUES), n_cells.max() if len(n_cells) else 0), np.nan)
    values[number, :, cell] = cells[VALUES].to_numpy(float)
    columns = [f"{value}_{statistic}" for value in VALUES for statistic in ("mean", "std")]
    means = pd.DataFrame((reduce or means_of)(values), n_cells.index, columns)
    return ranked(means.assign(n_ok=by_candidate["score"].count(), n_cells=n_cells), n_folds)


def means_of(values: np.ndarray) -> np.ndarray:
    """Mean and standard deviation of each value of each candidate, without NaN.

    The standard deviation divides by n, as scikit-learn's does, and is NaN for a single cell. The
    results of a candidate do not depend, to the last bit, on which other candidates there are.

    Parameters
    ----------
    values : array of shape (n_candidates, n_values, n_cells)
        NaN where there is no value.

    Returns
    -------
    float64 array of shape (n_candidates, 2 n_values)
    """
    is_number = ~np.isnan(values)
    n = is_number.sum(axis=2)
    with np.errstate(divide="ignore", invalid="ignore"):
        mean = _sums(np.where(is_number, values, 0.0)) / n
        squares = (values - mean[:, :, None]) ** 2
        std = np.sqrt(squares.sum(axis=2, where=is_number) / n)
    std[n < 2] = np.nan
    return np.stack([mean, std], axis=2).reshape(len(values), 2 * values.shape[1])


def _sums(values: np.ndarray) -> np.ndarray:
    """Sums along the last axis, rounded once by Neumaier's method [1]_.

    So the mean of four scores that differ little is 0.955, not 0.9549999999999998.

    References
    ----------
    .. [1] A. Neumaier, Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen,
       Zeitschrift für Angewandte Mathematik und Mechanik 54, 1974.
    """
    total, correction = np.zeros(values.shape[:-1]), np.zeros(values.shape[:-1])
    for value in np.moveaxis(values, -1, 0):
        new = total + value
        larger = np.abs(total) >= np.abs(value)
        correction += np.where(larger, (total - new) + value, (value - new) + total)
        total = new
    return np.where(np.isfinite(total), total + correction, total)


def ranked(means: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Candidates in order of their means.

    A tie goes to the smaller first parameter, then to the smaller second. A candidate with a failed
    fold has no mean and comes last. A candidate that still lacks folds is left out, as it cannot be
    compared yet.

    Parameters
    ----------
    means : DataFrame
        ``error_mean``, ``error_std``, ``score_mean``, ``score_std``, ``n_ok`` and ``n_cells``, with
        the parameters as index.
    n_folds : int
        Number of cells of a complete candidate.

    Returns
    -------
    DataFrame
        The parameters, ``error_mean``, ``error_std``, ``score_mean``, ``score_std``, ``n_ok`` and
        ``rank`` (1 is best by the mean score, no two alike), best first.
    """
    parameters = [str(name) for name in means.index.names]
    table = means[means["n_cells"] >= n_folds].drop(columns="n_cells")
    table.loc[table["n_ok"] < n_folds, table.columns[:4]] = math.nan
    table = table.reset_index()
    table["tie"] = -table["score_mean"].round(TIE_DECIMALS)
    table = table.sort_values(["tie", *parameters], na_position="last", ignore_index=True)
    table["rank"] = range(1, len(table) + 1)
    return table.drop(columns="tie")


def have_all_folds(candidates: pd.DataFrame) -> pd.Series:
    """Whether each candidate was tried on all folds; statistics use only these."""
    if "stopped" in candidates:
        return candidates["stopped"] == ""
    return candidates["rank"] > 0


def without_untried(candidates: pd.DataFrame) -> pd.DataFrame:
    """The candidates without those for which a run had no time: they may be better or worse."""
    if "stopped" not in candidates:
        return candidates
    compared = candidates[["score_mean", "behind"]].notna().any(axis=1)
    return candidates[compared | (candidates["stopped"] == "")]


def shortfall(candidates: pd.DataFrame) -> pd.Series:
    """How far the score of each candidate is below the best; NaN if that is not known.

    For a candidate that was given up, it is how far it was behind the best at that time.
    """
    behind = candidates["score_mean"].iloc[0] - candidates["score_mean"]
    return behind.fillna(candidates["behind"]) if "behind" in candidates else behind
