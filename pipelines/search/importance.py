"""Importances of the columns of a table for predictions, and of hyper-parameters for the score."""

from __future__ import annotations

import dataclasses
import hashlib
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import Dataset, take_rows
from pipelines.data.fits import Fit
from pipelines.errors import error_line
from pipelines.run_folder import names
from pipelines.search.fitting import limited
from pipelines.search.scoring import CandidateScorer

if TYPE_CHECKING:
    import pandas as pd

    from pipelines.search.tasks import Problem, Refit

# Number of repeats, and the fewest rows of a repeat before the next plan is tried; a plan with all
# test rows is accepted, too.
PLANS = ((20, 500), (10, 500), (5, 100))
AT_MOST = 4  # the last plan may take this many times the intended work
# In multiplications and additions, about PER_SECOND on two cores. A row costs at least as much as
# a forest of 100 trees takes for it, a call as much as the overhead of the steps of a pipeline.
WORK, OF_ROW, OF_CALL, PER_SECOND = 1e10, 5e4, 2.5e7, 5e9
LIBSVM = 4  # libsvm takes this many times as long as a matrix product with as many operations
OF_BUDGET = 0.025  # fraction of a time budget that importances are meant to take
MOST_STACKED = 20_000  # rows that a model is asked about at once
CONFIDENCE = 0.95

# Below these numbers of candidates, importances of hyper-parameters are not reported.
CANDIDATES_PER_PARAMETER, FEWEST_CANDIDATES = 10, 20
TREES = 100
# Out-of-bag R². In 40 searches of 64 candidates with random scores it was 0.14 at most.
LEAST_EXPLAINED = 0.2


class AskedModel:
    """A fitted model of any kind, in the form that scikit-learn's scorers take.

    Parameters
    ----------
    predict : callable
        Function of rows that returns class codes, or numbers.
    n_classes : int, default 0
        0 for a regression.
    work : float, default 0
        Multiplications and additions of a prediction for one row.
    **methods
        Further methods by name, such as ``predict_proba``.
    """

    def __init__(
        self,
        predict: Callable[[Any], np.ndarray],
        n_classes: int = 0,
        work: float = 0.0,
        **methods: Callable[[Any], np.ndarray],
    ) -> None:
        self.predict, self.work = predict, work
        if n_classes:
            self.classes_ = np.arange(n_classes)
        vars(self).update(methods)

    def __sklearn_tags__(self) -> Any:
        from sklearn.utils import ClassifierTags, RegressorTags, Tags, TargetTags

        target = TargetTags(required=True)
        if hasattr(self, "classes_"):
            return Tags("classifier", target, classifier_tags=ClassifierTags())
        return Tags("regressor", target, regressor_tags=RegressorTags())


