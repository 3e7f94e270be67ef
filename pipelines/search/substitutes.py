"""The same model on a GPU: cuML's estimators in the place of scikit-learn's.

One is taken where it has every parameter that is set to something else than its default;
why it was taken, or was not, is said with every row.
"""

from __future__ import annotations

import inspect
from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

# Where cuML has the same model under the same name, cuml.MODULE.CLASS for sklearn.MODULE.CLASS.
CUML = {
    "ensemble": ("RandomForestClassifier", "RandomForestRegressor"),
    "linear_model": ("ElasticNet", "Lasso", "LinearRegression", "LogisticRegression", "Ridge"),
    "naive_bayes": ("GaussianNB",),
    "neighbors": ("KNeighborsClassifier", "KNeighborsRegressor"),
    "svm": ("LinearSVC", "LinearSVR", "SVC", "SVR"),
}
# Of no meaning on a GPU.
HOST_ONLY = {"n_jobs", "algorithm", "leaf_size", "cache_size", "verbose", "copy_X", "warm_start"}


@dataclass(frozen=True)
class Substitute:
    """An estimator in the place of another.

    Attributes
    ----------
    estimator : unfitted
    implementation : "scikit-learn", "cuml", "xgboost on the GPU", or the estimator's own package
    reason : why
    """

    estimator: Any
    implementation: str
    reason: str
    replaced: bool = False


def substitute(estimator: Any, device: str) -> Substitute:
    """Return the implementation to use on a device.

    Parameters
    ----------
    estimator : unfitted; of a pipeline the last step is replaced
    device : {"cpu", "gpu"}
    """
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        found = substitute(estimator.steps[-1][1], device)
        whole = clone(estimator)
        whole.steps[-1] = (whole.steps[-1][0], found.estimator)
        return replace(found, estimator=whole)
    kind = type(estimator)
    package, _, rest = kind.__module__.partition(".")
    if package == "xgboost" and device == "gpu":
        made = clone(estimator).set_params(device="cuda")
        return Substitute(made, "xgboost on the GPU", "device='cuda'", True)
    itself = Substitute(estimator, "scikit-learn" if package == "sklearn" else package, "")
    if package == "xgboost":
        return replace(itself, reason="the workers have no GPU")
    if device != "gpu":
        return itself
    module, name = rest.partition(".")[0], kind.__name__
    path = f"cuml.{module}.{name}"
    if package != "sklearn" or name not in CUML.get(module, ()):
        return replace(itself, reason=f"cuML has no {name} that is the same model")
    try:
        theirs = getattr(import_module(f"cuml.{module}"), name)
    except Exception as error:  # without a driver it fails in several ways
        return replace(itself, reason=f"{path} cannot be imported ({type(error).__name__})")
    takes, defaults = inspect.signature(theirs).parameters, inspect.signature(kind).parameters
    params, lacks = {}, []
    for parameter, value in estimator.get_params(deep=False).items():
        default = defaults[parameter].default
        if default is value or default == value:
            continue
        if parameter in takes:
            params[parameter] = value
        elif parameter not in HOST_ONLY:
            lacks.append(f"{parameter}={value!r}")
    if lacks:
        return replace(itself, reason=f"{path} has no {', '.join(lacks)}")
    try:
        made = theirs(**params)
    except Exception as error:
        return replace(itself, reason=f"{path} does not take these parameters ({error})")
    return Substitute(made, "cuml", f"{path} has every parameter that is set", True)
