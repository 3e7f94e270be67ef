"""Estimators of others, and awkward ones, for ``benchmarks.third_party``; workers import them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin, TransformerMixin

CLASSES, NUMBERS = "classification", "regression"
TOLERANCE = 1e-9  # of scores; sums of several threads end in another order
# Ours and LIBSVM stop at different points within tol, 1e-3 of predictions.
TOLERANCES = {"SVR": 1e-6}


@dataclass(frozen=True)
class Entry:
    """An estimator that is searched.

    Attributes
    ----------
    kind : whose it is
    make : returns it, unfitted
    grid : its candidates
    task : "classification" or "regression"
    repeatable : whether two fits of scikit-learn's on equal rows are equal
    tolerance : what two equal scores differ by at most
    """

    kind: str
    name: str
    make: Callable[[], Any]
    grid: Mapping[str, Sequence[Any]]
    task: str = CLASSES
    repeatable: bool = True

    @property
    def tolerance(self) -> float:
        """See above."""
        return TOLERANCES.get(self.name, TOLERANCE)


class Nearest(ClassifierMixin, BaseEstimator):
    """The class whose mean is nearest."""

    def __init__(self, power: int = 1) -> None:
        self.power = power

    def fit(self, X: Any, y: Any) -> Any:
        """Take the mean of each class."""
        self.classes_ = np.unique(y)
        self.means_ = np.stack([X[y == label].mean(axis=0) for label in self.classes_])
        return self

    def predict(self, X: Any) -> Any:
        """Return the class whose mean is nearest."""
        distances = np.abs(X[:, None] - self.means_[None]) ** self.power
        return self.classes_[distances.sum(axis=2).argmin(axis=1)]


class WritesRows(Nearest):
    """Writes to the rows and targets it is fitted on."""

    def fit(self, X: Any, y: Any) -> Any:
        """See ``Nearest``."""
        super().fit(X, y)
        X *= -1
        y[:] = y[0]
        return self


class WritesAsked(Nearest):
    """Writes to the rows it is asked about."""

    def predict(self, X: Any) -> Any:
        """See ``Nearest``."""
        predicted = super().predict(X)
        X[:] = 0
        return predicted


class ReturnsNone(Nearest):
    """Has a ``fit`` that returns nothing."""

    def fit(self, X: Any, y: Any) -> None:
        """See ``Nearest``."""
        super().fit(X, y)


class Column(Nearest):
    """Predicts a column of floats."""

    def predict(self, X: Any) -> Any:
        """See ``Nearest``."""
        return super().predict(X).astype(float)[:, None]


class Draws(Nearest):
    """Draws from numpy's global generator."""

    def fit(self, X: Any, y: Any) -> Any:
        """See ``Nearest``."""
        super().fit(X, y)
        self.means_ = self.means_ + np.random.normal(size=self.means_.shape)  # noqa: NPY002
        return self


class WritingStep(TransformerMixin, BaseEstimator):
    """Centres rows where they lie."""

    def fit(self, X: Any, y: Any = None) -> Any:
        """Take the mean."""
        self.mean_ = X.mean(axis=0)
        X -= 1
        return self

    def transform(self, X: Any) -> Any:
        """Subtract the mean."""
        X -= self.mean_
        return X


def network(n_inputs: int, n_outputs: int) -> Any:
    """Return layers of torch's."""
    from torch import nn

    return nn.Sequential(nn.Linear(n_inputs, 8), nn.ReLU(), nn.Linear(8, n_outputs))


