"""Measure the quality of an ensemble on labelled samples."""

from __future__ import annotations

from itertools import combinations
from math import comb
from typing import Any

import numpy as np
import pandas as pd

from pipelines.bagging.reductions import RULE, EnsemblePrediction
from pipelines.svm.calibration import expected_calibration_error, log_loss

SUBSETS = 60  # of members drawn for each size; all of them where there are no more


def describe_quality(answers: EnsemblePrediction, truth: np.ndarray) -> dict[str, Any]:
    """Return errors, calibration and selective prediction on test samples, for ``run.json``.

    Parameters
    ----------
    truth : int array of shape (n_samples,), class codes
    """
    n_vote = int(np.sum(answers.vote != truth))
    n_mean = int(np.sum(answers.by_mean != truth))
    kept = ~answers.deferred
    # Sums of single-precision numbers are one to six digits only.
    mean = answers.mean / answers.mean.sum(axis=1, keepdims=True)
    return {
        "test_error": n_vote / len(truth),
        "n_test_errors": n_vote,
        "vote_test_error": n_vote / len(truth),
        "n_vote_errors": n_vote,
        "mean_test_error": n_mean / len(truth),
        "n_mean_errors": n_mean,
        "test_log_loss": log_loss(mean, truth),
        "test_calibration_error": expected_calibration_error(mean, truth),
        "selective_prediction": {
            "rule": RULE,
            "n_kept": int(kept.sum()),
            "n_wrong_kept": int(np.sum(kept & (answers.vote != truth))),
        },
    }


def size_errors(probabilities: np.ndarray, truth: np.ndarray, seed: int) -> pd.DataFrame:
    """Return errors of the vote and of the mean probability, for subsets of every size.

    Parameters
    ----------
    probabilities : float array of shape (n_members, n_samples, n_classes)
    truth : int array of shape (n_samples,)
    seed : draws the subsets, where there are more than ``SUBSETS`` of a size

    Returns
    -------
    table with a row for each subset: size, vote_error, mean_error (fractions)
    """
    n_members, _, n_classes = probabilities.shape
    votes = probabilities.argmax(axis=2)[:, :, None] == np.arange(n_classes)
    rows = []
    for size, some in _subsets(n_members, np.random.default_rng(seed)):
        mean = probabilities[some].mean(axis=0, dtype=np.float64)
        vote = (votes[some].sum(axis=0) + mean / 2).argmax(axis=1)
        rows.append(
            {
                "size": size,
                "vote_error": float(np.mean(vote != truth)),
                "mean_error": float(np.mean(mean.argmax(axis=1) != truth)),
            }
        )
    return pd.DataFrame(rows)


def _subsets(n_members: int, rng: np.random.Generator) -> list[tuple[int, list[int]]]:
    found = []
    for size in range(1, n_members + 1):
        if comb(n_members, size) <= SUBSETS:
            found += [(size, list(some)) for some in combinations(range(n_members), size)]
        else:
            found += [
                (size, sorted(rng.choice(n_members, size, replace=False).tolist()))
                for _ in range(SUBSETS)
            ]
    return found
