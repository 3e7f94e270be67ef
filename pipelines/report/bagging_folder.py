"""What a run of ``nn_bagging`` left in its folder."""

from __future__ import annotations

import zipfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.columns import BAGGING_CELL
from pipelines.run_folder.reading import (
    RunFolder,
    damaged,
    finite,
    read_run_folder,
    read_table,
    rows_of,
)

CELL_COLUMNS = (*BAGGING_CELL, "error", "loss", "status")
CANDIDATE_COLUMNS = ("member", "candidate", "loss_mean", "error_mean", "is_best")
PREDICTION_COLUMNS = (
    "row", "true", "predicted", "certainty", "predicted_by_mean", "certainty_of_mean",
    "disagreement",
)  # fmt: skip
SIZE_COLUMNS = ("size", "vote_error", "mean_error")
EXPLAINED = ("name", "group", "X", "true", "probabilities", "vote", "refer")


@dataclass(frozen=True)
class ExplainedPoint:
    """A point, and how certain every member is of every class.

    Attributes
    ----------
    name : str
    true : int, or None where nobody knows
    image : array of shape (h, w), or None for a row of a table
    probabilities : float array of shape (n_members, n_classes)
    vote : int, class code
    refer : bool
        Whether the rule leaves the point to a person.
    """

    name: str
    true: int | None
    image: np.ndarray | None
    probabilities: np.ndarray
    vote: int
    refer: bool

    @property
    def n_agree(self) -> int:
        """Members whose most probable class is the vote."""
        return int(np.sum(self.probabilities.argmax(axis=1) == self.vote))


@dataclass(frozen=True)
class BaggingRun(RunFolder):
    """A run of ``nn_bagging``: ``candidates`` has one row per member and candidate.

    ``members`` is the table of the members, ``sizes`` the errors of subsets of
    them; ``explained`` has the points of each group (disagreement, chosen, own).
    """

    members: pd.DataFrame | None
    sizes: pd.DataFrame | None
    explained: Mapping[str, list[ExplainedPoint]]


def read_bagging_run(folder: Path) -> BaggingRun:
    """Read the folder of a run of ``nn_bagging``; raises what ``read_run_folder`` raises."""
    run = read_run_folder(
        folder, cells=CELL_COLUMNS, candidates=CANDIDATE_COLUMNS, predictions=PREDICTION_COLUMNS,
        cells_of=_cells_of, candidates_of=_candidates_of,
    )  # fmt: skip
    return BaggingRun(
        **vars(run),
        members=_read_members(run.path / names.MEMBERS),
        sizes=read_table(run.path / names.SIZES, SIZE_COLUMNS),
        explained=_read_explained(run.path / names.EXPLAINED, run.image_shape),
    )


def _empty(columns: Iterable[str]) -> pd.DataFrame:
    return pd.DataFrame(columns=list(columns), dtype=float)


def _cells_of(journal: list[dict[str, Any]]) -> pd.DataFrame:
    """The cells of a run that ended before it wrote its table."""
    rows = [
        row
        for entry in journal
        for row in rows_of(entry)
        if set(BAGGING_CELL) <= row.keys() and (finite(row["fold"]) or 0) >= 0  # -1 is a refit
    ]
    if not rows:
        return _empty(CELL_COLUMNS)
    table = pd.DataFrame(rows).reindex(columns=list(CELL_COLUMNS))
    return table.drop_duplicates(list(BAGGING_CELL), keep="last").reset_index(drop=True)


def _candidates_of(run: RunFolder) -> pd.DataFrame:
    """Mean loss and error of each candidate; none is chosen yet."""
    cells = run.cells
    if cells.empty:
        return _empty(CANDIDATE_COLUMNS)
    numbers = cells.assign(**{name: pd.to_numeric(cells[name]) for name in ("loss", "error")})
    by_candidate = numbers.groupby(["member", "candidate"])[["loss", "error"]]
    means = by_candidate.mean().where(by_candidate.count() == by_candidate.size().max())
    return means.add_suffix("_mean").assign(is_best=False).reset_index()


def _read_members(path: Path) -> pd.DataFrame | None:
    if not path.is_file():
        return None
    try:
        table = pd.read_csv(path)
    except (OSError, ValueError) as error:
        raise damaged(path, "a table of the members", error) from None
    if not {"member", "test_error"} <= set(table.columns):
        raise damaged(path, "a table of the members", "no member, test_error")
    return table


def _read_explained(path: Path, shape: tuple[int, int] | None) -> dict[str, list[ExplainedPoint]]:
    if not path.is_file():
        return {}
    try:
        with np.load(path, allow_pickle=False) as arrays:
            name, group, X, true, probabilities, vote, refer = (arrays[key] for key in EXPLAINED)
        images = None if shape is None else X.reshape(len(X), *shape)
        groups: dict[str, list[ExplainedPoint]] = {}
        for i in range(len(name)):
            point = ExplainedPoint(
                str(name[i]),
                int(true[i]) if true[i] >= 0 else None,
                None if images is None else images[i],
                probabilities[:, i],
                int(vote[i]),
                bool(refer[i]),
            )
            groups.setdefault(str(group[i]), []).append(point)
    except (OSError, ValueError, KeyError, IndexError, EOFError, zipfile.BadZipFile) as error:
        raise damaged(path, f"an .npz file of {', '.join(EXPLAINED)}", error) from None
    return groups
