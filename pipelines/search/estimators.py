"""Estimators by name: short names for the usual ones, and import paths for all others."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from pipelines.data.dataset import CLASSIFICATION, REGRESSION
from pipelines.data.user_files import USER_ERRORS
from pipelines.errors import InputError, opt

# Import paths by short name: a classifier's and a regressor's.
CATALOGUE: dict[str, tuple[str | None, str | None]] = {
    "bayes": ("sklearn.naive_bayes.GaussianNB", "sklearn.linear_model.BayesianRidge"),
    "discriminant": ("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", None),
    "elastic-net": (None, "sklearn.linear_model.ElasticNet"),
    "lasso": (None, "sklearn.linear_model.Lasso"),
    "linear": (None, "sklearn.linear_model.LinearRegression"),
    "linear-svm": ("sklearn.svm.LinearSVC", "sklearn.svm.LinearSVR"),
    "logistic": ("sklearn.linear_model.LogisticRegression", None),
    "ridge": ("sklearn.linear_model.RidgeClassifier", "sklearn.linear_model.Ridge"),
    "svm": ("sklearn.svm.SVC", "pipelines.svm.path_svr.PathSVR"),
    "xgboost": ("xgboost.XGBClassifier", "xgboost.XGBRegressor"),
} | {
    name: (f"sklearn.{path}Classifier", f"sklearn.{path}Regressor")
    for name, path in {
        "bagging": "ensemble.Bagging", "boosting": "ensemble.HistGradientBoosting",
        "dummy": "dummy.Dummy", "extra-trees": "ensemble.ExtraTrees",
        "forest": "ensemble.RandomForest", "gaussian-process": "gaussian_process.GaussianProcess",
        "gradient-boosting": "ensemble.GradientBoosting", "knn": "neighbors.KNeighbors",
        "mlp": "neural_network.MLP", "sgd": "linear_model.SGD", "tree": "tree.DecisionTree",
    }.items()
}  # fmt: skip
# Trees cut at a threshold and naive Bayes fits every column: a scale means nothing to them.
WITHOUT_SCALE = ("tree", "ensemble", "naive_bayes", "dummy", "xgboost", "lightgbm", "catboost")


def listing() -> list[str]:
    """Return a line for each short name."""
    width = max(map(len, CATALOGUE))
    return [
        f"{name:{width}}  " + ", ".join(filter(None, CATALOGUE[name])) for name in sorted(CATALOGUE)
    ]


def estimator_of(name: str, task: str, seed: int) -> Any:
    """Return an unfitted estimator by its short name or import path, with the seed of the run.

    Raises
    ------
    InputError
        There is none of that name, or it is none for this task.
    """
    from sklearn.base import is_classifier, is_regressor

    other = REGRESSION if task == CLASSIFICATION else CLASSIFICATION
    of_other_task = InputError(
        f"{opt('estimator')} must be one for {task}, got {name}, which is none; choose "
        f"another, or say {opt('task', other)}"
    )
    path = CATALOGUE[name][task == REGRESSION] if name in CATALOGUE else name
    if path is None:
        raise of_other_task
    kind = _import_class(name, path)
    try:
        estimator = kind()
    except TypeError as error:
        raise InputError(
            f"{opt('estimator')} must be a class whose arguments all have defaults, got {name}: "
            f"{error}; "
            f"write a subclass that sets them"
        ) from None
    is_other = is_regressor if task == CLASSIFICATION else is_classifier
    if is_other(estimator) or not hasattr(estimator, "predict"):
        raise of_other_task
    if name == "svm" and task == REGRESSION:
        # C and epsilon mean little where a target may be of any size.
        estimator.set_params(scale_target=True)
    seeded = "random_state" in estimator.get_params()
    return estimator.set_params(random_state=seed) if seeded else estimator


def _import_class(name: str, path: str) -> type:
    if "." not in path:
        near = get_close_matches(name.lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{opt('estimators')} lists the short names"
        raise InputError(
            f"{opt('estimator')} must be a short name or the import path of a class, got "
            f"{name!r}; {hint}"
        )
    module_name, _, class_name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except USER_ERRORS as error:
        raise InputError(
            f"{opt('estimator')} must be a class that can be imported, got {name} ({error}); "
            f"install the package or check the spelling"
        ) from None
    found = getattr(module, class_name, None)
    if found is None:
        near = get_close_matches(class_name, dir(module), n=1)
        hint = f"did you mean {module_name}.{near[0]}?" if near else "check the spelling"
        raise InputError(
            f"{opt('estimator')} must be a class that can be imported, but {module_name} has no "
            f"{class_name}; {hint}"
        )
    if not inspect.isclass(found) or not all(hasattr(found, m) for m in ("fit", "get_params")):
        raise InputError(
            f"{opt('estimator')} must be a class with fit and get_params, as scikit-learn's, got "
            f"{name}, which has none; name another"
        )
    return found


def wants_scale(estimator: Any) -> bool:
    """Return whether an estimator is sensitive to the scale of features."""
    parts = type(estimator).__module__.split(".")
    return not set(parts[:2]) & set(WITHOUT_SCALE)


def refuse_unknown(estimator: Any, names: Sequence[str], label: str) -> None:
    """Refuse names of parameters that an estimator does not have.

    Raises
    ------
    InputError
        It has no such parameter; near names are suggested.
    """
    known = estimator.get_params(deep=True)
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=3)
            shown = [one for one in known if "__" not in one]
            few = ", ".join(shown[:8]) + (", ..." if len(shown) > 8 else "")
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {few}"
            raise InputError(
                f"{opt('param')} must name a parameter of {label}, got {name!r}; {hint}"
            )
