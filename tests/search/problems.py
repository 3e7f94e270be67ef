"""Small problems for tests of tasks."""

from __future__ import annotations

from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.search.fitting import group_candidates
from pipelines.search.scoring import CandidateScorer
from pipelines.search.tasks import SEARCH, Problem


def problem_of(
    candidates,
    X,
    y,
    splits,
    *names,
    device="cpu",
):
    """Candidates on splits, scored by accuracy or what else is named."""
    scorer = CandidateScorer(names or ("accuracy",))
    groups = tuple(group_candidates([candidate.estimator for candidate in candidates], scorer))
    data = FoldedData(X, y, X[:0], y[:0], (), Scaling("none"))
    return Problem(data, tuple(candidates), {(SEARCH, 1.0): splits}, scorer, groups, device=device)
