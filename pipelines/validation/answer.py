"""Rows -> ranking, comparison of algorithms, estimates; and what is written of them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.run.errors import RunStopped
from pipelines.run.tasks import Runner
from pipelines.run_folder import names
from pipelines.select.scores import FAILED, result_of
from pipelines.validation.catalogue import CLASSES
from pipelines.validation.comparison import Difference, compare_all
from pipelines.validation.data import Learning
from pipelines.validation.plan import ratio_of
from pipelines.validation.search import best_of_each, rank, tabulate
from pipelines.validation.units import (
    CURVE,
    INNER,
    OUTER,
    SEARCH,
    Last,
    Problem,
    Row,
    finite,
    fit_last,
)


def chosen_in_folds(
    rows: Iterable[Row], n_outer: int, n_inner: int
) -> list[tuple[dict[str, int], int | None]]:
    """What the search within each outer fold chose.

    Returns
    -------
    For each outer fold the best candidate of every algorithm, and the best of all; None where
    every candidate failed.
    """
    cells = tabulate(rows, INNER)
    found: list[tuple[dict[str, int], int | None]] = []
    for outer in range(n_outer):
        within = cells[cells["split"] // n_inner == outer]
        each = best_of_each(rank(within, n_inner)) if len(within) else {}
        found.append((each, next(iter(each.values()), None)))
    return found


def nested_estimate(
    rows: Iterable[Row], chosen: Sequence[tuple[dict[str, int], int | None]]
) -> dict[str, Any] | None:
    """Mean and deviation over the outer folds of the candidates chosen within them."""
    score = {
        (row["split"], row["candidate"]): row["score"] for row in rows if row["stage"] == OUTER
    }
    found = [score.get((outer, best)) for outer, (_, best) in enumerate(chosen)]
    if not found or any(one is None for one in found):
        return None
    values = np.array(found, float)
    return {
        "score_mean": float(values.mean()), "score_std": float(values.std()),
        "n_outer": len(values), "chosen": [int(best) for _, best in chosen if best is not None],
    }  # fmt: skip


def compare_algorithms(
    cells: pd.DataFrame, best: Mapping[str, int], ratio: float, rope: float
) -> pd.DataFrame:
    """The best candidates of all algorithms, pair by pair; see ``comparison``."""
    scores = {
        name: cells[cells["candidate"] == candidate].sort_values("fold")["score"].to_numpy()
        for name, candidate in best.items()
    }
    columns = [field.name for field in fields(Difference)]
    return pd.DataFrame(compare_all(scores, ratio, rope), columns=columns)


def fit_counts(rows: Iterable[Row]) -> dict[str, Any]:
    """How many fits were asked for and made, of last steps and of first ones, by family."""
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
    path: Path, runner: Runner, problem: Problem, data: Learning, rows: Sequence[Row],
    rope: float, n_threads: int,
) -> dict[str, Any]:  # fmt: skip
    """Rank, compare, fit the best on all rows and test it; facts for ``run.json``.

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
    if (CURVE, 0.1) in problem.splits:
        tabulate(rows, CURVE).to_parquet(path / names.LEARNING_CURVE)
    facts: dict[str, Any] = {}
    if (OUTER, 1.0) in problem.splits:
        n_outer = len(problem.splits[OUTER, 1.0])
        n_inner = len(problem.splits[INNER, 1.0]) // n_outer
        facts["nested"] = nested_estimate(rows, chosen_in_folds(rows, n_outer, n_inner))
        tabulate(rows, OUTER).to_parquet(path / names.NESTED)
    first = ranked.iloc[0]
    last = result_of(
        runner, partial(fit_last, n_threads=n_threads), problem, Last(int(first["candidate"])),
        "the best candidate cannot be fitted on all rows",
    )  # fmt: skip
    _write_predictions(path, data, last["predicted"])
    wrong = int(np.sum(last["predicted"] != data.y_test)) if data.task == CLASSES else None
    return facts | fit_counts(rows) | {
        "scoring": list(problem.scoring),
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


def _write_predictions(path: Path, data: Learning, predicted: np.ndarray) -> None:
    if data.task == CLASSES:
        from pipelines.select.predictions import write_predictions

        shown = data if data.pixels is None else replace(data, X_test=data.pixels)
        write_predictions(path, shown, predicted)  # type: ignore[arg-type]
        return
    pd.DataFrame(
        {
            "row": np.arange(len(predicted)),
            "true": data.y_test,
            "predicted": predicted.astype(float),
        }
    ).to_parquet(path / names.RESIDUALS)
