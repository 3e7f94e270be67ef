"""What a run of ``svm_grid`` left in its folder."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.run_folder.columns import OF_SVM
from pipelines.run_folder.reading import (
    RunFolder,
    finite,
    read_run_folder,
    rows_of,
)

CELL_COLUMNS = tuple(name for name in OF_SVM if name != "score")  # older runs have none
CANDIDATE_COLUMNS = ("C", "gamma", "error_mean", "error_std", "n_ok", "rank")
ACCURACY = "accuracy"  # the scoring of a run that names none: 1 - error


@dataclass(frozen=True)
class Candidate:
    """A setting of the hyper-parameters, its cross-validation error and score."""

    C: float
    gamma: float
    error_mean: float
    error_std: float
    score_mean: float = math.nan
    score_std: float = math.nan


@dataclass(frozen=True)
class SvmRun(RunFolder):
    """A run over C and gamma: ``candidates`` has one row per (C, gamma), best first."""

    @property
    def best(self) -> Candidate | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        recorded = self.part("best")
        if all(finite(recorded.get(key)) is not None for key in ("C", "gamma", "error_mean")):
            return _candidate(recorded)
        scored = self.candidates[self.candidates["error_mean"].notna()]
        return None if scored.empty else _candidate(scored.iloc[0].to_dict())

    @property
    def scoring(self) -> str:
        """What chose the best candidate."""
        return str(self.part("options").get("scoring") or ACCURACY)


def _candidate(values: Mapping[Any, Any]) -> Candidate:
    names = ("C", "gamma", "error_mean", "error_std", "score_mean", "score_std")
    numbers = (finite(values.get(name)) for name in names)
    return Candidate(*(math.nan if number is None else number for number in numbers))


def read_svm_run(folder: Path) -> SvmRun:
    """Read the folder of a run of ``svm_grid``; raises what ``read_run_folder`` raises."""
    run = read_run_folder(
        folder, cells=CELL_COLUMNS, candidates=CANDIDATE_COLUMNS,
        predictions=("row", "true", "predicted"), cells_of=_cells_of,
        candidates_of=lambda run: candidates_of(run.cells, run.n_folds or 0),
    )  # fmt: skip
    best_first = run.candidates.sort_values(["rank", "C", "gamma"], kind="stable")
    return SvmRun(**vars(run) | {"candidates": best_first.reset_index(drop=True)})


def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Mean and standard deviation of each candidate's error and score, best score first.

    A candidate with a failed fold has no mean. One of which some folds are
    still to come is left out: it cannot be compared yet.
    """
    if cells.empty:
        return pd.DataFrame(columns=list(CANDIDATE_COLUMNS), dtype=float)
    by_candidate = cells.assign(score=_scores(cells)).groupby(["C", "gamma"])
    table = pd.DataFrame(
        {
            f"{name}_{kind}": value
            for name in ("error", "score")
            for kind, value in (
                ("mean", by_candidate[name].mean()),
                ("std", by_candidate[name].std(ddof=0)),
            )
        }
    )
    means = list(table.columns)
    table["n_ok"] = by_candidate["score"].count()
    n_failed = by_candidate.size() - table["n_ok"]
    table.loc[n_failed > 0, means] = math.nan
    table = table[(n_failed > 0) | (table["n_ok"] >= n_folds)].reset_index()
    # A mean carries rounding; candidates closer than this are tied.
    table["tie"] = -table["score_mean"].round(12)
    table = table.sort_values(["tie", "C", "gamma"], na_position="last").drop(columns="tie")
    table["rank"] = np.arange(1, len(table) + 1)
    return table


def _scores(cells: pd.DataFrame) -> pd.Series[float]:
    """Scores of cells; a run begun before there were scorings has errors alone."""
    accuracy = 1 - cells["error"]
    return cells["score"].fillna(accuracy) if "score" in cells else accuracy


def _cells_of(journal: list[dict[str, Any]]) -> pd.DataFrame:
    """The cells of a run that ended before it wrote its table."""
    rows = [
        {"worker": str(entry.get("worker", "")), **row}
        for entry in journal
        for row in rows_of(entry)
        if {"C", "gamma", "fold"} <= row.keys()
    ]
    if not rows:
        return pd.DataFrame(columns=list(CELL_COLUMNS), dtype=float)
    table = pd.DataFrame(rows).reindex(columns=[*CELL_COLUMNS, "score"])
    for name in ("error", "score"):
        table[name] = pd.to_numeric(table[name], errors="coerce")
    return table.drop_duplicates(["C", "gamma", "fold"], keep="last").reset_index(drop=True)
