"""Rows -> ranking, comparison of algorithms, estimates; and what is written of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.data.dataset import CLASSIFICATION, Dataset
from pipelines.run.errors import RunStopped
from pipelines.run.tasks import Runner
from pipelines.run_folder import names
from pipelines.run_folder.names import FAILED
from pipelines.search.plan import ratio_of
from pipelines.search.predictions import write_predictions, write_residuals
from pipelines.search.ranking import best_of_each, rank, result_of, tabulate
from pipelines.search.refit import Refit, refit_and_test
from pipelines.search.statistics import Difference, compare_all
from pipelines.search.tasks import SEARCH, Problem, Row, finite


def compare_algorithms(
    cells: pd.DataFrame, best: Mapping[str, int], ratio: float, rope: float
) -> pd.DataFrame:
    """Return the best candidates of all algorithms, pair by pair; see ``comparison``."""
    scores = {
        name: cells[cells["candidate"] == candidate].sort_values("fold")["score"].to_numpy()
        for name, candidate in best.items()
    }
    columns = [field.name for field in fields(Difference)]
    return pd.DataFrame(compare_all(scores, ratio, rope), columns=columns)


def fit_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """Count the fits asked for and made, of last and of earlier steps, by shared work."""
    table = pd.DataFrame([row for row in rows if not row["status"].startswith(FAILED)])
    if table.empty:
        return {}
    families = table.groupby("family").agg(asked=("n_fits", "size"), made=("n_fits", "sum"))
    return {
        "fits_asked": len(table),
        "fits_made": int(table["n_fits"].sum()),
        "steps_asked": int(table["n_steps"].sum()),
        "steps_made": int(table["n_steps_made"].sum()),
        "families": [
            {"family": str(name), "asked": int(one["asked"]), "made": int(one["made"])}
            for name, one in families.iterrows()
        ],
    }


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
    ratio = ratio_of(splits)
    compared = compare_algorithms(cells, best, ratio, rope)
    if len(compared):
        compared.to_parquet(path / names.COMPARISON)
    first = ranked.iloc[0]
    last = result_of(
        runner, partial(refit_and_test, n_threads=n_threads), problem,
        Refit(int(first["candidate"])),
        "the best candidate cannot be fitted on all rows",
    )  # fmt: skip
    if data.task == CLASSIFICATION:
        write_predictions(path, data, last["predicted"])
    else:
        write_residuals(path, data, last["predicted"])
    wrong = int(np.sum(last["predicted"] != data.y_test)) if data.task == CLASSIFICATION else None
    return fit_counts(rows) | {
        "scoring": list(problem.scorer.names),
        "ratio": ratio,
        "best": {
            "algorithm": first["algorithm"], "candidate": int(first["candidate"]),
            "parameters": json.loads(first["params"]),
            **{name: finite(first[name]) for name in
               ("score_mean", "score_std", "error_mean", "error_std")},
        },
        "algorithms": [
            {
                "algorithm": name, "candidate": candidate,
                "parameters": json.loads(row["params"]),
                "score_mean": finite(row["score_mean"]), "score_std": finite(row["score_std"]),
                "fit_seconds": finite(row["fit_seconds"]),
                "score_seconds": finite(row["score_seconds"]),
            }
            for name, candidate in best.items()
            for row in [ranked[ranked["candidate"] == candidate].iloc[0]]
        ],
        "test_scores": last["scores"],
        "test_error": None if wrong is None else wrong / len(data.y_test),
        "n_test_errors": wrong,
    }  # fmt: skip
