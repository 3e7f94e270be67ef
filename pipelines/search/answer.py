"""Rows -> ranking, comparison of algorithms, estimates; and what is written of them."""

from __future__ import annotations

import json
import warnings
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data.dataset import Dataset
from pipelines.run.errors import RunStopped
from pipelines.run.tasks import Runner
from pipelines.run_folder import names
from pipelines.run_folder.names import FAILED
from pipelines.search.fitting import limited, with_jobs
from pipelines.search.predictions import write_predictions
from pipelines.search.ranking import (
    best_of_each,
    compare_algorithms,
    ends_of_lists,
    rank,
    result_of,
    tabulate,
)
from pipelines.search.tasks import SEARCH, Problem, Refit, Row, finite


def refit_and_test(problem: Problem, refit: Refit, n_threads: int = 1) -> dict[str, Any]:
    """Fit the best candidate on all rows and score it on the test rows.

    Returns
    -------
    dict of ``predicted`` (array of shape (n_test,)) and ``scores`` by name
    """
    from sklearn.base import clone

    data = problem.data
    with limited(n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = with_jobs(clone(problem.used(refit.member).estimator), n_threads)
        estimator.fit(data.X, data.y)
        found = problem.scorer.scorer(estimator, data.X_test, data.y_test)
        predicted = np.asarray(estimator.predict(data.X_test))
    scores = {name: finite(score) for name, score in found.items()}
    return {"predicted": predicted, "scores": scores}


def answer(
    path: Path, runner: Runner, problem: Problem, data: Dataset, rows: Sequence[Row],
    rope: float, n_threads: int,
) -> dict[str, Any]:  # fmt: skip
    """Rank, compare, fit the best on all rows and test it; entries for ``run.json``.

    Raises
    ------
    RunStopped
        Every candidate failed, or the best could not be fitted on all rows.
    """
    splits = problem.splits[SEARCH, 1.0]
    cells = tabulate(rows)
    ranked = rank(cells, len(splits))
    best = best_of_each(ranked)
    if not best:
        raise RunStopped(f"every candidate failed: {cells['status'].iloc[0]}")
    ranked.to_parquet(path / names.CANDIDATES)
    ratio = float(np.mean([len(test) / len(train) for train, test in splits]))
    compared = compare_algorithms(cells, best, ratio, rope)
    if len(compared):
        compared.to_parquet(path / names.COMPARISON)
    first = ranked.iloc[0]
    tested = result_of(
        runner, partial(refit_and_test, n_threads=n_threads), problem,
        Refit(int(first["candidate"])),
        "the best candidate cannot be fitted on all rows",
    )  # fmt: skip
    return fit_counts(rows) | write_predictions(path, data, tested["predicted"]) | {
        "scoring": list(problem.scorer.names),
        "ratio": ratio,
        "best": _described(first, "score_mean", "score_std", "error_mean", "error_std"),
        "algorithms": [
            _described(
                ranked[ranked["candidate"] == candidate].iloc[0],
                "score_mean", "score_std", "fit_seconds", "score_seconds",
            )
            for candidate in best.values()
        ],
        "test_scores": tested["scores"],
        "remarks": ends_of_lists(ranked),
    }  # fmt: skip


def _described(candidate: Any, *means: str) -> dict[str, Any]:
    """Return a ranked candidate with some of its means as ``run.json`` has it."""
    return {
        "algorithm": candidate["algorithm"], "candidate": int(candidate["candidate"]),
        "parameters": json.loads(candidate["params"]),
        **{name: finite(candidate[name]) for name in means},
    }  # fmt: skip


def fit_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Count the fits asked for and made, of last and of earlier steps, by shared work."""
    table = pd.DataFrame([row for row in rows if not row["status"].startswith(FAILED)])
    if table.empty:
        return {}
    by_family = table.groupby("family")["n_fits"].agg(["size", "sum"])
    return {
        "fits_asked": len(table), "fits_made": int(table["n_fits"].sum()),
        "steps_asked": int(table["n_steps"].sum()), "steps_made": int(table["n_steps_made"].sum()),
        "families": [
            {"family": str(one[0]), "asked": int(one[1]), "made": int(one[2])}
            for one in by_family.itertuples()
        ],
    }  # fmt: skip
