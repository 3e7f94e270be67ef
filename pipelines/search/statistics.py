"""Compare algorithms fold by fold: differences, tests and practical equivalence.

Scores of folds are not independent, since their training rows overlap. Nadeau and Bengio
(Inference for the generalization error, Machine Dataset 52, 2003) add the ratio of validation
to training rows to the variance of the mean; Bouckaert and Frank (PAKDD 2004) do so over
folds and repeats together, J = folds x repeats. The posterior of the mean difference by Corani
and Benavoli (A Bayesian approach for comparing cross-validated algorithms, Machine Dataset
100, 2015) has the same spread.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy.stats import t as student

from pipelines.run_folder.statistics import SAME, corrected_t, holm


@dataclass(frozen=True)
class Difference:
    """The score of one algorithm less that of another.

    Attributes
    ----------
    first, second : names
    mean : float, of the differences fold by fold
    std : float, their deviation, corrected (n - 1)
    t : float, the corrected resampled t statistic
    p : float, two-sided, of a mean of 0
    p_holm : float, corrected for all pairs that are compared (Holm 1979)
    effect : float, mean / std: Cohen's d of paired differences
    p_first, p_same, p_second : probabilities that the first is better, that they are
        equivalent within the rope, and that the second is better
    """

    first: str
    second: str
    mean: float
    std: float
    t: float
    p: float
    effect: float
    p_first: float
    p_same: float
    p_second: float
    p_holm: float = math.nan


def compare(first: np.ndarray, second: np.ndarray, ratio: float, rope: float) -> dict[str, float]:
    """Compare scores on the same folds.

    Parameters
    ----------
    first, second : float arrays of shape (n_folds,), of all repeats together; larger is better
    ratio : validation rows for each training row, the mean over the folds
    rope : differences up to this are no difference in practice

    Returns
    -------
    dict with what ``Difference`` has, but for the names
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
    list of dict, the fields of ``Difference``
    """
    pairs = [
        Difference(one, other, **compare(scores[one], scores[other], ratio, rope))
        for one, other in combinations(scores, 2)
    ]
    corrected = holm([pair.p for pair in pairs])
    return [asdict(pair) | {"p_holm": p} for pair, p in zip(pairs, corrected, strict=True)]
