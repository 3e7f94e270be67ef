"""Small problems for tests of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.data.placement import Fold as Split
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.candidates import Candidate
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import SEARCH, Problem


def problem_of(
    candidates: Sequence[Candidate],
    X: np.ndarray,
    y: np.ndarray,
    splits: Sequence[Split],
    *names: str,
    device: str = "cpu",
) -> Problem:
    """Candidates on splits, scored by accuracy or what else is named."""
    scorer = CandidateScorer(names or ("accuracy",))
    groups = tuple(group_candidates([candidate.estimator for candidate in candidates], scorer))
    data: Any = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    return Problem(data, tuple(candidates), {(SEARCH, 1.0): splits}, scorer, groups, device=device)
