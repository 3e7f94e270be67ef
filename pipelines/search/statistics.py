"""Compare algorithms fold by fold: differences, tests and practical equivalence.

Scores of folds are not independent, since their training rows overlap. Nadeau and Bengio
(Inference for the generalization error, Machine Learning 52, 2003) add the ratio of validation
to training rows to the variance of the mean; Bouckaert and Frank (PAKDD 2004) do so over
folds and repeats together, J = folds x repeats. The posterior of the mean difference by Corani
and Benavoli (A Bayesian approach for comparing cross-validated algorithms, Machine Learning
100, 2015) has the same spread.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import t as student

from pipelines.run_folder.statistics import SAME, corrected_t, holm


def compare(first: np.ndarray, second: np.ndarray, ratio: float, rope: float) -> dict[str, float]:
    """Compare scores on the same folds.

    Parameters
    ----------
    first, second : float arrays of shape (n_folds,), of all repeats together; larger is better
    ratio : validation rows for each training row, the mean over the folds
    rope : differences up to this are no difference in practice

    Returns
    -------
    dict of
        mean : of the differences fold by fold
        std : their deviation, corrected (n - 1)
        t : the corrected resampled t statistic
        p : two-sided, of a mean of 0
        effect : mean / std, Cohen's d of paired differences
        p_first, p_same, p_second : probabilities that the first is better, that they are
            equivalent within the rope, and that the second is better
    """
    differences = np.asarray(first, float) - np.asarray(second, float)
    mean, std, spread, t, p = corrected_t(differences, ratio)
    if std <= SAME:
        effect = t
        p_first, p_second = float(mean > rope), float(mean < -rope)
    else:
        effect, freedom = mean / std, len(differences) - 1
        p_first = float(student.sf((rope - mean) / spread, freedom))
        p_second = float(student.cdf((-rope - mean) / spread, freedom))
    return {
        "mean": mean, "std": std, "t": t, "p": p, "effect": effect, "p_first": p_first,
        "p_same": max(0.0, 1.0 - p_first - p_second), "p_second": p_second,
    }  # fmt: skip


def compare_all(
    scores: Mapping[str, np.ndarray], ratio: float, rope: float
) -> list[dict[str, Any]]:
    """Compare all pairs of algorithms, in their order.

    Parameters
    ----------
    scores : of each algorithm, float array of shape (n_folds,)
    ratio, rope : see ``compare``

    Returns
    -------
    list of dict
        ``first`` and ``second``, the names of a pair; what ``compare`` says of it; ``p_holm``,
        its p corrected for the number of pairs (Holm 1979)
    """
    pairs: list[dict[str, Any]] = [
        {"first": one, "second": other, **compare(scores[one], scores[other], ratio, rope)}
        for one, other in combinations(scores, 2)
    ]
    corrected = holm([pair["p"] for pair in pairs])
    return [pair | {"p_holm": p} for pair, p in zip(pairs, corrected, strict=True)]
