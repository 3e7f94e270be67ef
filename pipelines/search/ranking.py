"""Ranks candidates: from rows of cells to mean scores, the best, and how the best ones compare."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.run_folder.measures import measure_of
from pipelines.run_folder.names import FAILED, OK
from pipelines.run_folder.ranking import (
    TIE_DECIMALS,
    means_of,
    ranked_candidates,
    without_untried,
)
from pipelines.run_folder.rows import Row as Schema
from pipelines.run_folder.statistics import ROUNDING, corrected_t, holm
from pipelines.search.record import SearchRow

if TYPE_CHECKING:
    import pandas as pd
    from distributed import Client

    from pipelines.search.candidates import Candidate

PARTS = 8  # pieces into which the cells are divided for the workers
SECONDS_ON_WORKERS = 60  # if the workers take longer, the means are computed in this process

Row = dict[str, Any]


def reduce_scores(
    results: pd.DataFrame, parameters: Sequence[str], n_folds: int, client: Client | None = None
) -> pd.DataFrame:
    """Rank the candidates of a table of cells; see ``run_folder.ranking.ranked_candidates``.

    Parameters
    ----------
    results : DataFrame
        A row per cell.
    parameters : sequence of str
        Columns that identify a candidate.
    n_folds : int
        Number of splits that a candidate must have to be ranked.
    client : distributed.Client, optional
        If its workers are other processes, they compute the means, with each candidate handled by a
        single worker, so that the result is the same to the last bit. They need not import pandas.

    Returns
    -------
    DataFrame
        A row per candidate, best first.
    """
    if client is None or client.scheduler.address.startswith("inproc://"):
        return ranked_candidates(results, parameters, n_folds)

    def on_workers(values: np.ndarray) -> np.ndarray:
        import dask
        from distributed import CancelledError, KilledWorker

        reduce = dask.delayed(means_of, pure=False)
        parts = [reduce(part) for part in np.array_split(values, PARTS)]
        whole = client.compute(dask.delayed(np.concatenate, pure=False)(parts))
        # The last worker may have left, or all may be busy: a timeout is an OSError, too.
        with suppress(KilledWorker, CancelledError, OSError):
            means: np.ndarray = whole.result(timeout=SECONDS_ON_WORKERS)
            return means
        return means_of(values)

    return ranked_candidates(results, parameters, n_folds, on_workers)


def failures(results: pd.DataFrame, cell_columns: Sequence[str]) -> dict[str, Any]:
    """Count the cells whose status is not "ok", for ``run.json``.

    Parameters
    ----------
    results : DataFrame
        A table of cells.
    cell_columns : sequence of str
        Columns that identify a cell.

    Returns
    -------
    dict
        ``n_cells``, ``n_failed``, and ``failures``: each status with its cells.
    """
    not_ok = results[results["status"] != OK]
    return {
        "n_cells": len(results),
        "n_failed": int(results["status"].str.startswith(FAILED).sum()),
        "failures": [
            {
                "status": str(status),
                "count": len(cells),
                "cells": cells[list(cell_columns)].to_dict("records"),
            }
            for status, cells in not_ok.groupby("status")
        ],
    }


def tabulate(
    rows: Iterable[Row],
    parameters: Sequence[str] = (),
    stage: str | None = "search",
    schema: type[Schema] = SearchRow,
    fraction: float | None = None,
) -> pd.DataFrame:
    """The rows of a stage as a table, sorted by candidate, split and fraction of the rows.

    Parameters
    ----------
    rows : iterable of dict
    parameters : sequence of str
        Hyper-parameters that have a column of their own; rows are sorted by the last of them
        first.
    stage : str or None, default "search"
        None for rows of all stages.
    schema : type
        Schema of the rows; a column that it lacks contains numbers.
    fraction : float, optional
        Fraction of the training rows; rows of other fractions are left out. By default all.

    Returns
    -------
    DataFrame
    """
    import pandas as pd

    chosen_rows = [
        row for row in rows if stage in (None, row["stage"]) and fraction in (None, row["share"])
    ]
    declared_types = schema.dtypes()
    column_types = {
        name: declared_types.get(name, "float64") for name in parameters
    } | SearchRow.dtypes()
    # Some rows have further columns, such as the loss of networks. Their order must not depend on
    # which row arrived first.
    by_candidate = sorted(chosen_rows, key=lambda row: row["candidate"])
    further_columns = dict.fromkeys(
        name for row in by_candidate for name in row if name not in column_types
    )
    types = {
        **column_types,
        **{name: declared_types.get(name, "float64") for name in further_columns},
    }
    sort_columns = [*reversed(parameters), "candidate", "split", "share"]
    table = pd.DataFrame(chosen_rows, columns=list(types)).astype(types)
    return table.sort_values(sort_columns, ignore_index=True)


def with_algorithm(
    candidates: pd.DataFrame, cells: pd.DataFrame, all_candidates: Sequence[Candidate] = ()
) -> pd.DataFrame:
    """Add to ranked candidates their algorithm, parameters, mean times and further mean scores.

    A candidate without a mean score gets mean times only.

    Parameters
    ----------
    candidates : DataFrame
        As ``reduce_scores`` returns them.
    cells : DataFrame
    all_candidates : sequence of Candidate, optional
        All candidates, if some of them may have no cell.
    """
    import pandas as pd

    by_candidate = cells.groupby("candidate")
    about = by_candidate[["algorithm", "params"]].first()
    if all_candidates:
        every_candidate = pd.DataFrame(
            [(candidate.algorithm, candidate.text) for candidate in all_candidates],
            columns=list(about),
        )
        about = about.combine_first(every_candidate)
    seconds = by_candidate[["fit_seconds", "score_seconds"]].mean()
    further_scores = by_candidate[
        [name for name in map(str, cells) if name.startswith("score_") and name not in seconds]
    ]
    means = further_scores.mean().add_suffix("_mean")
    table = candidates.join(about, on="candidate").join(seconds, on="candidate")
    table = table.join(means, on="candidate")
    table.loc[table["score_mean"].isna(), means.columns] = np.nan
    return table


def rank(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """The candidates of a table of cells, best first, with their algorithm and parameters."""
    return with_algorithm(reduce_scores(cells, ("candidate",), n_folds), cells)


def best_of_each(ranked: pd.DataFrame) -> dict[str, int]:
    """The best candidate of every algorithm that has a score, in order of rank."""
    scored = ranked[ranked["score_mean"].notna()]
    first = scored.drop_duplicates("algorithm")
    return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))


def ends_of_lists(ranked: pd.DataFrame) -> list[str]:
    """Hints to extend a list of values, if the best candidate has the first or last one.

    A hint is given if no candidate with a value between the ends scores as well. Candidates that
    were given up count as worse; those that were not tried do not count.

    Parameters
    ----------
    ranked : DataFrame
        Best first, as ``with_algorithm`` returns them.

    Returns
    -------
    list of str
        A sentence for each such parameter of each algorithm.
    """
    sentences, tried = [], set(without_untried(ranked).index)
    for algorithm, candidates in ranked.groupby("algorithm", sort=False):
        scores = candidates["score_mean"].tolist()
        params = [json.loads(text) for text in candidates["params"]]
        for name, best in params[0].items():
            values = [point.get(name) for point in params]  # None in a branch without it
            numbers = {value for value in values if isinstance(value, int | float)}
            # 0 and 1 are often the ends of what a parameter allows, as for fractions and counts.
            if len(numbers) < 3 or best not in (min(numbers), max(numbers)) or best in (0, 1):
                continue
            between = [
                score
                for value, score, index in zip(values, scores, candidates.index, strict=True)
                if index in tried
                and isinstance(value, int | float)
                and min(numbers) < value < max(numbers)
            ]
            if between and scores[0] > np.nan_to_num(between, nan=-np.inf).max():
                end = "smallest" if best == min(numbers) else "largest"
                sentences.append(
                    f"the best {name} of {algorithm}, {best:g}, is the {end} in its list; try "
                    f"{end.removesuffix('st')}r values"
                )
    return sentences


def chosen_in_folds(
    rows: Iterable[Row], n_outer: int, n_inner: int
) -> list[tuple[dict[str, int], int | None]]:
    """The candidates that the inner search of each outer fold chose.

    Parameters
    ----------
    rows : iterable of dict
        Rows of all stages.
    n_outer : int
        Number of outer folds.
    n_inner : int
        Number of splits within each.

    Returns
    -------
    list of (dict, int or None)
        For each outer fold, the best candidate of every algorithm, and the best of all; None if
        every candidate failed.
    """
    cells = tabulate(rows, stage="inner", fraction=1.0)
    choices: list[tuple[dict[str, int], int | None]] = []
    for outer in range(n_outer):
        inner_cells = cells[cells["split"] // n_inner == outer]
        best_by_algorithm = best_of_each(rank(inner_cells, n_inner)) if len(inner_cells) else {}
        choices.append((best_by_algorithm, next(iter(best_by_algorithm.values()), None)))
    return choices


def nested_estimate(
    rows: Iterable[Row], chosen: Sequence[tuple[dict[str, int], int | None]]
) -> dict[str, Any] | None:
    """Mean and standard deviation over the outer folds of the candidates chosen within them.

    Parameters
    ----------
    rows : iterable of dict
        Rows of all stages.
    chosen : sequence
        As ``chosen_in_folds`` returns it.

    Returns
    -------
    dict or None
        Entries for ``run.json``; None if an outer fold has no score.
    """
    score = {
        (row["split"], row["candidate"]): row["score"] for row in rows if row["stage"] == "outer"
    }
    outer_scores = [score.get((outer, best)) for outer, (_, best) in enumerate(chosen)]
    if not outer_scores or any(outer_score is None for outer_score in outer_scores):
        return None
    values = np.array(outer_scores, float)
    return {
        "score_mean": float(values.mean()),
        "score_std": float(values.std()),
        "n_outer": len(values),
        "chosen": [int(best) for _, best in chosen if best is not None],
    }


def compare_scores(
    first: np.ndarray, second: np.ndarray, ratio: float, rope: float
) -> dict[str, float]:
    """Compare scores on the same folds: differences, tests and practical equivalence.

    Scores of folds are not independent, since their training rows overlap. The corrected resampled
    t test therefore adds the ratio of validation to training rows to the variance of the mean
    (Nadeau and Bengio), over folds and repeats together, J = folds x repeats (Bouckaert and
    Frank). The posterior of the mean difference (Corani and Benavoli) has the same spread.

    Parameters
    ----------
    first, second : float arrays of shape (n_folds,)
        Scores of all repeats together; larger is better.
    ratio : float
        Number of validation rows per training row, the mean over the folds.
    rope : float
        Differences up to this size count as equivalent in practice.

    Returns
    -------
    dict
        mean : mean of the differences fold by fold
        std : their standard deviation, corrected (n - 1)
        t : the corrected resampled t statistic
        p : two-sided, for a mean of 0
        effect : mean / std, Cohen's d of paired differences
        p_first, p_same, p_second : probabilities that the first is better, that they are
            equivalent within the rope, and that the second is better

    References
    ----------
    Nadeau and Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    Bouckaert and Frank, Evaluating the replicability of significance tests for comparing learning
    algorithms, PAKDD, 2004.
    Corani and Benavoli, A Bayesian approach for comparing cross-validated algorithms on multiple
    data sets, Machine Learning 100, 2015.
    """
    from scipy.stats import t as student

    differences = np.asarray(first, float) - np.asarray(second, float)
    mean, std, spread, t, p = corrected_t(differences, ratio)
    if std <= ROUNDING:
        effect = t
        p_first, p_second = float(mean > rope), float(mean < -rope)
    else:
        effect, freedom = mean / std, len(differences) - 1
        p_first = float(student.sf((rope - mean) / spread, freedom))
        p_second = float(student.cdf((-rope - mean) / spread, freedom))
    return {
        "mean": mean,
        "std": std,
        "t": t,
        "p": p,
        "effect": effect,
        "p_first": p_first,
        "p_same": max(0.0, 1.0 - p_first - p_second),
        "p_second": p_second,
    }


def compare_algorithms(
    cells: pd.DataFrame, best: Mapping[str, int], ratio: float, rope: float
) -> pd.DataFrame:
    """Compare the best candidates of all algorithms, pair by pair.

    Parameters
    ----------
    cells : DataFrame
        As ``tabulate`` returns it.
    best : mapping of str to int
        The best candidate of each algorithm, which has all folds.
    ratio, rope : float
        See ``compare_scores``.

    Returns
    -------
    DataFrame
        A row per pair: the names ``first`` and ``second``, the results of ``compare_scores``, and
        ``p_holm``, the p value corrected for the number of pairs.

    References
    ----------
    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979.
    """
    import pandas as pd

    by_candidate = cells.sort_values("fold").groupby("candidate")["score"]
    scores = {
        name: by_candidate.get_group(candidate).to_numpy() for name, candidate in best.items()
    }
    pairs: list[dict[str, Any]] = [
        {
            "first": first,
            "second": second,
            **compare_scores(scores[first], scores[second], ratio, rope),
        }
        for first, second in combinations(scores, 2)
    ]
    corrected = holm([pair["p"] for pair in pairs])
    return pd.DataFrame([pair | {"p_holm": p} for pair, p in zip(pairs, corrected, strict=True)])


class BestSoFar:
    """The best mean score so far, among the candidates with the most folds.

    Means and ties are those of ``run_folder.ranking``, so that the candidate shown last is the
    best of the final table.

    Parameters
    ----------
    candidate : sequence of str
        Columns that identify a candidate.
    scoring : str, default "accuracy"
        Name of the scorer; for accuracy the error is shown.
    order : sequence of str, optional
        Columns that decide ties, smaller values first; by default ``candidate``.
    """

    def __init__(
        self, candidate: Sequence[str], scoring: str = "accuracy", order: Sequence[str] = ()
    ) -> None:
        self._names, self._scoring = candidate, scoring
        self._order = order or candidate
        self._scores: dict[tuple[Any, ...], dict[int, float]] = {}  # of each candidate by fold
        self._places: dict[tuple[Any, ...], tuple[Any, ...]] = {}
        self._best: tuple[Any, ...] | None = None

    def add(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Add the rows of cells; those without a ``score`` failed and do not count."""
        for row in rows:
            if row["score"] is None:
                continue
            candidate = tuple(row[name] for name in self._names)
            self._scores.setdefault(candidate, {})[row["fold"]] = row["score"]
            # A candidate without a value, None or NaN, is sorted last.
            values = [row[name] for name in self._order]
            self._places[candidate] = tuple((v is None or v != v, v) for v in values)
            # If this is the best candidate itself, one more fold ranks it higher still.
            if self._best is None or self._rank(candidate) < self._rank(self._best):
                self._best = candidate

    def _mean(self, candidate: tuple[Any, ...]) -> float:
        scores = [score for _, score in sorted(self._scores[candidate].items())]
        return float(means_of(np.array([[scores]]))[0, 0])

    def _rank(self, candidate: tuple[Any, ...]) -> tuple[Any, ...]:
        score = round(self._mean(candidate), TIE_DECIMALS)
        return -len(self._scores[candidate]), -score, self._places[candidate]

    @property
    def text(self) -> str:
        """The best mean score and its candidate, for the progress line; empty without a score."""
        if self._best is None:
            return ""
        n_folds, score = len(self._scores[self._best]), self._mean(self._best)
        measure = measure_of(self._scoring)
        shown = measure.text(measure.of(score))
        score_text = f"{shown} error" if measure.is_error else f"{measure.name} {shown}"
        about = ", ".join(
            f"{name} = {value:.3g}" if isinstance(value, float) else f"{name} = {value}"
            for name, value in zip(self._names, self._best, strict=True)
        )
        return f"best so far {score_text} on {n_folds} fold{'s' * (n_folds != 1)}, {about}"
