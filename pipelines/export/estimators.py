"""An estimator of ``cross_validate``, exported by skl2onnx or as it is."""

from __future__ import annotations

import contextlib
import copy
import io
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.errors import InputError, error_line, opt
from pipelines.export.check import Answers
from pipelines.export.exported_model import Exported, as_class_columns, plain_preparation
from pipelines.export.onnx_graph import DOUBLE, INT64, OPSET, OPSET_ML, OnnxGraph, prepared
from pipelines.export.svm import add_machine, plain_machine
from pipelines.search.model import FittedEstimator
from pipelines.search.scoring import last_step
from pipelines.svm.path_estimator import PathEstimator


class ExportedEstimator(Exported):
    """The model of a run of ``cross_validate``; attributes are those of ``Exported``."""

    model: FittedEstimator

    def answers(self, X: Any) -> Answers:
        model, codes = self.model, self.model.predict_codes(X)
        if model.classes_ is None:
            return Answers(None, {"prediction": codes.astype(np.float64)})
        values: dict[str, np.ndarray] = {}
        known_codes = getattr(model.estimator, "classes_", None)
        if known_codes is not None and hasattr(model, "predict_proba"):
            # A column for each class; classes without a training row have probability 0.
            probabilities = np.zeros((len(codes), len(model.classes_)))
            probabilities[:, np.asarray(known_codes)] = model.predict_proba(X)
            values["probabilities"] = probabilities
        elif isinstance(self._steps[1][-1], PathEstimator):
            values["decision"] = as_class_columns(model.decision_function(X))
        return Answers.of_codes(model.classes_, codes, **values)

    @property
    def _steps(self) -> tuple[Any, list[Any]]:
        """The fitted preparation of the rows, or None, and the steps of the estimator behind it."""
        estimator = self.model.estimator
        steps = [step for _, step in getattr(estimator, "steps", [("", estimator)])]
        steps = [step for step in steps if step is not None and step != "passthrough"]
        if type(steps[0]).__name__ == "TablePreprocessor":
            return steps[0], steps[1:]
        return self.model.scaling, steps

    def graph(self) -> OnnxGraph:
        graph, model, (preparation, steps) = OnnxGraph(), self.model, self._steps
        rows = prepared(graph, preparation, model.n_features_in_, self.images)
        width = len(getattr(preparation, "layout", ())) or model.n_features_in_
        width = len(preparation._names()) if hasattr(preparation, "_names") else width
        rows, classes = graph.cast(rows, DOUBLE), model.classes_
        if isinstance(steps[-1], PathEstimator):
            if len(steps) > 1:
                (rows,) = graph.inline(_converted(steps[:-1], width), rows)[:1]
            add_machine(graph, rows, _machine_of(steps[-1], classes))
            return graph
        outputs = graph.inline(_converted(steps, width), rows)
        if classes is None:
            flat = graph.op(
                "Reshape", graph.cast(outputs[0], DOUBLE), graph.constant([-1], np.int64)
            )
            graph.output(flat, "prediction", DOUBLE)
            return graph
        codes = graph.op("Reshape", graph.cast(outputs[0], INT64), graph.constant([-1], np.int64))
        graph.label(codes, classes)
        known_codes = getattr(model.estimator, "classes_", None)
        if known_codes is not None and hasattr(model, "predict_proba"):
            probabilities = graph.cast(outputs[1], DOUBLE)
            if len(known_codes) < len(classes):
                unit_rows = np.eye(len(classes))[np.asarray(known_codes)]
                probabilities = graph.op("MatMul", probabilities, graph.constant(unit_rows))
            graph.output(probabilities, "probabilities", DOUBLE, len(classes))
        return graph

    def plain(self, X: Any) -> tuple[Any, list[str]]:
        from sklearn.pipeline import Pipeline

        preparation, steps = self._steps
        if isinstance(steps[-1], PathEstimator):
            machine = _machine_of(steps[-1], self.model.classes_)
            steps = [*steps[:-1], plain_machine(machine)]
        first = plain_preparation(preparation, self.model.n_features_in_, self.images)
        named_steps = [
            (f"{number}-{type(step).__name__}", step) for number, step in enumerate(steps)
        ]
        model: Any = Pipeline([*first, *named_steps]) if first or len(named_steps) > 1 else steps[0]
        classes = self.model.classes_
        if classes is None or isinstance(steps[-1], Pipeline):
            return model, []
        labelled_model = copy.deepcopy(model)
        final = last_step(labelled_model)
        try:  # most classifiers predict by indexing this attribute
            final.classes_ = classes[final.classes_]
            if np.array_equal(labelled_model.predict(X), classes[model.predict(X)]):
                return labelled_model, []
        except (AttributeError, IndexError, TypeError, ValueError):
            pass
        class_list = ", ".join(f"{code} {label}" for code, label in enumerate(classes[:20]))
        return model, [f"it predicts numbers of classes in place of labels: {class_list}"]

    def write_arrays(self, path: Path, about: dict[str, Any]) -> None:
        raise InputError(
            f"{opt('to')} must be onnx, skops or sklearn for a run of cross-validate, whose "
            f"estimators have no arrays of a common form; use {opt('to', 'skops')}"
        )

    def read_arrays(self, path: Path) -> Exported:
        raise NotImplementedError


def _machine_of(estimator: Any, classes: np.ndarray | None) -> Any:
    from dataclasses import replace

    machine = estimator.machine_
    return machine if classes is None else replace(machine, classes_=classes[machine.classes_])


def _converted(steps: list[Any], width: int) -> Any:
    """Convert fitted steps by skl2onnx, in double precision.

    Parameters
    ----------
    steps : list of estimators
    width : int
        Number of features of a row.

    Raises
    ------
    InputError
        skl2onnx has no converter for a step.
    """
    from skl2onnx import convert_sklearn
    from skl2onnx.common.data_types import DoubleTensorType
    from sklearn.base import is_classifier
    from sklearn.pipeline import Pipeline

    estimator = (
        steps[0] if len(steps) == 1 else Pipeline([(f"s{i}", s) for i, s in enumerate(steps)])
    )
    options = {id(steps[-1]): {"zipmap": False}} if is_classifier(steps[-1]) else None
    try:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            return convert_sklearn(
                estimator,
                initial_types=[("X", DoubleTensorType([None, width]))],
                target_opset={"": OPSET, "ai.onnx.ml": OPSET_ML},
                options=options,
            )
    except Exception as error:  # each converter raises other errors
        names = ", ".join(type(step).__name__ for step in steps)
        raise InputError(
            f"{opt('to', 'onnx')} must be a model that skl2onnx converts, got {names} "
            f"({error_line(error)}); use {opt('to', 'skops')} or {opt('to', 'sklearn')}"
        ) from None
