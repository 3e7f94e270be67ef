"""Estimators by name: short names for the usual ones, and import paths for all others."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from importlib import import_module
from typing import Any

from pipelines.data.dataset import CLASSIFICATION, REGRESSION
from pipelines.errors import InputError, opt

OTHER: dict[str, str] = {CLASSIFICATION: REGRESSION, REGRESSION: CLASSIFICATION}


@dataclass(frozen=True)
class Entry:
    """A short name's import paths, one for each task that it can do.

    ``settings`` are parameters that differ from the regressor's own defaults.
    """

    classifier: str | None
    regressor: str | None
    settings: Mapping[str, Any] = field(default_factory=dict)

    def path(self, task: str) -> str | None:
        """Return the import path for the task."""
        return self.classifier if task == CLASSIFICATION else self.regressor


CATALOGUE = {
    "bagging": Entry("sklearn.ensemble.BaggingClassifier", "sklearn.ensemble.BaggingRegressor"),
    "bayes": Entry("sklearn.naive_bayes.GaussianNB", "sklearn.linear_model.BayesianRidge"),
    "boosting": Entry(
        "sklearn.ensemble.HistGradientBoostingClassifier",
        "sklearn.ensemble.HistGradientBoostingRegressor",
    ),
    "discriminant": Entry("sklearn.discriminant_analysis.LinearDiscriminantAnalysis", None),
    "dummy": Entry("sklearn.dummy.DummyClassifier", "sklearn.dummy.DummyRegressor"),
    "elastic-net": Entry(None, "sklearn.linear_model.ElasticNet"),
    "extra-trees": Entry(
        "sklearn.ensemble.ExtraTreesClassifier", "sklearn.ensemble.ExtraTreesRegressor"
    ),
    "forest": Entry(
        "sklearn.ensemble.RandomForestClassifier", "sklearn.ensemble.RandomForestRegressor"
    ),
    "gaussian-process": Entry(
        "sklearn.gaussian_process.GaussianProcessClassifier",
        "sklearn.gaussian_process.GaussianProcessRegressor",
    ),
    "gradient-boosting": Entry(
        "sklearn.ensemble.GradientBoostingClassifier", "sklearn.ensemble.GradientBoostingRegressor"
    ),
    "knn": Entry("sklearn.neighbors.KNeighborsClassifier", "sklearn.neighbors.KNeighborsRegressor"),
    "lasso": Entry(None, "sklearn.linear_model.Lasso"),
    "linear": Entry(None, "sklearn.linear_model.LinearRegression"),
    "linear-svm": Entry("sklearn.svm.LinearSVC", "sklearn.svm.LinearSVR"),
    "logistic": Entry("sklearn.linear_model.LogisticRegression", None),
    "mlp": Entry("sklearn.neural_network.MLPClassifier", "sklearn.neural_network.MLPRegressor"),
    "ridge": Entry("sklearn.linear_model.RidgeClassifier", "sklearn.linear_model.Ridge"),
    "sgd": Entry("sklearn.linear_model.SGDClassifier", "sklearn.linear_model.SGDRegressor"),
    # C and epsilon mean little where a target may be of any size.
    "svm": Entry("sklearn.svm.SVC", "pipelines.svm.path_svr.PathSVR", {"scale_target": True}),
    "tree": Entry("sklearn.tree.DecisionTreeClassifier", "sklearn.tree.DecisionTreeRegressor"),
    "xgboost": Entry("xgboost.XGBClassifier", "xgboost.XGBRegressor"),
}
# Trees cut at a threshold and naive Bayes fits every column: a scale means nothing to them.
WITHOUT_SCALE = ("tree", "ensemble", "naive_bayes", "dummy", "xgboost", "lightgbm", "catboost")


def listing() -> list[str]:
    """Return a line for each short name."""
    width = max(map(len, CATALOGUE))
    return [
        f"{name:{width}}  " + ", ".join(filter(None, (entry.classifier, entry.regressor)))
        for name, entry in CATALOGUE.items()
    ]


def estimator_of(name: str, task: str, seed: int) -> Any:
    """Return an unfitted estimator by its short name or import path, with the seed of the run.

    Raises
    ------
    InputError
        There is none of that name, or it is none for this task.
    """
    kind = _class_of(name, task)
    try:
        estimator = kind()
    except TypeError as error:
        raise InputError(
            f"{opt('estimator')} must be a class that needs no argument, got {name}: {error}; "
            f"write a subclass that gives it"
        ) from None
    _refuse_other_task(estimator, name, task)
    parameters = estimator.get_params()
    if name in CATALOGUE and task == REGRESSION:
        estimator.set_params(**CATALOGUE[name].settings)
    return estimator.set_params(random_state=seed) if "random_state" in parameters else estimator


def _class_of(name: str, task: str) -> type:
    if name in CATALOGUE:
        path = CATALOGUE[name].path(task)
        if path is None:
            raise InputError(
                f"{opt('estimator')} must be one for {task}, got {name}, which is none; choose "
                f"another, or say {opt('task', OTHER[task])}"
            )
    elif "." in name:
        path = name
    else:
        near = get_close_matches(name.lower(), CATALOGUE, n=1)
        hint = f"did you mean {near[0]}?" if near else f"{opt('estimators')} lists the short names"
        raise InputError(
            f"{opt('estimator')} must be a short name or the import path of a class, got "
            f"{name!r}; {hint}"
        )
    module_name, _, class_name = path.rpartition(".")
    try:
        module = import_module(module_name)
    except Exception as error:  # whatever a module raises while it is imported
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


def _refuse_other_task(estimator: Any, name: str, task: str) -> None:
    from sklearn.base import is_classifier, is_regressor

    other = is_regressor(estimator) if task == CLASSIFICATION else is_classifier(estimator)
    if other or not hasattr(estimator, "predict"):
        raise InputError(
            f"{opt('estimator')} must be one for {task}, got {name}, which is none; choose "
            f"another, or say {opt('task', OTHER[task])}"
        )


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
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {_few(known)}"
            raise InputError(
                f"{opt('param')} must name a parameter of {label}, got {name!r}; {hint}"
            )


def _few(names: Any, most: int = 8) -> str:
    shown = [name for name in names if "__" not in name]
    return ", ".join(shown[:most]) + (", ..." if len(shown) > most else "")
