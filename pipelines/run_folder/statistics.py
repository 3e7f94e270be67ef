"""Statistics of a search: intervals, tests, ties, the rule of one standard error.

The console and the page both use them, and so agree. The standard deviation over folds divides by
their number, as in scikit-learn; the standard error of their mean is that standard deviation
divided by the square root of one less than their number.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from pipelines.run_folder.ranking import TIE_DECIMALS, have_all_folds

if TYPE_CHECKING:
    import pandas as pd

ROUNDING = 1e-12  # a smaller standard deviation of differences is due to rounding
NORMAL_95 = 1.959963984540054  # 97.5 % quantile of the standard normal distribution


def standard_error(std: float, n_folds: int) -> float:
    """The standard error of the mean over folds, from their standard deviation."""
    return std / math.sqrt(n_folds - 1) if n_folds > 1 else math.nan


def wilson(n_wrong: int, n_points: int) -> tuple[float, float]:
    """The 95 % confidence interval of an error rate, by Wilson [1]_.

    References
    ----------
    .. [1] E. B. Wilson, Probable inference, the law of succession, and statistical inference,
       Journal of the American Statistical Association 22, 1927.
    """
    if not n_points:
        return 0.0, 1.0
    rate, z2 = n_wrong / n_points, NORMAL_95**2
    centre = rate + z2 / (2 * n_points)
    half = NORMAL_95 * math.sqrt(rate * (1 - rate) / n_points + z2 / (4 * n_points**2))
    low, high = ((centre + sign * half) / (1 + z2 / n_points) for sign in (-1, 1))
    return (0.0 if n_wrong == 0 else low), (1.0 if n_wrong == n_points else high)


def interval(n_wrong: int, n_points: int) -> str:
    """The confidence interval in words: ``95 % interval 0 to 11.35 %``."""
    low, high = (
        f"{100 * end:.2f}" if end >= 1e-4 else f"{100 * end:.2g}"  # two decimals would be zeros
        for end in wilson(n_wrong, n_points)
    )
    return f"95 % interval {low} to {high} %"


def corrected_t(
    differences: NDArray[np.float64], ratio: float
) -> tuple[float, float, float, float, float]:
    """The corrected resampled t-test of a mean difference over overlapping folds [1]_.

    Parameters
    ----------
    differences : float64 array of shape (n_folds,)
    ratio : float
        Validation rows per training row.

    Returns
    -------
    mean, std : float
        Mean and standard deviation (divisor n - 1) of the differences.
    spread : float
        Corrected standard deviation of the mean.
    t, p : float
        Statistic and two-sided p. If the differences vary by rounding only, t is 0 and p is 1, or
        both are NaN if the mean is not 0.

    References
    ----------
    .. [1] C. Nadeau, Y. Bengio, Inference for the generalization error, Machine Learning 52, 2003.
    """
    from scipy.stats import t as student

    n, mean = len(differences), float(differences.mean())
    std = float(differences.std(ddof=1)) if n > 1 else math.nan
    spread = std * math.sqrt(1.0 / n + ratio)
    if std <= ROUNDING:  # the differences are constant, so there is nothing to test
        return mean, std, spread, *((0.0, 1.0) if abs(mean) <= ROUNDING else (math.nan, math.nan))
    t = mean / spread
    return mean, std, spread, t, float(2 * student.sf(abs(t), n - 1))


def mcnemar(first_wrong: NDArray[np.bool_], second_wrong: NDArray[np.bool_]) -> float:
    """The two-sided p of McNemar's exact test [1]_.

    It compares the samples that only the first of two classifiers gets wrong with those that only
    the second gets wrong.

    Parameters
    ----------
    first_wrong, second_wrong : bool arrays of shape (n_samples,)

    References
    ----------
    .. [1] Q. McNemar, Note on the sampling error of the difference between correlated proportions
       or percentages, Psychometrika 12, 1947.
    """
    from scipy.stats import binomtest

    n_first = int((first_wrong & ~second_wrong).sum())
    n_second = int((second_wrong & ~first_wrong).sum())
    return float(binomtest(n_first, n_first + n_second).pvalue) if n_first + n_second else 1.0


def holm(p_values: Sequence[float]) -> list[float]:
    """p values corrected by Holm's method [1]_; NaN stays and is not counted.

    References
    ----------
    .. [1] S. Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
       Statistics 6, 1979.
    """
    p = np.asarray(p_values, float)
    positions = np.flatnonzero(~np.isnan(p))
    order = positions[np.argsort(p[positions], kind="stable")]
    corrected, m = p.copy(), len(order)
    steps = np.minimum(1.0, p[order] * (m - np.arange(m)))
    corrected[order] = np.maximum.accumulate(steps) if m else steps
    return corrected.tolist()


def within_one_standard_error(
    candidates: pd.DataFrame, n_folds: int, by: Sequence[str], simplest: str = "simplest"
) -> list[str] | None:
    """How each candidate compares with the best; None if none has a score on all folds.

    Breiman et al. [1]_ choose the simplest candidate within one standard error of the best.

    Parameters
    ----------
    candidates : DataFrame
        With ``rank``, means and standard deviations, best first.
    n_folds : int
    by : sequence of str
        Columns in which a simpler candidate has smaller values, the most important first.
    simplest : str
        The word for the simplest candidate.

    Returns
    -------
    list of str or None
        "best", "tied", "within 1 SE" or "" for each candidate. The word is added for the simplest
        of the candidates marked so, unless that is the best.

    References
    ----------
    .. [1] L. Breiman, J. Friedman, R. Olshen, C. Stone, Classification and Regression Trees,
       Wadsworth, 1984.
    """
    mean, std = candidates.get("score_mean"), candidates.get("score_std")
    if mean is None or std is None:
        return None
    mean = mean.where(have_all_folds(candidates))
    if mean.head(1).isna().all():
        return None
    error = standard_error(float(std.iloc[0]), n_folds)
    tied = mean.round(TIE_DECIMALS) == round(float(mean.iloc[0]), TIE_DECIMALS)
    within = tied | (mean > mean.iloc[0] - (0.0 if math.isnan(error) else error))
    marks = np.where(tied, "tied", np.where(within, "within 1 SE", "")).tolist()
    marks[0] = "best"
    order = candidates.reset_index(drop=True)[within.to_numpy()].sort_values([*by, "rank"])
    if first := int(order.index[0]):
        marks[first] += f", {simplest}"
    return marks
