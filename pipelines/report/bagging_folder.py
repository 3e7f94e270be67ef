"""What a run of ``nn_bagging`` left in its folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.arrays import DAMAGE, read_arrays
from pipelines.run_folder.columns import (
    BAGGING_CANDIDATE,
    BAGGING_CELL,
    BaggingCandidate,
    MemberErrors,
    SubsetErrors,
    VotedPrediction,
)
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.nn_bagging import BaggingRecord
from pipelines.run_folder.schema import damaged, one_line
from pipelines.run_folder.tables import read_table

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
class BaggingRun(Run[BaggingRecord]):
    """A run of ``nn_bagging``: ``candidates`` has one row per member and candidate.

    ``members`` is the table of the members, ``sizes`` the errors of subsets of
    them; ``explained`` has the points of each group (disagreement, chosen, own).
    """

    members: pd.DataFrame | None
    sizes: pd.DataFrame | None
    explained: Mapping[str, list[ExplainedPoint]]


def read_bagging_run(folder: Path) -> BaggingRun:
    """Read the folder of a run of ``nn_bagging``; raises what ``read_run`` raises."""
    run = read_run(
        folder, candidate=BaggingCandidate, prediction=VotedPrediction, place=BAGGING_CELL,
        candidates_of=_candidates_of,
    )  # fmt: skip
    return BaggingRun(
        **vars(run),
        members=read_table(run.path / names.MEMBERS, MemberErrors),
        sizes=read_table(run.path / names.SIZES, SubsetErrors),
        explained=_read_explained(run.path / names.EXPLAINED, run.image_shape),
    )


def _candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Mean loss and error of each candidate; none is chosen yet."""
    if cells.empty:
        return pd.DataFrame(columns=list(BaggingCandidate.columns()), dtype=float)
    by_candidate = cells.groupby(list(BAGGING_CANDIDATE))[["loss", "error"]]
    means = by_candidate.mean().where(by_candidate.count() >= n_folds)
    return means.add_suffix("_mean").assign(is_best=False).reset_index()


def _read_explained(path: Path, shape: tuple[int, int] | None) -> dict[str, list[ExplainedPoint]]:
    if not path.is_file():
        return {}
    try:
        name, group, X, true, probabilities, vote, refer = read_arrays(path, EXPLAINED)
        n_points = len(name)
        if not all(len(one) == n_points for one in (group, X, true, vote, refer)):
            raise ValueError("arrays of different lengths")
        n_members, n_known, n_classes = probabilities.shape
        if n_known != n_points or not n_members or not ((vote >= 0) & (vote < n_classes)).all():
            raise ValueError("probabilities of other points or classes")
        if not ((probabilities >= 0) & (probabilities <= 1.0001)).all():
            raise ValueError("probabilities outside 0 and 1")
        images = None if shape is None else X.reshape(n_points, *shape)
        groups: dict[str, list[ExplainedPoint]] = {}
        for i in range(n_points):
            point = ExplainedPoint(
                str(name[i]),
                int(true[i]) if true[i] >= 0 else None,
                None if images is None else images[i],
                probabilities[:, i],
                int(vote[i]),
                bool(refer[i]),
            )
            groups.setdefault(str(group[i]), []).append(point)
    except DAMAGE as error:
        raise damaged(path, f"an .npz file of {', '.join(EXPLAINED)}", one_line(error)) from None
    return groups