def skorch_net(kind: str, n_inputs: int, n_outputs: int) -> Any:
    """Return a network of skorch's on float32 rows; it draws from torch's global generator."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler
    from torch import nn

    skorch = import_module("skorch")
    options: dict[str, Any] = {
        "module": network,
        "module__n_inputs": n_inputs,
        "module__n_outputs": n_outputs,
        "max_epochs": 5,
        "train_split": None,
        "verbose": 0,
    }
    if kind == CLASSES:
        net: Any = skorch.NeuralNetClassifier(criterion=nn.CrossEntropyLoss, **options)
    else:
        net = TransformedTargetRegressor(
            skorch.NeuralNetRegressor(**options),
            func=_column,
            inverse_func=_double,
            check_inverse=False,
        )
    single = FunctionTransformer(_single)
    return make_pipeline(StandardScaler(), single, net)


def _single(X: Any) -> Any:
    return X.astype(np.float32)


def _column(y: Any) -> Any:
    return (y / 100).astype(np.float32).reshape(-1, 1)


def _double(y: Any) -> Any:
    return (np.asarray(y, float) * 100).reshape(-1)


def _maker(path: str, **parameters: Any) -> Callable[[], Any]:
    """Return a function that imports a class and makes an estimator of it."""
    module, _, name = path.rpartition(".")
    return lambda: getattr(import_module(module), name)(**parameters)


def _piped(*steps: Callable[[], Any], module: str = "sklearn.pipeline") -> Callable[[], Any]:
    return lambda: import_module(module).make_pipeline(*(make() for make in steps))


def _around(path: str, inner: Callable[[], Any], **parameters: Any) -> Callable[[], Any]:
    module, _, name = path.rpartition(".")
    return lambda: getattr(import_module(module), name)(inner(), **parameters)


def _several(path: str, *inner: Callable[[], Any]) -> Callable[[], Any]:
    module, _, name = path.rpartition(".")
    return lambda: getattr(import_module(module), name)(
        [(f"e{i}", make()) for i, make in enumerate(inner)]
    )


SEED = {"random_state": 0}
QUIET = {"verbose": False, "allow_writing_files": False, "iterations": 10, "thread_count": 1}
SCALER = _maker("sklearn.preprocessing.StandardScaler")
LOGISTIC = _maker("sklearn.linear_model.LogisticRegression", max_iter=500)
TREE = _maker("sklearn.tree.DecisionTreeClassifier", max_depth=3, **SEED)


def _sklearn() -> list[Entry]:
    """Return scikit-learn's."""
    classifiers: list[tuple[str, dict[str, Any], dict[str, list[Any]]]] = [
        ("linear_model.LogisticRegression", {"max_iter": 2000}, {"C": [0.1, 1.0]}),
        ("linear_model.RidgeClassifier", {"copy_X": False}, {"alpha": [0.1, 10.0]}),
        ("linear_model.SGDClassifier", SEED, {"alpha": [1e-4, 1e-2]}),
        ("linear_model.Perceptron", SEED, {"alpha": [1e-4, 1e-2]}),
        ("svm.LinearSVC", SEED | {"max_iter": 100}, {"C": [0.01, 0.1]}),
        ("svm.SVC", {}, {"C": [0.1, 10.0]}),
        ("svm.NuSVC", {}, {"nu": [0.1, 0.3]}),
        ("neighbors.KNeighborsClassifier", {}, {"n_neighbors": [1, 5]}),
        ("neighbors.NearestCentroid", {}, {"shrink_threshold": [None, 0.5]}),
        ("naive_bayes.GaussianNB", {}, {"var_smoothing": [1e-9, 1e-3]}),
        ("naive_bayes.BernoulliNB", {"binarize": 2.0}, {"alpha": [0.1, 1.0]}),
        ("discriminant_analysis.LinearDiscriminantAnalysis", {}, {"tol": [1e-4, 1e-2]}),
        (
            "discriminant_analysis.QuadraticDiscriminantAnalysis",
            {},
            {"reg_param": [0.01, 0.1]},
        ),
        ("tree.DecisionTreeClassifier", SEED, {"max_depth": [2, 5]}),
        ("tree.ExtraTreeClassifier", SEED, {"max_depth": [2, 5]}),
        ("ensemble.RandomForestClassifier", SEED, {"n_estimators": [3, 9]}),
        ("ensemble.ExtraTreesClassifier", SEED, {"n_estimators": [3, 9]}),
        ("ensemble.BaggingClassifier", SEED, {"n_estimators": [3, 9]}),
        ("ensemble.AdaBoostClassifier", SEED, {"n_estimators": [3, 9]}),
        ("ensemble.GradientBoostingClassifier", SEED, {"n_estimators": [3, 9]}),
        ("ensemble.HistGradientBoostingClassifier", SEED, {"max_iter": [3, 9]}),
        ("neural_network.MLPClassifier", SEED | {"max_iter": 20}, {"alpha": [1e-4, 1.0]}),
        ("gaussian_process.GaussianProcessClassifier", SEED, {"warm_start": [False, True]}),
        ("semi_supervised.LabelPropagation", {}, {"gamma": [1e-4, 1e-3]}),
    ]
    regressors: list[tuple[str, dict[str, Any], dict[str, list[Any]]]] = [
        ("linear_model.Ridge", {"copy_X": False}, {"alpha": [0.1, 10.0]}),
        ("linear_model.Lasso", {"copy_X": False}, {"alpha": [0.1, 1.0]}),
        ("linear_model.HuberRegressor", {"max_iter": 500}, {"epsilon": [1.3, 2.0]}),
        ("svm.SVR", {}, {"C": [1.0, 100.0]}),
        ("neighbors.KNeighborsRegressor", {}, {"n_neighbors": [1, 5]}),
        ("ensemble.RandomForestRegressor", SEED, {"n_estimators": [3, 9]}),
        ("kernel_ridge.KernelRidge", {"kernel": "rbf"}, {"alpha": [0.01, 0.1]}),
        ("cross_decomposition.PLSRegression", {"copy": False}, {"n_components": [1, 2]}),
    ]
    entries = [
        Entry("scikit-learn", path.rpartition(".")[2], _maker(f"sklearn.{path}", **how), grid, task)
        for task, table in ((CLASSES, classifiers), (NUMBERS, regressors))
        for path, how, grid in table
    ]
    in_place = _maker("sklearn.preprocessing.StandardScaler", copy=False)
    analysis = _maker("sklearn.decomposition.PCA", copy=False, **SEED)
    wholes = {
        "Voting": _several("sklearn.ensemble.VotingClassifier", TREE, LOGISTIC),
        "Stacking": _several("sklearn.ensemble.StackingClassifier", TREE, LOGISTIC),
        "Calibrated": _around("sklearn.calibration.CalibratedClassifierCV", TREE),
        "OneVsRest": _around("sklearn.multiclass.OneVsRestClassifier", TREE),
    }
    grids: dict[str, dict[str, list[Any]]] = {
        "Voting": {"voting": ["hard", "soft"]},
        "Stacking": {"passthrough": [False, True]},
        "Calibrated": {"method": ["sigmoid", "isotonic"]},
        "OneVsRest": {"estimator__max_depth": [1, 3]},
    }
    entries += [
        Entry(
            "scikit-learn",
            name,
            _piped(SCALER, make),
            {
                f"{type(make()).__name__.lower()}__{parameter}": values
                for parameter, values in grids[name].items()
            },
        )
        for name, make in wholes.items()
    ]
    entries.append(
        Entry(
            "scikit-learn",
            "scaler, PCA, logistic in place",
            _piped(in_place, analysis, LOGISTIC),
            {"pca__n_components": [2, 5], "logisticregression__C": [0.1, 1.0]},
        )
    )
    return entries


