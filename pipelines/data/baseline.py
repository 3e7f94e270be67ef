"""The baseline of a result, a constant prediction, and remarks on results that it puts in doubt."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from pipelines.data.dataset import CLASSIFICATION, REGRESSION, Dataset, take_rows

IMBALANCED = 0.8  # fraction of the rows in one class from which accuracy misleads
TELLS_ALL = 0.999  # score of a single column from which it may be a copy of the target
ROWS_TRIED, COLUMNS_TRIED = 2000, 200  # most rows and columns that are searched for such a column
AS_GOOD = 1e-12  # two means of the same scores differ by rounding alone


def baseline_of(
    data: Dataset,
    splits: Sequence[tuple[np.ndarray, np.ndarray]] = (),
    scoring: str | None = None,
    labels: np.ndarray | None = None,
    scorer: Any = None,
) -> dict[str, Any]:
    """Score scikit-learn's dummy estimator: the most frequent class, or the mean of the target.

    Parameters
    ----------
    data : Dataset
        Its training rows are scored by cross-validation, its test rows once.
    splits : sequence of (array, array)
        Row numbers of the training and validation set of each split; empty to score none.
    scoring : str, optional
        Name of the scorer of the cross-validation; None to score none.
    labels : array of shape (n_classes,), optional
        Labels that the scorer sees in place of class codes.
    scorer : callable, optional
        The scorer that ``scoring`` stands for where scikit-learn has no scorer of that name. It may
        look at the features, which scikit-learn's scorers do not.

    Returns
    -------
    dict
        ``answer``, the constant prediction, and ``words``, a phrase for it. ``share``, the fraction
        of the training rows in the most frequent class (classification). ``scoring`` and
        ``score_mean``, the mean over the splits; None where there is no score.
        ``test_error`` and ``n_test_errors`` where there are test rows (classification).
    """
    baseline = constant_answer(
        data.y_train, data.y_test, data.classes if data.task == CLASSIFICATION else None
    )
    baseline |= {"scoring": scoring, "score_mean": None}
    if scoring is None or not len(splits):
        return baseline
    y = data.y_train if labels is None else labels[data.y_train]
    if scoring == "accuracy" and data.task == CLASSIFICATION:
        # Computed here, as importing scikit-learn takes longer than a short search.
        accuracies = []
        for train, validation in splits:
            values, counts = np.unique(y[train], return_counts=True)
            accuracies.append(float(np.mean(y[validation] == values[counts.argmax()])))
        return baseline | {"score_mean": float(np.mean(accuracies))}
    from sklearn.dummy import DummyClassifier, DummyRegressor
    from sklearn.model_selection import cross_val_score

    dummy = DummyRegressor() if data.task == REGRESSION else DummyClassifier(strategy="prior")
    # scikit-learn warns that a class which is never predicted has no precision.
    with warnings.catch_warnings(action="ignore"):
        # A scorer that needs a method which a dummy lacks gives NaN.
        # The rows matter only to a scorer of the user's, as scikit-learn's scorers ignore X here.
        X = np.zeros((len(y), 1)) if scorer is None else data.X_train
        mean = cross_val_score(dummy, X, y, scoring=scorer or scoring, cv=splits).mean()
    return baseline | {"score_mean": float(mean) if np.isfinite(mean) else None}


def constant_answer(
    y_train: np.ndarray, y_test: np.ndarray, classes: np.ndarray | None
) -> dict[str, Any]:
    """The constant prediction with the least error on the training rows, and its test error.

    Parameters
    ----------
    y_train : array of shape (n_train,)
        Class codes, or the numbers of a regression.
    y_test : array of shape (n_test,)
        The same for the test rows; may be empty.
    classes : array of shape (n_classes,) or None
        Labels that the codes stand for; None for a regression.

    Returns
    -------
    dict
        Entries as ``baseline_of`` has them, without the scorer's entries.
    """
    if classes is None:
        mean = float(np.mean(y_train))
        return {"answer": f"{mean:.4g}", "words": f"always answering the mean, {mean:.4g}"}
    counts = np.bincount(y_train, minlength=len(classes))
    code = int(counts.argmax())
    answer = str(classes[code])
    baseline: dict[str, Any] = {"answer": answer, "words": f"always answering {answer!r}"}
    baseline["share"] = float(counts[code] / counts.sum())
    if len(y_test):
        n_wrong = int(np.sum(y_test != code))
        baseline |= {"test_error": n_wrong / len(y_test), "n_test_errors": n_wrong}
    return baseline


def remarks_on(
    data: Dataset,
    baseline: dict[str, Any],
    scores: Sequence[float] = (),
    test_error: float | None = None,
    option: str = "--scoring balanced_accuracy",
) -> list[str]:
    """Remarks on a result: no better than the baseline, imbalanced classes, or too good to be true.

    Parameters
    ----------
    data : Dataset
    baseline : dict
        As ``baseline_of`` returns it.
    scores : sequence of float
        Mean score of each candidate, by the scorer of the baseline; NaN where a candidate has none.
    test_error : float, optional
        Fraction of test rows that the best candidate gets wrong.
    option : str
        Option that helps where accuracy misleads; empty where the command has none.

    Returns
    -------
    list of str
        One sentence per remark; empty where nothing stands out.
    """
    remarks = []
    finite_scores = np.asarray([score for score in scores if np.isfinite(score)])
    mean = baseline["score_mean"]
    if mean is not None and len(finite_scores) and finite_scores.max() <= mean + AS_GOOD:
        remarks.append(
            f"no candidate beats {baseline['words']} ({baseline['scoring']} {mean:.4f}): the "
            "columns tell nothing of the target, or the candidates do not fit; widen the search"
        )
    elif test_error is not None:
        remarks += better_on_test_rows(baseline, test_error)
    if len(finite_scores) > 1 and np.ptp(finite_scores) == 0:
        remarks.append(
            f"all {len(finite_scores):,} candidates have the same score; widen the search"
        )
    fraction = baseline.get("share", 0.0)
    if fraction >= IMBALANCED and (baseline["scoring"] in (None, "accuracy")):
        advice = f": try {option}" if option else ""
        remarks.append(
            f"the classes are imbalanced, {100 * fraction:.0f} % of the rows are "
            f"{baseline['answer']!r}: accuracy misleads{advice}"
        )
    names = data.feature_names
    if data.image_shape is not None or names is None or not 1 < len(names) <= COLUMNS_TRIED:
        return remarks
    n = min(ROWS_TRIED, len(data.y_train))
    rows = np.random.default_rng(0).choice(len(data.y_train), n, replace=False)
    X, y = take_rows(data.X_train, rows), data.y_train[rows]
    if len(np.unique(y)) < 2 or n < 50:
        return remarks
    for index, name in enumerate(names):
        column = X.iloc[:, index] if hasattr(X, "iloc") else X[:, index]
        if _alone(column, y, data.task) >= TELLS_ALL:
            remarks.append(
                f"column {name} alone predicts the target; does it leak the answer? "
                f"If so, use --leave-out {name}"
            )
    return remarks


def better_on_test_rows(baseline: dict[str, Any], test_error: float) -> list[str]:
    """A remark if the test error is not below the baseline's; empty if it is below."""
    if test_error < (error := baseline["test_error"]):
        return []
    return [
        f"on the test rows the best is no better than {baseline['words']}, which is wrong on "
        f"{100 * error:.2f} %"
    ]


def _alone(column: Any, y: np.ndarray, task: str) -> float:
    """Score of a tree on one column: trained on one half of the rows, scored on the other.

    The best score is 1. For a regression it is the absolute rank correlation if that is higher.
    """
    import pandas as pd
    from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

    values = pd.Series(np.asarray(column))
    if not pd.api.types.is_numeric_dtype(values):
        values = pd.Series(pd.factorize(values)[0])
    x = values.to_numpy(dtype=np.float64, na_value=np.nan)[:, None]
    if task == REGRESSION:
        tree: Any = DecisionTreeRegressor(random_state=0)
    elif np.bincount(y).max() >= TELLS_ALL * len(y):
        return 0.0
    else:
        # No more leaves than the classes need: a larger tree finds a rule even in row numbers.
        tree = DecisionTreeClassifier(max_leaf_nodes=2 * len(np.unique(y)), random_state=0)
    half = len(y) // 2
    score = float(tree.fit(x[:half], y[:half]).score(x[half:], y[half:]))
    if task == REGRESSION:  # with few rows, a tree misses the ends of a line
        monotone = pd.Series(x[:, 0]).corr(pd.Series(y), method="spearman")
        return max(score, abs(monotone))
    return score
