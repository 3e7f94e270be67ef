"""What a run of ``svm_grid`` left in its folder."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from pipelines.run_folder import ranking
from pipelines.run_folder.columns import SVM_CANDIDATE, SVM_CELL, SvmCandidate
from pipelines.run_folder.reading import Run, read_run
from pipelines.run_folder.records.svm_grid import BestOfSvm, SvmRecord

ACCURACY = "accuracy"  # the scoring of a run that names none: 1 - error


class SvmRun(Run[SvmRecord]):
    """A run over C and gamma: ``candidates`` has one row per (C, gamma), best first."""

    @property
    def best(self) -> BestOfSvm | None:
        """The best candidate: as the run recorded it, else rank 1 of the candidates."""
        if self.record.best is not None and self.record.best.error_mean is not None:
            return self.record.best
        scored = self.candidates[self.candidates["error_mean"].notna()]
        if scored.empty:
            return None
        first = scored.iloc[0].dropna().to_dict()
        return BestOfSvm(**{name: float(first[name]) for name in BestOfSvm.model_fields
                            if name in first})  # fmt: skip

    @property
    def scoring(self) -> str:
        """What chose the best candidate."""
        return self.record.options.scoring


def read_svm_run(folder: Path) -> SvmRun:
    """Read the folder of a run of ``svm_grid``; raises what ``read_run`` raises."""
    run = read_run(folder, candidate=SvmCandidate, place=SVM_CELL, candidates_of=candidates_of)
    best_first = run.candidates.sort_values(["rank", *SVM_CANDIDATE], kind="stable")
    return SvmRun(**vars(run) | {"candidates": best_first.reset_index(drop=True)})


def candidates_of(cells: pd.DataFrame, n_folds: int) -> pd.DataFrame:
    """The candidates of a run that has ranked none, best first."""
    if cells.empty:
        return pd.DataFrame(columns=list(SvmCandidate.columns()), dtype=float)
    accuracy = 1 - cells["error"]  # a run begun before there were scorings has errors alone
    score = cells["score"].fillna(accuracy) if "score" in cells else accuracy
    return ranking.candidates_of(cells.assign(score=score), SVM_CANDIDATE, n_folds)