def _of_packages() -> list[Entry]:
    """Return those of other packages; they are imported where they are made."""
    xgb, trees = {"n_jobs": 1, "n_estimators": 5, **SEED}, {"max_depth": [2, 4]}
    lgbm = {"n_jobs": 1, "n_estimators": 5, "verbose": -1, **SEED}
    rows: list[tuple[str, str, dict[str, Any], dict[str, list[Any]], str]] = [
        ("sklearnex", "sklearnex.svm.SVC", {}, {"C": [0.1, 10.0]}, CLASSES),
        (
            "sklearnex",
            "sklearnex.ensemble.RandomForestClassifier",
            SEED,
            {"n_estimators": [3, 9]},
            CLASSES,
        ),
        (
            "sklearnex",
            "sklearnex.neighbors.KNeighborsClassifier",
            {},
            {"n_neighbors": [1, 5]},
            CLASSES,
        ),
        (
            "sklearnex",
            "sklearnex.linear_model.LogisticRegression",
            {"max_iter": 2000},
            {"C": [0.1, 1.0]},
            CLASSES,
        ),
        ("sklearnex", "sklearnex.linear_model.Ridge", {}, {"alpha": [0.1, 10.0]}, NUMBERS),
        ("xgboost", "xgboost.XGBClassifier", xgb, trees, CLASSES),
        ("xgboost", "xgboost.XGBRegressor", xgb, trees, NUMBERS),
        ("xgboost", "xgboost.XGBRFClassifier", xgb, trees, CLASSES),
        ("lightgbm", "lightgbm.LGBMClassifier", lgbm, {"num_leaves": [3, 7]}, CLASSES),
        ("lightgbm", "lightgbm.LGBMRegressor", lgbm, {"num_leaves": [3, 7]}, NUMBERS),
        ("catboost", "catboost.CatBoostClassifier", QUIET | SEED, {"depth": [2, 4]}, CLASSES),
        ("catboost", "catboost.CatBoostRegressor", QUIET | SEED, {"depth": [2, 4]}, NUMBERS),
        (
            "imbalanced-learn",
            "imblearn.ensemble.BalancedRandomForestClassifier",
            SEED,
            {"n_estimators": [3, 9]},
            CLASSES,
        ),
        (
            "imbalanced-learn",
            "imblearn.ensemble.RUSBoostClassifier",
            SEED,
            {"n_estimators": [3, 9]},
            CLASSES,
        ),
        (
            "imbalanced-learn",
            "imblearn.ensemble.BalancedBaggingClassifier",
            SEED,
            {"n_estimators": [3, 9]},
            CLASSES,
        ),
    ]
    entries = [
        Entry(kind, path.rpartition(".")[2], _maker(path, **how), grid, task)
        for kind, path, how, grid, task in rows
    ]
    for sampler in ("over_sampling.SMOTE", "under_sampling.RandomUnderSampler"):
        name = sampler.rpartition(".")[2]
        steps = SCALER, _maker(f"imblearn.{sampler}", **SEED), LOGISTIC
        make = _piped(*steps, module="imblearn.pipeline")
        entries.append(
            Entry(
                "imbalanced-learn", f"{name}, logistic", make, {"logisticregression__C": [0.1, 1.0]}
            )
        )
    boosted = _piped(SCALER, _maker("lightgbm.LGBMClassifier", **lgbm))
    entries.append(
        Entry("lightgbm", "scaler, LGBMClassifier", boosted, {"lgbmclassifier__num_leaves": [3, 7]})
    )
    rates = [0.01, 0.1]
    entries.append(
        Entry(
            "skorch",
            "NeuralNetClassifier",
            lambda: skorch_net(CLASSES, 13, 3),
            {"neuralnetclassifier__lr": rates},
            repeatable=False,
        )
    )
    entries.append(
        Entry(
            "skorch",
            "NeuralNetRegressor",
            lambda: skorch_net(NUMBERS, 10, 1),
            {"transformedtargetregressor__regressor__lr": rates},
            NUMBERS,
            repeatable=False,
        )
    )
    return entries


def _awkward() -> list[Entry]:
    """Return those of this file, alone and behind steps."""
    powers = {"power": [1, 2]}
    kinds = (Nearest, WritesRows, WritesAsked, ReturnsNone, Column)
    entries = [Entry("own", kind.__name__, kind, powers) for kind in kinds]
    behind: list[type[Any]] = [WritesRows, WritesAsked]
    entries += [
        Entry(
            "own",
            f"step that writes, {kind.__name__}",
            _piped(WritingStep, kind),
            {f"{kind.__name__.lower()}__power": [1, 2]},
        )
        for kind in behind
    ]
    return [*entries, Entry("own", "Draws", Draws, powers, repeatable=False)]


ENTRIES: tuple[Entry, ...] = (*_sklearn(), *_of_packages(), *_awkward())
PACKAGES = {
    "sklearnex": "scikit-learn-intelex",
    "xgboost": "xgboost",
    "lightgbm": "lightgbm",
    "catboost": "catboost",
    "skorch": "skorch",
    "imbalanced-learn": "imbalanced-learn",
}
