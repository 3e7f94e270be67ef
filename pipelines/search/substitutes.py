"""Other implementations of scikit-learn's estimators: cuML's on a GPU, Intel's on its processors.

Each is taken where it has every parameter that is set to something else than its default;
why it was taken, or was not, is said with every row.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

SCIKIT_LEARN = "scikit-learn"
# scikit-learn's class -> cuML's, where both are the same model.
CUML = {
    "sklearn.cluster._kmeans.KMeans": "cuml.cluster.KMeans",
    "sklearn.decomposition._pca.PCA": "cuml.decomposition.PCA",
    "sklearn.decomposition._truncated_svd.TruncatedSVD": "cuml.decomposition.TruncatedSVD",
    "sklearn.ensemble._forest.RandomForestClassifier": "cuml.ensemble.RandomForestClassifier",
    "sklearn.ensemble._forest.RandomForestRegressor": "cuml.ensemble.RandomForestRegressor",
    "sklearn.linear_model._base.LinearRegression": "cuml.linear_model.LinearRegression",
    "sklearn.linear_model._coordinate_descent.ElasticNet": "cuml.linear_model.ElasticNet",
    "sklearn.linear_model._coordinate_descent.Lasso": "cuml.linear_model.Lasso",
    "sklearn.linear_model._logistic.LogisticRegression": "cuml.linear_model.LogisticRegression",
    "sklearn.linear_model._ridge.Ridge": "cuml.linear_model.Ridge",
    "sklearn.naive_bayes.GaussianNB": "cuml.naive_bayes.GaussianNB",
    "sklearn.neighbors._classification.KNeighborsClassifier": "cuml.neighbors.KNeighborsClassifier",
    "sklearn.neighbors._regression.KNeighborsRegressor": "cuml.neighbors.KNeighborsRegressor",
    "sklearn.svm._classes.LinearSVC": "cuml.svm.LinearSVC",
    "sklearn.svm._classes.LinearSVR": "cuml.svm.LinearSVR",
    "sklearn.svm._classes.SVC": "cuml.svm.SVC",
    "sklearn.svm._classes.SVR": "cuml.svm.SVR",
}
# Of no meaning on a GPU.
HOST_ONLY = {"n_jobs", "algorithm", "leaf_size", "cache_size", "verbose", "copy_X", "warm_start"}


@dataclass(frozen=True)
class Substitute:
    """An estimator in the place of another.

    Attributes
    ----------
    estimator : unfitted
    implementation : "scikit-learn", "cuml", "scikit-learn-intelex", or "xgboost on the GPU"
    reason : why
    """

    estimator: Any
    implementation: str
    reason: str
    replaced: bool = False


def substitute(estimator: Any, device: str, intel: bool = False) -> Substitute:
    """Return the implementation to use on a device.

    Parameters
    ----------
    estimator : unfitted; of a pipeline the last step is replaced
    device : {"cpu", "gpu"}
    intel : whether scikit-learn-intelex is wanted on a CPU
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        found = substitute(estimator.steps[-1][1], device, intel)
        whole = clone(estimator)
        whole.steps[-1] = (whole.steps[-1][0], found.estimator)
        return replace(found, estimator=whole)
    if type(estimator).__module__.startswith("xgboost"):
        if device == "gpu":
            made = clone(estimator).set_params(device="cuda")
            return Substitute(made, "xgboost on the GPU", "device='cuda'", True)
        return Substitute(estimator, "xgboost", "the workers have no GPU")
    if device == "gpu":
        return _of_cuml(estimator)
    if intel:
        return _of_intel(estimator)
    return _itself(estimator, "")


def _itself(estimator: Any, reason: str) -> Substitute:
    package = type(estimator).__module__.split(".")[0]
    return Substitute(estimator, SCIKIT_LEARN if package == "sklearn" else package, reason)


def _of_cuml(estimator: Any) -> Substitute:
    path = CUML.get(_path(estimator))
    if path is None:
        return _itself(estimator, f"cuML has no {type(estimator).__name__} that is the same model")
    module, _, name = path.rpartition(".")
    try:
        kind = getattr(import_module(module), name)
    except Exception as error:  # without a driver it fails in several ways
        return _itself(estimator, f"{path} cannot be imported ({type(error).__name__})")
    takes = inspect.signature(kind).parameters
    params, lacks = {}, []
    for parameter, value in _changed(estimator).items():
        if parameter in takes:
            params[parameter] = value
        elif parameter not in HOST_ONLY:
            lacks.append(f"{parameter}={value!r}")
    if lacks:
        return _itself(estimator, f"{path} has no {', '.join(lacks)}")
    try:
        made = kind(**params)
    except Exception as error:
        return _itself(estimator, f"{path} does not take these parameters ({error})")
    return Substitute(made, "cuml", f"{path} has every parameter that is set", True)


def _of_intel(estimator: Any) -> Substitute:
    name = type(estimator).__name__
    parts = type(estimator).__module__.split(".")
    module = f"sklearnex.{parts[1]}" if parts[0] == "sklearn" and len(parts) > 1 else ""
    if not module:
        return _itself(estimator, "not an estimator of scikit-learn")
    try:
        kind = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        missing = isinstance(error, ImportError) and error.name == "sklearnex"
        why = "it is not installed" if missing else f"it has no {name}"
        return _itself(estimator, f"scikit-learn-intelex: {why}")
    if kind is type(estimator):
        return _itself(estimator, f"scikit-learn-intelex: it has no {name}")
    made = kind(**estimator.get_params(deep=False))
    return Substitute(made, "scikit-learn-intelex", f"{module}.{name}", True)


def _path(estimator: Any) -> str:
    return f"{type(estimator).__module__}.{type(estimator).__qualname__}"


def _changed(estimator: Any) -> Mapping[str, Any]:
    """Return parameters that are set to something else than their default."""
    defaults = {
        name: one.default for name, one in inspect.signature(type(estimator)).parameters.items()
    }
    return {
        name: value
        for name, value in estimator.get_params(deep=False).items()
        if name not in defaults or (defaults[name] is not value and defaults[name] != value)
    }
