"""The same model on a GPU: cuML's estimators in the place of scikit-learn's.

One is taken where cuML converts scikit-learn's with its parameters, by ``from_sklearn``; why it
was taken, or was not, is said with every row. (``cuml.accel`` converts by the same rules, but for
all of a process, and only its log knows what ran where.)
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

MOST_SAID = 200  # characters of an error


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
    """Return the implementation to use on a device; call it where that is fitted.

    Parameters
    ----------
    estimator : unfitted; of a pipeline the last step is replaced
    device : {"cpu", "gpu"}
    """
    if not hasattr(estimator, "fit"):  # of a search that does without scikit-learn
        return Substitute(estimator, "", "")
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        found = substitute(final, device)
        if found.estimator is final:
            return replace(found, estimator=estimator)
        whole = clone(estimator)
        whole.steps[-1] = (name, found.estimator)
        return replace(found, estimator=whole)
    kind = type(estimator)
    package, _, rest = kind.__module__.partition(".")
    if package == "xgboost" and device == "gpu":
        made = clone(estimator).set_params(device="cuda")
        return Substitute(made, "xgboost on the GPU", "device='cuda'", True)
    if kind.__module__ == "pipelines.nn.estimator":
        return Substitute(clone(estimator).set_params(device=device), "torch", "")
    itself = Substitute(estimator, "scikit-learn" if package == "sklearn" else package, "")
    if package == "xgboost":
        return replace(itself, reason="the workers have no GPU")
    if device != "gpu":
        return itself
    path = f"cuml.{rest.partition('.')[0]}.{kind.__name__}"
    if package != "sklearn":
        return replace(itself, reason=f"cuML has no {kind.__name__}")
    module, _, name = path.rpartition(".")
    try:
        made = getattr(import_module(module), name).from_sklearn(estimator)
    except Exception as error:  # it has no such class, lacks a parameter, or finds no driver
        said = " ".join(str(error).split())[:MOST_SAID]  # cupy's have a frame of many lines
        return replace(itself, reason=f"not by {path}: {said or type(error).__name__}")
    if name == "SVC":  # scikit-learn's is one-vs-one whatever shape its decision values have
        made.set_params(decision_function_shape="ovo")
    return Substitute(made, "cuml", f"converted by {path}.from_sklearn", True)
