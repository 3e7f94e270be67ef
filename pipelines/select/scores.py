"""Rows of cells -> one line for each candidate -> the best, by dask.dataframe if they are many."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pipelines.run.errors import RunStopped
from pipelines.run_folder.ranking import VALUES, candidates_of, ranked

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from pipelines.run.tasks import Runner

PARTITIONS = 8
ROWS_FOR_DASK = 100_000  # fewer are reduced before it is imported
OK = "ok"
FAILED = "failed"  # what the status of a cell without a score begins with

Row = dict[str, Any]


def scored_rows(records: Iterable[Mapping[str, Any]]) -> Iterator[Row]:
    """Rows of a journal that need not be computed again: a failed fit gets another try."""
    for record in records:
        for row in record["rows"]:
            if not row["status"].startswith(FAILED):
                yield row


def with_worker(rows: Iterable[Row], worker: str) -> list[Row]:
    """Rows, and the worker that they come from."""
    return [{**row, "worker": worker} for row in rows]


def result_of(runner: Runner, work: Callable[..., Any], shared: Any, unit: Any, what: str) -> Any:
    """What a single unit gives.

    Raises
    ------
    RunStopped
        It failed; the message begins with ``what``.
    """
    (outcome,) = runner.outcomes(work, shared, [unit])
    if outcome.error is not None:
        raise RunStopped(f"{what}: {outcome.error}")
    return outcome.result


def results_frame(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], place: Sequence[str]
) -> pd.DataFrame:
    """Rows as a table with the given columns and dtypes, sorted by what names a cell."""
    import pandas as pd

    table = pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
    return table.sort_values(list(place), ignore_index=True)


def reduce_scores(
    results: pd.DataFrame, parameters: Sequence[str], n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """The candidates of a table of cells, best first: ``run_folder.ranking.candidates_of``.

    Parameters
    ----------
    client : distributed.Client, optional
        Where to compute; by default on threads of this process.
    """
    parameters = list(parameters)
    if len(results) < ROWS_FOR_DASK:
        return candidates_of(results, parameters, n_folds)

    import dask
    import dask.dataframe as dd

    frame = dd.from_pandas(results[[*parameters, *VALUES]], npartitions=PARTITIONS)
    by_candidate = frame.groupby(parameters)
    values = by_candidate[VALUES]
    mean, std, n_ok, n_cells = dask.compute(
        values.mean(), values.std(ddof=0), by_candidate["score"].count(), by_candidate.size(),
        scheduler="threads" if client is None else client,
    )  # fmt: skip
    return ranked(mean, std, n_ok, n_cells, n_folds)


def failures(results: pd.DataFrame, place: Sequence[str]) -> dict[str, Any]:
    """Cells whose status is not "ok": counts for ``run.json``, each status with its cells.

    ``place`` are the columns that name a cell.
    """
    not_ok = results[results["status"] != OK]
    return {
        "n_cells": len(results),
        "n_failed": int(results["status"].str.startswith(FAILED).sum()),
        "failures": [
            {
                "status": str(status),
                "count": len(cells),
                "cells": cells[list(place)].to_dict("records"),
            }
            for status, cells in not_ok.groupby("status")
        ],
    }
