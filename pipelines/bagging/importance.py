"""Permutation importances of a stored ensemble's vote, or mean; see ``search.importance``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from pipelines.bagging.calibration import normalised
from pipelines.bagging.members import MemberFiles
from pipelines.data.dataset import Dataset
from pipelines.nn.member import Ensemble, Member
from pipelines.nn.space import PARAMETERS
from pipelines.run_folder import names
from pipelines.search.importance import (
    AskedModel,
    ColumnImportances,
    parameter_importances,
    write_importances,
)
from pipelines.search.scoring import DEFAULT_SCORING, CandidateScorer


def write_ensemble_importances(
    path: Path,
    numbers: Sequence[int],
    data: Dataset,
    seed: int,
    scoring: str | None = None,
    time_budget: float | None = None,
    network: str | None = None,
) -> str:
    """Measure and write the importances of columns and of hyper-parameters.

    Parameters
    ----------
    path : Path
        The run's folder, with the members and the table of candidates.
    numbers : sequence of int
        The members' numbers.
    data : Dataset
    seed : int
    scoring : str, optional
        The run's scorer; by default accuracy, or R².
    time_budget : float, optional
        The run's time budget, in seconds.
    network : str, optional
        The user's own network, as for ``Ensemble.load``.

    Returns
    -------
    str
        A remark for the user, or "".
    """
    table, remark = None, ""
    if (importances := ColumnImportances.of(data, seed, time_budget)) is not None:
        files, classes = MemberFiles(path), len(data.classes)
        members = [Ensemble.load(files.weights(n), network).members[0] for n in sorted(numbers)]
        model = ensemble_as_model(members, classes)
        scorer = CandidateScorer((scoring or DEFAULT_SCORING[data.task],))
        table, remark = importances.measure(
            model, data.X_test, data.y_test, scorer, model.work, len(members)
        )
    candidates = pd.read_parquet(path / names.CANDIDATES)
    write_importances(path, table, parameter_importances(_by_member(candidates), seed))
    return remark


def ensemble_as_model(members: Sequence[Member], n_classes: int) -> AskedModel:
    """The ensemble as one model that scorers can call; ``n_classes`` is 0 in a regression."""
    members = [replace(member, novelty=None) for member in members]  # distances are not needed

    def outputs(X: Any) -> np.ndarray:
        return np.stack([member.predict_proba(X) for member in members])

    def mean(X: Any) -> np.ndarray:
        return normalised(outputs(X).mean(axis=0, dtype=np.float64))

    def vote(X: Any) -> np.ndarray:
        probabilities = outputs(X)
        votes = probabilities.argmax(axis=2)[:, :, None] == np.arange(n_classes)
        return np.asarray(
            (votes.sum(axis=0) + probabilities.mean(axis=0, dtype=np.float64) / 2).argmax(1)
        )

    def number(X: Any) -> np.ndarray:
        return np.asarray(outputs(X)[:, :, 0].mean(axis=0))

    work = float(sum(array.size for member in members for array in member.weights.values()))
    if n_classes:
        return AskedModel(vote, n_classes, work, predict_proba=mean)
    return AskedModel(number, work=work)


def _by_member(candidates: pd.DataFrame) -> list[tuple[str, Mapping[str, Any], float]]:
    """The candidates of all members, each scored relative to the mean of its member's candidates.

    Members draw candidates from one space but different rows, which may be easier or harder.
    """
    scores = candidates["score_mean"]
    scores = scores - scores.groupby(candidates["member"]).transform("mean")
    candidate_parameters = candidates[["network", *PARAMETERS]].to_dict("records")
    return [
        ("network", {str(name): value for name, value in parameters.items()}, score)
        for parameters, score in zip(candidate_parameters, scores, strict=True)
    ]
