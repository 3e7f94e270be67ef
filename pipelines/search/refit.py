"""The one task after a search: the best candidate on all training rows, and its test."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.search.tasks import Problem, finite
from pipelines.search.threads import limited, with_jobs


@dataclass(frozen=True)
class Refit:
    """The best candidate on all training rows, asked about the test rows."""

    member: int
    name: str = "refit"
    cost: float = 1.0


def refit_and_test(problem: Problem, refit: Refit, n_threads: int = 1) -> dict[str, Any]:
    """Fit the best candidate on all rows and score it on the test rows; a task.

    Returns
    -------
    dict of ``predicted`` (array of shape (n_test,)), ``scores`` by name, and ``seconds``
    """
    from sklearn.base import clone

    started, data = time.perf_counter(), problem.data
    with limited(n_threads), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimator = with_jobs(clone(problem.used(refit.member).estimator), n_threads)
        estimator.fit(data.X, data.y)
        seconds = time.perf_counter() - started
        found = problem.scorer.scorer(estimator, data.X_test, data.y_test)
        predicted = np.asarray(estimator.predict(data.X_test))
    scores = {name: finite(score) for name, score in found.items()}
    return {"predicted": predicted, "scores": scores, "seconds": seconds}
