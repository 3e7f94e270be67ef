"""The candidates of ``cross_validate``, behind the first steps of ``--preprocess``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from pipelines.data.dataset import Dataset
from pipelines.data.placement import FoldedData
from pipelines.data.scaling import Scaling
from pipelines.data.user_files import USER_ERRORS, read_yaml
from pipelines.errors import InputError, opt
from pipelines.search.candidates import Candidate, Grid, candidates_of
from pipelines.search.estimators import estimator_of, refuse_unknown, wants_scale

if TYPE_CHECKING:
    from pipelines.data.tables import Kinds

LAST = "model"  # the name of the last step


def unscaled(data: Dataset) -> FoldedData:
    """Return the rows as estimators take them: pixels scaled, columns of tables as they came."""
    rows = [data.X_train, data.X_test]
    if data.image_shape is not None:
        fitted = data.scaling.fit(data.X_train)
        rows = [np.asarray(fitted.transform(X), np.float64) for X in rows]
    return FoldedData(rows[0], data.y_train, rows[1], data.y_test, (), Scaling("none"))


def make_candidates(
    names: Sequence[str], grids: Mapping[str, Grid], data: Dataset, seed: int, preprocess: str
) -> list[Candidate]:
    """Return every combination of parameters of every algorithm.

    Raises
    ------
    InputError
        An estimator or a parameter is not known, or is none for the task.
    """
    from sklearn.base import clone

    found = []
    for name in names:
        estimator = estimator_of(name, data.task, seed)
        whole = pipeline_of(estimator, data, preprocess)
        grid = {parameter_name(whole, key): values for key, values in grids.get(name, {}).items()}
        for given, key in zip(grids.get(name, {}), grid, strict=True):
            if key.endswith(given) and key != given:
                refuse_unknown(estimator, [given], name)
            else:
                refuse_unknown(whole, [key], name)
        typed = list(grids.get(name, {}))
        for parameters in candidates_of(grid):
            made = clone(whole).set_params(**parameters)
            shown = dict(zip(typed, parameters.values(), strict=True))
            found.append(Candidate(name, shown, made))
    return found


def pipeline_of(estimator: Any, data: Dataset, preprocess: str) -> Any:
    """Return the estimator, behind what its rows need.

    Parameters
    ----------
    estimator : unfitted
    preprocess : "auto", "none", or the path of a YAML file of steps

    Raises
    ------
    InputError
        The file cannot be read, or the table has what an estimator cannot take.
    """
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import StandardScaler

    # Of a table with categories or missing cells; an array has none.
    kinds: Kinds | None = getattr(data.scaling, "kinds", None)
    scale = preprocess == "auto" and wants_scale(estimator)
    steps: list[tuple[str, Any]] = []
    if kinds is not None:
        from pipelines.data.tables.preprocess import TablePreprocessor

        if preprocess == "none":
            raise InputError(
                f"{opt('preprocess')} must not be none for a table with text or missing cells "
                "such as "
                f"{data.name}; use auto"
            )
        steps = [("table", TablePreprocessor(kinds, scale=scale))]
    elif scale and data.image_shape is None:
        steps = [("scale", StandardScaler())]
    if preprocess not in ("auto", "none"):
        steps += _of_file(preprocess)
    return Pipeline([*steps, (LAST, estimator)]) if steps else estimator


def parameter_name(estimator: Any, name: str) -> str:
    """Return a parameter's name in the pipeline: of the last step, if none is named."""
    if not hasattr(estimator, "steps") or type(estimator).__name__ != "Pipeline":
        return name
    steps = [step for step, _ in estimator.steps[:-1]]
    return name if name.split("__")[0] in steps else f"{LAST}__{name}"


def _of_file(path: str) -> list[tuple[str, Any]]:
    """Return steps of a YAML file: a list of ``{name: {class: import path, parameter: value}}``."""
    from importlib import import_module

    form = "a list of steps, each {name: {class: sklearn.decomposition.PCA, parameter: value}}"
    content = read_yaml(path, f"{opt('preprocess')} must be auto, none or")
    if not isinstance(content, list) or not content:
        raise InputError(f"{opt('preprocess')} must hold {form}, got {path}; write it so")
    steps = []
    for one in content:
        try:
            ((name, parameters),) = one.items()
            module, _, kind = parameters.pop("class").rpartition(".")
            made = getattr(import_module(module), kind)(**parameters)
            if not hasattr(made, "fit") or not hasattr(made, "transform"):
                raise TypeError("it has no fit and transform")
        except USER_ERRORS as error:
            raise InputError(
                f"{opt('preprocess')} must hold {form} whose classes are transformers that can be "
                f"made, got {one!r} ({type(error).__name__}: {error}); mend {path}"
            ) from None
        steps.append((str(name), made))
    return steps