@dataclass(frozen=True, eq=False)
class ColumnImportances:
    """Measures the importances of the columns of a table; it is sent to a worker.

    Attributes
    ----------
    columns : tuple of str
        Column names of the table.
    seed : int
        Seed of the run.
    work : float
        The most multiplications and additions to spend.
    """

    columns: tuple[str, ...]
    seed: int
    work: float = WORK

    @classmethod
    def of(cls, data: Dataset, seed: int, time_budget: float | None) -> ColumnImportances | None:
        """The settings of a run; None for images or their features, or without test rows.

        Parameters
        ----------
        data : Dataset
        seed : int
        time_budget : float or None
            Time budget of the run, in seconds.
        """
        of_images = data.image_shape is not None or data.pictures is not None
        if of_images or not data.feature_names or not len(data.y_test):
            return None
        columns: Sequence[Any] = getattr(data.X_test, "columns", data.feature_names)
        work = WORK if time_budget is None else min(WORK, OF_BUDGET * PER_SECOND * time_budget)
        return cls(tuple(map(str, columns)), seed, work)

    def plan(self, n_test: int, work_per_row: float, n_models: int = 1) -> tuple[int, int] | None:
        """Choose the number of rows of a repeat and the number of repeats.

        If the work is too much, rows are left out first, then repeats, see ``PLANS``.

        Parameters
        ----------
        n_test : int
            Number of test rows.
        work_per_row : float
            Multiplications and additions of a prediction for one row.
        n_models : int, default 1
            Models that predict one after another, such as the members of an ensemble.

        Returns
        -------
        (int, int) or None
            Rows of a repeat, and repeats; None if even the last plan takes too long.
        """
        work_per_row = (len(self.columns) + 1) * max(work_per_row, OF_ROW)
        work_of_calls = 2 * OF_CALL * n_models
        for n_repeats, fewest_rows in PLANS:
            n_rows = min(n_test, int((self.work / n_repeats - work_of_calls) / work_per_row))
            if n_rows >= (n_needed := min(n_test, fewest_rows)):
                return n_rows, n_repeats
        is_little = n_repeats * (n_needed * work_per_row + work_of_calls) <= AT_MOST * self.work
        return (n_needed, n_repeats) if is_little else None

    def measure(
        self,
        model: Any,
        X: Any,
        y: np.ndarray,
        scorer: CandidateScorer,
        work_per_row: float = 0.0,
        n_models: int = 1,
    ) -> tuple[pd.DataFrame | None, str]:
        """Permutation importances: how much the test score drops if a column is shuffled.

        Like scikit-learn's ``permutation_importance``, with two differences. Each repeat draws its
        rows with replacement, so that the interval also covers the choice of the test rows. And
        the model predicts for all columns at once: a pipeline takes longer for ten calls than for
        ten times the rows.

        Parameters
        ----------
        model : fitted estimator
            Its ``predict`` returns class codes if ``y`` are codes.
        X : array or DataFrame of shape (n_test, n_columns)
            The table before its preparation, so that all one-hot columns of a category change
            together.
        y : array of shape (n_test,)
        scorer : CandidateScorer
            The first of its names is measured.
        work_per_row, n_models
            See ``plan``.

        Returns
        -------
        table : DataFrame or None
            Columns ``column``, ``importance`` (mean drop of the score), ``low`` and ``high`` (95 %
            interval of such draws, by Student's t), ``scoring``, ``n_rows`` and ``n_repeats``; the
            most important first. None if the model is too slow, or its score fails.
        remark : str
            Why there is no table; empty if there is one.

        References
        ----------
        Breiman, Random forests, Machine Learning 45, 2001.
        """
        import pandas as pd
        from scipy.stats import t

        plan = self.plan(len(y), work_per_row, n_models)
        if plan is None:
            return None, (
                f"importances of the {len(self.columns):,} columns are left out: they would take "
                "too many predictions"
            )
        n_rows, n_repeats = plan
        name = scorer.names[0]
        scorer = dataclasses.replace(
            scorer, names=(name,)
        )  # keeps the user's own scorer, if it is one
        drops = np.empty((n_repeats, len(self.columns)))
        for repeat in range(n_repeats):
            rng = np.random.default_rng(_position_seed("importances", self.seed, repeat))
            rows = _drawn_rows(y, n_rows, rng)
            truth, order = y[rows], rng.permutation(len(rows))
            scores = [
                scorer.by_name(model, take_rows(copies.stacked, part), truth, copies.fit(part))[
                    name
                ]
                for copies in _stacks(model, take_rows(X, rows), order)
                for part in copies.parts
            ]
            if reasons := [score for score in scores if isinstance(score, str)]:
                return None, f"importances of columns are left out: {reasons[0]}"
            if not np.isfinite(scores).all():
                return (
                    None,
                    f"importances of columns are left out: {name} of test rows is no number",
                )
            drops[repeat] = scores[0] - np.asarray(scores[1:], dtype=float)
        mean, spread = drops.mean(axis=0), drops.std(axis=0, ddof=1)
        margin = float(t.ppf((1 + CONFIDENCE) / 2, n_repeats - 1)) * spread
        table = pd.DataFrame(
            {
                "column": self.columns,
                "importance": mean,
                "low": mean - margin,
                "high": mean + margin,
                "scoring": name,
                "n_rows": n_rows,
                "n_repeats": n_repeats,
            }
        )
        return table.sort_values("importance", ascending=False, kind="stable"), ""


@dataclass(frozen=True, eq=False)
class _Copies:
    """Copies of a table stacked below each other; the model predicts for all of them at once."""

    model: Any
    stacked: Any
    n_rows: int

    @property
    def parts(self) -> list[slice]:
        """The slice of rows of each copy."""
        starts = range(0, len(self.stacked), self.n_rows)
        return [slice(start, start + self.n_rows) for start in starts]

    @cached_property
    def _answers(self) -> dict[str, np.ndarray]:
        return {}

    def fit(self, part: slice) -> Fit:
        """The predictions of one copy, in the form that scorers take."""

        def predict(method: str, _: str) -> np.ndarray:
            if method not in self._answers:
                self._answers[method] = np.asarray(getattr(self.model, method)(self.stacked))
            return self._answers[method][part]

        return Fit(0, 0, predict=predict, classes=getattr(self.model, "classes_", None))


