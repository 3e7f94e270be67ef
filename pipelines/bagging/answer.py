"""From rows and members to the answer: reduce, test, and write what was found."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import explained, with_pictures
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.quality import facts, size_errors
from pipelines.bagging.reductions import Answers, as_dask_array, reduce_members
from pipelines.bagging.tables import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.run_folder import names

if TYPE_CHECKING:
    from distributed import Client


def answer(
    client: Client | None,
    path: Path,
    dataset: Dataset,
    refits: Mapping[int, Mapping[str, Any]],
    *,
    n_folds: int,
    seed: int,
    chosen: Sequence[int],
    images: Sequence[str],
    own: np.ndarray | None,
) -> dict[str, Any]:
    """Reduce what the stored members said, and write the answer; facts for ``run.json``.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the reductions run on threads of this process.
    path : the run's folder; it holds ``cv_results`` and the members
    dataset : Dataset
    refits : row of the refit of every member that is stored
    n_folds, seed : int
    chosen : test rows to explain
    images, own : one's own pictures, as paths and as rows
    """
    truth, numbers = dataset.y_test, sorted(refits)
    files = MemberFiles(path)
    said = [files.probabilities(member) for member in numbers]
    answers = reduce_members(as_dask_array(said), client)
    probabilities = np.stack(said)
    of_test = _first(answers, len(truth))
    np.savez(
        path / names.MEMBER_PROBABILITIES,
        member=numbers,
        probabilities=probabilities[:, : len(truth)],
    )
    _write_predictions(path, dataset, of_test)
    size_errors(probabilities[:, : len(truth)], truth, seed).to_parquet(path / names.SIZES)
    points = with_pictures(dataset.X_test, own)
    arrays = explained(answers, probabilities, points, truth, chosen, images)
    np.savez_compressed(path / names.EXPLAINED, **arrays)
    candidates = reduce_candidates(pd.read_parquet(path / names.CELLS), n_folds, client)
    candidates.to_parquet(path / names.CANDIDATES)
    errors = np.mean(probabilities[:, : len(truth)].argmax(axis=2) != truth, axis=1)
    table = tabulate_members(candidates, refits, dict(zip(numbers, errors.tolist(), strict=True)))
    table.to_csv(path / names.MEMBERS, index=False)
    return {
        **facts(of_test, truth),
        "members_mean_test_error": float(errors.mean()),
        "members_best_test_error": float(errors.min()),
        "members": table.astype(object).to_dict("records"),
    }


def _first(answers: Answers, n_points: int) -> Answers:
    """The answers of the first points, which are the test points."""
    return Answers(*(getattr(answers, one.name)[:n_points] for one in fields(answers)))


def _write_predictions(path: Path, dataset: Dataset, answers: Answers) -> None:
    truth, vote = dataset.y_test, answers.vote
    table = pd.DataFrame(
        {
            "row": np.arange(len(truth)), "true": truth, "predicted": vote,
            "certainty": answers.certainty, "predicted_by_mean": answers.by_mean,
            "certainty_of_mean": answers.mean.max(axis=1), "disagreement": answers.disagreement,
            "refer": answers.refer,
        }
    )  # fmt: skip
    table.to_parquet(path / names.PREDICTIONS)
    if dataset.image_shape is not None:
        wrong = np.flatnonzero(vote != truth)
        np.savez_compressed(
            path / names.WRONG, row=wrong, true=truth[wrong], predicted=vote[wrong],
            X=dataset.X_test[wrong],
        )  # fmt: skip
