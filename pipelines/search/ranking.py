"""Rows of cells -> one line for each candidate -> the best, by dask.dataframe on a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from importlib import import_module
from threading import Thread
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.run.errors import RunStopped
from pipelines.run_folder import columns
from pipelines.run_folder.names import FAILED, OK
from pipelines.run_folder.ranking import VALUES, candidates_of, means_of, ranked

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from pipelines.run.tasks import Runner

PARTITIONS = 8
ROWS_FOR_WORKERS = 100_000  # fewer are reduced before workers have imported what they need

Row = dict[str, Any]


def with_worker(rows: Iterable[Row], worker: str) -> list[Row]:
    """Return rows, and the worker that they come from."""
    return [{**row, "worker": worker} for row in rows]


def result_of(runner: Runner, work: Callable[..., Any], shared: Any, task: Any, what: str) -> Any:
    """Run a single task and return its result.

    Raises
    ------
    RunStopped
        It failed; the message begins with ``what``.
    """
    (outcome,) = runner.outcomes(work, shared, [task])
    if outcome.error is not None:
        raise RunStopped(f"{what}: {outcome.error}")
    return outcome.result


def results_frame(
    rows: Iterable[Mapping[str, Any]], columns: Mapping[str, str], place: Sequence[str]
) -> pd.DataFrame:
    """Return rows as a table with the given columns and dtypes, sorted by what names a cell."""
    import pandas as pd

    table = pd.DataFrame(list(rows), columns=list(columns)).astype(dict(columns))
    return table.sort_values(list(place), ignore_index=True)


def reduce_scores(
    results: pd.DataFrame, parameters: Sequence[str], n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Return the candidates of a table of cells, best first: ``run_folder.ranking.candidates_of``.

    Each candidate's cells are in one partition, so that the result is the same to the bit.

    Parameters
    ----------
    client : distributed.Client, optional
        Of other processes: ``dask.dataframe`` takes 0.03 s more than pandas, once imported; many
        rows are reduced on workers. Else this process does without its import, 0.2 s.
    """
    parameters = list(parameters)
    if not has_other_processes(client):
        return candidates_of(results, parameters, n_folds)

    import dask.dataframe as dd

    cells = results[[*parameters, *VALUES]]
    cells = cells.assign(number=cells.groupby(parameters).ngroup())
    cells = cells.sort_values("number", kind="stable").set_index("number")
    frame = dd.from_pandas(cells, npartitions=PARTITIONS)
    means = frame.map_partitions(means_of, parameters, meta=means_of(cells.iloc[:0], parameters))
    on_workers = len(cells) >= ROWS_FOR_WORKERS
    return ranked(means.compute(scheduler=client if on_workers else "threads"), n_folds)


def has_other_processes(client: Client | None) -> bool:
    """Return whether the workers of a client are not in this process."""
    return client is not None and not client.scheduler.address.startswith("inproc://")


def import_ahead(client: Client | None) -> None:
    """Import what ``reduce_scores`` needs in the background, while the workers compute."""
    if has_other_processes(client):
        Thread(target=import_module, args=["dask.dataframe"]).start()


def failures(results: pd.DataFrame, place: Sequence[str]) -> dict[str, Any]:
    """Return cells whose status is not "ok": counts for ``run.json``, each status with its cells.

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


def tabulate(
    rows: Iterable[Row], parameters: Sequence[str] = (), stage: str = "search"
) -> pd.DataFrame:
    """Return rows of a stage as the table ``cv_results``, sorted by candidate, split and share.

    Parameters
    ----------
    parameters : hyper-parameters that have a column of their own; rows are sorted by the last
        of them first
    """
    chosen = [row for row in rows if row["stage"] == stage]
    known = {**dict.fromkeys(parameters, "float64"), **columns.OF_SEARCH}
    more = [name for name in (chosen[0] if chosen else {}) if name not in known]
    types = {**known, **dict.fromkeys(more, "float64")}
    return results_frame(chosen, types, [*reversed(parameters), "candidate", "split", "share"])


def rank(cells: pd.DataFrame, n_folds: int, client: Client | None = None) -> pd.DataFrame:
    """Return the candidates of a table of cells with their algorithm and parameters, best first."""
    ranked = reduce_scores(cells, ("candidate",), n_folds, client)
    by_candidate = cells.groupby("candidate")
    about = by_candidate[["algorithm", "params"]].first()
    seconds = by_candidate[["fit_seconds", "score_seconds"]].mean()
    more = by_candidate[
        [name for name in map(str, cells) if name.startswith("score_") and name not in seconds]
    ]
    return ranked.join(about, on="candidate").join(seconds, on="candidate").join(
        more.mean().add_suffix("_mean"), on="candidate"
    )  # fmt: skip


def best_of_each(ranked: pd.DataFrame) -> dict[str, int]:
    """Return the best candidate of every algorithm that has a score, in order of rank."""
    scored = ranked[ranked["score_mean"].notna()]
    first = scored.drop_duplicates("algorithm")
    return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))


def ends_of_lists(ranked: pd.DataFrame) -> list[str]:
    """Return a sentence for each number that an algorithm's best candidate has from an end of its
    list, where no candidate between the ends is as good: a longer list may hold a better one.

    Parameters
    ----------
    ranked : as ``rank`` gives it
    """
    sentences = []
    for algorithm, candidates in ranked.groupby("algorithm", sort=False):
        scores = candidates["score_mean"].tolist()
        params = [json.loads(text) for text in candidates["params"]]
        for name, best in params[0].items():
            values = [one[name] for one in params]
            numbers = {one for one in values if isinstance(one, int | float)}
            # 0 and 1 are where a parameter's own range ends, as those of shares and counts.
            if len(numbers) < 3 or best not in (min(numbers), max(numbers)) or best in (0, 1):
                continue
            between = [
                score for value, score in zip(values, scores, strict=True)
                if isinstance(value, int | float) and min(numbers) < value < max(numbers)
            ]  # fmt: skip
            if scores[0] > np.nan_to_num(between, nan=-np.inf).max():
                end = "smallest" if best == min(numbers) else "largest"
                sentences.append(
                    f"the best {name} of {algorithm}, {best:g}, is the {end} in its list; try "
                    f"{end.removesuffix('st')}r values"
                )
    return sentences


def chosen_in_folds(
    rows: Iterable[Row], n_outer: int, n_inner: int
) -> list[tuple[dict[str, int], int | None]]:
    """Return the candidate that the inner search of each outer fold chose.

    Returns
    -------
    For each outer fold the best candidate of every algorithm, and the best of all; None where
    every candidate failed.
    """
    cells = tabulate(rows, stage="inner")
    found: list[tuple[dict[str, int], int | None]] = []
    for outer in range(n_outer):
        within = cells[cells["split"] // n_inner == outer]
        each = best_of_each(rank(within, n_inner)) if len(within) else {}
        found.append((each, next(iter(each.values()), None)))
    return found


def nested_estimate(
    rows: Iterable[Row], chosen: Sequence[tuple[dict[str, int], int | None]]
) -> dict[str, Any] | None:
    """Return mean and deviation over the outer folds of the candidates chosen within them."""
    score = {
        (row["split"], row["candidate"]): row["score"] for row in rows if row["stage"] == "outer"
    }
    found = [score.get((outer, best)) for outer, (_, best) in enumerate(chosen)]
    if not found or any(one is None for one in found):
        return None
    values = np.array(found, float)
    return {
        "score_mean": float(values.mean()), "score_std": float(values.std()),
        "n_outer": len(values), "chosen": [int(best) for _, best in chosen if best is not None],
    }  # fmt: skip