def _stacks(model: Any, X: Any, order: np.ndarray) -> Iterator[_Copies]:
    """Stack the table as it is and one copy for each shuffled column, a few copies at a time."""
    n_rows, n_copies = len(X), X.shape[1] + 1
    copies_per_stack = max(1, MOST_STACKED // n_rows)
    for first in range(0, n_copies, copies_per_stack):
        last = min(n_copies, first + copies_per_stack)
        row_numbers = np.tile(np.arange(n_rows), last - first)
        stacked = take_rows(X, row_numbers)
        if hasattr(stacked, "iloc"):
            stacked = stacked.reset_index(drop=True)
        for copy in range(max(first, 1), last):  # the first copy of all is the table itself
            part = slice((copy - first) * n_rows, (copy - first + 1) * n_rows)
            if hasattr(stacked, "iloc"):
                values = stacked.iloc[:, copy - 1].copy()
                values.iloc[part] = X.iloc[order, copy - 1].to_numpy()
                stacked.isetitem(copy - 1, values)
            else:
                stacked[part, copy - 1] = X[order, copy - 1]
        yield _Copies(model, stacked, n_rows)


def _drawn_rows(y: np.ndarray, n_rows: int, rng: np.random.Generator) -> np.ndarray:
    """Draw rows with replacement; each class in proportion, but at least one row."""
    if y.dtype.kind == "f":
        return rng.integers(len(y), size=n_rows)
    codes, counts = np.unique(y, return_counts=True)
    ends = np.round(np.cumsum(counts) * n_rows / len(y)).astype(int)
    sizes = np.maximum(1, np.diff(ends, prepend=0))
    drawn_rows = [
        rng.choice(np.flatnonzero(y == code), size) for code, size in zip(codes, sizes, strict=True)
    ]
    return np.concatenate(drawn_rows)


def _position_seed(*position: Any) -> int:
    """A seed for one purpose in a run, different from all others."""
    return int.from_bytes(hashlib.sha256(repr(position).encode()).digest()[:8], "little")


def refit_with_importances(
    problem: Problem,
    refit: Refit,
    fit: Callable[[Problem, Refit], dict[str, Any]],
    column_importances: ColumnImportances | None,
    n_threads: int = 1,
) -> dict[str, Any]:
    """Refit the best candidate and measure its column importances, in one task.

    Both happen on the same worker, so that the fitted model need not travel.

    Parameters
    ----------
    problem : Problem
    refit : Refit
    fit : callable
        Function of problem and refit; its result contains ``fitted``, the model in the form that
        ``CandidateScorer`` takes, which is removed here.
    column_importances : ColumnImportances or None
        None if the rows have no columns to measure.
    n_threads : int, default 1

    Returns
    -------
    dict
        The result of ``fit``, with ``importances`` and ``remark`` as ``ColumnImportances.measure``
        returns them.
    """
    test_results, table, remark = fit(problem, refit), None, ""
    model = test_results.pop("fitted", None)
    if column_importances is not None and model is not None:
        data = problem.data
        try:
            with limited(n_threads):
                table, remark = column_importances.measure(
                    model, data.X_test, data.y_test, problem.scorer, work_of(model)
                )
        except (
            Exception
        ) as error:  # in the code of an estimator: the answer does without importances
            remark = f"importances of columns are left out: {error_line(error)}"
    return {**test_results, "importances": table, "remark": remark}


def write_importances(
    path: Path, of_columns: pd.DataFrame | None, of_parameters: pd.DataFrame
) -> None:
    """Write both tables to a run folder; the file of an empty one is removed."""
    for name, table in (
        (names.IMPORTANCES, of_columns),
        (names.PARAMETER_IMPORTANCES, of_parameters),
    ):
        if table is None or table.empty:
            (path / name).unlink(missing_ok=True)
        else:
            names.write_table(table.reset_index(drop=True), path / name)


def work_of(model: Any) -> float:
    """Multiplications and additions per predicted row, for models that keep training rows.

    Such are SVMs, nearest neighbours and Gaussian processes; for all others it is 0.
    """
    steps = [step for _, step in getattr(model, "steps", [])] or [model]
    for step in reversed(steps):
        if (machine := getattr(step, "machine_", None)) is not None:
            return float(math.prod(machine.support_vectors.shape))
        for name, factor in (("support_vectors_", LIBSVM), ("_fit_X", 1), ("X_train_", 1)):
            kept_rows = getattr(step, name, None)
            if kept_rows is not None and getattr(kept_rows, "ndim", 0) == 2:
                return float(factor * math.prod(kept_rows.shape))
    return float(getattr(model, "work", 0.0))


def parameter_importances(
    candidates: Sequence[tuple[str, Mapping[str, Any], float]], seed: int
) -> pd.DataFrame:
    """How much each hyper-parameter explains of the candidates' ranks, for each algorithm.

    A random forest is fitted to the ranks of the scores, so that a few very bad candidates do not
    decide the result. An importance is the fraction of the decrease of variance at the nodes that
    split by a parameter, the mean over the trees. This is the rule of Optuna's
    ``MeanDecreaseImpurityImportanceEvaluator``.

    An algorithm is left out if it has fewer than ``FEWEST_CANDIDATES`` candidates, or fewer than
    ``CANDIDATES_PER_PARAMETER`` for each parameter that varies; if only one parameter varies; or
    if the forest does not predict candidates that its trees have not seen.

    Parameters
    ----------
    candidates : sequence of (str, dict, float)
        Algorithm, parameters and mean score of each; NaN for a candidate without a score.
    seed : int
        Seed of the forest.

    Returns
    -------
    DataFrame
        Columns ``algorithm``, ``parameter``, ``importance``, ``low`` and ``high`` (95 % of the
        trees lie between them), ``explained`` (out-of-bag R² of the forest) and ``n_candidates``;
        no rows if nothing is known.

    References
    ----------
    Hutter, Hoos and Leyton-Brown, An efficient approach for assessing hyperparameter importance,
    ICML, 2014.
    """
    import pandas as pd

    rows = []
    algorithms = dict.fromkeys(algorithm for algorithm, _, _ in candidates)
    for algorithm in algorithms:
        scored_points = [
            (parameters, score)
            for name, parameters, score in candidates
            if name == algorithm and np.isfinite(score)
        ]
        coded = _varying([parameters for parameters, _ in scored_points])
        n_needed = max(FEWEST_CANDIDATES, CANDIDATES_PER_PARAMETER * len(coded))
        if len(coded) < 2 or len(scored_points) < n_needed:
            continue
        from scipy.stats import rankdata
        from sklearn.ensemble import RandomForestRegressor

        # Divided, as scikit-learn before 1.8 takes whole numbers for classes and warns.
        ranks = rankdata([score for _, score in scored_points]) / (len(scored_points) + 1)
        forest = RandomForestRegressor(TREES, oob_score=True, random_state=seed % 2**32)
        forest.fit(np.column_stack([*coded.values()]), ranks)
        if not forest.oob_score_ >= LEAST_EXPLAINED:
            continue
        of_trees = np.array([tree.feature_importances_ for tree in forest.estimators_])
        ends = np.quantile(of_trees, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2], axis=0)
        rows += [
            (algorithm, name, *of_parameter, forest.oob_score_, len(scored_points))
            for name, *of_parameter in zip(coded, of_trees.mean(axis=0), *ends, strict=True)
        ]
    columns = ["algorithm", "parameter", "importance", "low", "high", "explained", "n_candidates"]
    table = pd.DataFrame(rows, columns=columns)
    order = table["algorithm"].map({name: position for position, name in enumerate(algorithms)})
    return (
        table.assign(order=order)
        .sort_values(["order", "importance"], ascending=[True, False], kind="stable")
        .drop(columns="order")
        .reset_index(drop=True)
    )


def _varying(points: Sequence[Mapping[str, Any]]) -> dict[str, np.ndarray]:
    """The parameters that vary, as numbers; other values are numbered in the order of their texts.

    Parameters
    ----------
    points : sequence of dict
        Parameters of each candidate; one that a candidate lacks counts as None.

    Returns
    -------
    dict of str to array of shape (n_candidates,)
    """
    coded = {}
    for name in dict.fromkeys(name for point in points for name in point):
        values = [point.get(name) for point in points]
        texts = [str(value) for value in values]
        if len(set(texts)) < 2:
            continue
        is_number = all(
            isinstance(value, int | float | np.number)
            and not isinstance(value, bool)
            and math.isfinite(value)
            for value in values
        )
        coded[name] = (
            np.array(values, dtype=float) if is_number else np.unique(texts, return_inverse=True)[1]
        )
    return coded
