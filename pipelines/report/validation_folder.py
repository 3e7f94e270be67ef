"""What a run of ``cross_validate`` left in its folder."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from pipelines.run_folder import names
from pipelines.run_folder.columns import (
    VALIDATION_CELL,
    ComparedPair,
    Residual,
    SearchRow,
    ValidatedCandidate,
)
from pipelines.run_folder.ranking import candidates_of
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.cross_validate import ValidationRecord
from pipelines.run_folder.tables import read_table


@dataclass(frozen=True)
class ValidationRun(Run[ValidationRecord]):
    """A run of ``cross_validate``.

    ``pairs`` compares algorithms, ``curve`` has the rows of the learning curve, ``residuals``
    the test points of a regression; None where there is no such table.
    """

    pairs: pd.DataFrame | None
    curve: pd.DataFrame | None
    residuals: pd.DataFrame | None

    @property
    def scoring(self) -> str:
        """What the best candidate is chosen by."""
        return (self.record.scoring or ["score"])[0]

    @property
    def best(self) -> dict[str, int]:
        """The best candidate of every algorithm, the best algorithm first."""
        if "algorithm" not in self.candidates or self.candidates.empty:
            return {}
        first = self.candidates[self.candidates["score_mean"].notna()].drop_duplicates("algorithm")
        return dict(zip(first["algorithm"], first["candidate"].astype(int), strict=True))


def read_validation_run(folder: Path) -> ValidationRun:
    """Read the folder of a run of ``cross_validate``; raises what ``read_run`` raises."""
    run = read_run(
        folder, candidate=ValidatedCandidate, place=VALIDATION_CELL, candidates_of=_candidates_of
    )
    return ValidationRun(
        **vars(run),
        pairs=read_table(run.path / names.COMPARISON, ComparedPair),
        curve=read_table(run.path / names.LEARNING_CURVE, SearchRow),
        residuals=read_table(run.path / names.RESIDUALS, Residual),
    )


def _candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """Candidates of a run that ended before it wrote their table."""
    if cells.empty:
        return cells
    ranked = candidates_of(cells, ["candidate"], n_folds)
    about = cells.groupby("candidate")[["algorithm", "params"]].first()
    seconds = cells.groupby("candidate")[["fit_seconds", "score_seconds"]].mean()
    return ranked.join(about, on="candidate").join(seconds, on="candidate")
