"""From rows and members to the answer: reduce, test, and write what was found."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from pipelines.bagging.explain import Asked, explained
from pipelines.bagging.members import MemberFiles
from pipelines.bagging.quality import facts, size_errors
from pipelines.bagging.reductions import Answers, as_dask_array, reduce_members
from pipelines.bagging.tables import reduce_candidates, tabulate_members
from pipelines.data import Dataset
from pipelines.run_folder import names
from pipelines.select.predictions import write_predictions

if TYPE_CHECKING:
    from distributed import Client


def answer(
    client: Client | None,
    path: Path,
    dataset: Dataset,
    refits: Mapping[int, Mapping[str, Any]],
    asked: Asked,
    *,
    n_folds: int,
    seed: int,
) -> dict[str, Any]:
    """Reduce what the stored members said, and write the answer; facts for ``run.json``.

    Parameters
    ----------
    client : distributed.Client, optional
        By default the reductions run on threads of this process.
    path : the run's folder; it holds ``cv_results`` and the members
    dataset : Dataset
    refits : row of the refit of every member that is stored
    asked : Asked, points to explain
    n_folds, seed : int
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
    write_predictions(
        path, dataset, of_test.vote, certainty=of_test.certainty,
        predicted_by_mean=of_test.by_mean, certainty_of_mean=of_test.mean.max(axis=1),
        disagreement=of_test.disagreement, refer=of_test.refer,
    )  # fmt: skip
    size_errors(probabilities[:, : len(truth)], truth, seed).to_parquet(path / names.SIZES)
    arrays = explained(answers, probabilities, asked.after(dataset.X_test), truth, asked)
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
