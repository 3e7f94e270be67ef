"""Rows of cells -> one line for each candidate -> the best, by dask.dataframe."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from pipelines.run_folder.ranking import rank

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

PARTITIONS = 8


def results_frame(rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str]) -> pd.DataFrame:
    """Rows as a table with the given columns and dtypes, in the order of the rows."""
    import pandas as pd

    return pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))


def reduce_scores(
    results: pd.DataFrame, parameters: list[str], n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Mean and standard deviation of the error and the score of every candidate.

    Parameters
    ----------
    results : table of cells with the columns ``parameters``, ``error`` (a fraction)
        and ``score`` (larger is better); NaN where the fit failed
    parameters : names of the columns that make a candidate, in the order in
        which ties are resolved: to the smaller first, then the smaller second
    n_folds : int
        A candidate with fewer scores has none of its own.
    client : distributed.Client, optional
        Where to compute; by default on threads of this process.

    Returns
    -------
    table with ``parameters``, ``error_mean``, ``error_std``, ``score_mean``,
    ``score_std`` (of the folds, not corrected, as scikit-learn's), ``n_ok``, ``rank``
    (1 is best by the mean score, no two alike), best first
    """
    import dask
    import dask.dataframe as dd

    columns = ["error", "score"]
    frame = dd.from_pandas(results[[*parameters, *columns]], npartitions=PARTITIONS)
    by_candidate = frame.groupby(parameters)[columns]
    scheduler = "threads" if client is None else client
    mean, std, count = dask.compute(
        by_candidate.mean(), by_candidate.std(ddof=0), by_candidate.count(), scheduler=scheduler
    )
    candidates = mean.add_suffix("_mean").join(std.add_suffix("_std"))
    candidates = candidates[["error_mean", "error_std", "score_mean", "score_std"]]
    candidates["n_ok"] = count["score"]
    return rank(candidates.reset_index(), parameters, n_folds)
