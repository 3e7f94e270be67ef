"""The same model on a GPU: cuML's estimators in place of scikit-learn's.

An estimator is replaced if cuML's ``from_sklearn`` converts it with its parameters; every row says
why it was replaced, or why not. ``cuml.accel`` converts by the same rules, but for a whole process,
and only its log tells what ran where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from importlib import import_module
from typing import Any

MOST_CHARACTERS = 200  # characters of an error message


@dataclass(frozen=True)
class Substitute:
    """The estimator that is fitted for a candidate: another implementation, or its own.

    Attributes
    ----------
    estimator : scikit-learn estimator
        Unfitted.
    implementation : str
        "scikit-learn", "cuml", "xgboost on the GPU", or the estimator's own package.
    reason : str
        Why this implementation was chosen.
    replaced : bool, default False
        Whether it differs from the candidate's own.
    """

    estimator: Any
    implementation: str
    reason: str
    replaced: bool = False


def substitute(estimator: Any, device: str) -> Substitute:
    """Choose the implementation of an estimator for a device.

    Call it in the process that fits, as cuML looks for its GPU.

    Parameters
    ----------
    estimator : scikit-learn estimator
        Unfitted; in a pipeline, the last step is replaced.
    device : {"cpu", "gpu"}

    Returns
    -------
    Substitute
    """
    if not hasattr(estimator, "fit"):  # of a search that does without scikit-learn
        return Substitute(estimator, "", "")
    from sklearn.base import clone
    from sklearn.pipeline import Pipeline

    if isinstance(estimator, Pipeline):
        name, final = estimator.steps[-1]
        replacement = substitute(final, device)
        if replacement.estimator is final:
            return replace(replacement, estimator=estimator)
        pipeline = clone(estimator)
        pipeline.steps[-1] = (name, replacement.estimator)
        return replace(replacement, estimator=pipeline)
    estimator_class = type(estimator)
    package, _, module_path = estimator_class.__module__.partition(".")
    if package == "xgboost" and device == "gpu":
        gpu_estimator = clone(estimator).set_params(device="cuda")
        return Substitute(gpu_estimator, "xgboost on the GPU", "device='cuda'", True)
    if estimator_class.__module__ == "pipelines.nn.estimator":
        return Substitute(clone(estimator).set_params(device=device), "torch", "")
    no_substitute = Substitute(estimator, "scikit-learn" if package == "sklearn" else package, "")
    if package == "xgboost":
        return replace(no_substitute, reason="the workers have no GPU")
    if device != "gpu":
        return no_substitute
    path = f"cuml.{module_path.partition('.')[0]}.{estimator_class.__name__}"
    if package != "sklearn":
        return replace(no_substitute, reason=f"cuML has no {estimator_class.__name__}")
    module, _, name = path.rpartition(".")
    try:
        gpu_estimator = getattr(import_module(module), name).from_sklearn(estimator)
    except Exception as error:  # it has no such class, lacks a parameter, or finds no driver
        message = " ".join(str(error).split())[:MOST_CHARACTERS]  # cupy's are long and framed
        return replace(no_substitute, reason=f"not by {path}: {message or type(error).__name__}")
    if name == "SVC":  # scikit-learn's is one-vs-one whatever shape its decision values have
        gpu_estimator.set_params(decision_function_shape="ovo")
    return Substitute(gpu_estimator, "cuml", f"converted by {path}.from_sklearn", True)
