"""A kernel machine as an ONNX graph in double precision, and as a pipeline of scikit-learn."""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from pipelines.data.scaling import FittedScaling
from pipelines.export.check import Answers
from pipelines.export.graph import DOUBLE, OnnxGraph, prepared
from pipelines.export.parts import Exported, as_class_columns, plain_preparation
from pipelines.svm.kernel_machine import KernelMachine, KernelRegressor

Machine = KernelMachine | KernelRegressor


class ExportedMachine(Exported):
    """The model of a run of ``svm_grid``; attributes are those of ``Exported``."""

    model: Machine

    def answers(self, X: Any) -> Answers:
        machine = self.model
        if isinstance(machine, KernelRegressor):
            return Answers(None, {"prediction": machine.predict(X)})
        values: dict[str, np.ndarray] = {}
        if machine.calibration is not None:
            values["probabilities"] = machine.predict_proba(X)
        else:
            values["decision"] = as_class_columns(machine.decision_function(X))
        return Answers.of_codes(machine.classes_, machine.predict_codes(X), **values)

    def own_rows(self) -> np.ndarray | None:
        """The support vectors before scaling; None for a table with categories."""
        machine = self.model
        if not isinstance(machine.scaling, FittedScaling):
            return None
        rows = machine.support_vectors * machine.scaling.scale + machine.scaling.center
        return np.round(rows).astype(np.uint8) if self.images else np.asarray(rows, np.float64)

    def graph(self) -> OnnxGraph:
        graph, machine = OnnxGraph(), self.model
        rows = prepared(graph, machine.scaling, machine.support_vectors.shape[1], self.images)
        add_machine(graph, rows, machine)
        return graph

    def plain(self, X: Any) -> tuple[Any, list[str]]:
        notes = [
            "scikit-learn's Nystroem holds the kernel and its coefficients; no SVC is refitted"
        ]
        if isinstance(self.model, KernelMachine) and self.model.calibration is not None:
            notes.append(
                "probabilities are left out: no estimator of scikit-learn has these labels and "
                "these probabilities; --to onnx has both"
            )
        return plain_machine(self.model, self.images), notes

    def write_arrays(self, path: Path, about: dict[str, Any]) -> None:
        how = (
            "values = kernel((row - scaling.center) / scaling.scale, support_vectors) @ "
            "coefficients + intercepts; a column for each pair of classes (ovo: above 0 votes for "
            "the first of the pair), each class (ovr), or the target in units of target_scale"
        )
        self.model.save(path, how=how, **about)

    def read_arrays(self, path: Path) -> Exported:
        return ExportedMachine(type(self.model).load(path), self.record, self.images)


def add_machine(graph: OnnxGraph, rows: str, machine: Machine) -> None:
    """Add a machine's kernel, votes and calibration, and the graph's outputs.

    Everything is in double precision. ONNX's own operator for SVMs computes in single precision,
    which changes labels near a decision boundary.

    Parameters
    ----------
    graph : OnnxGraph
    rows : str
        The name of the scaled rows.
    machine : KernelMachine or KernelRegressor
    """
    kernel = machine.kernel.at(machine.gamma)
    # Support vectors of images are stored in single precision, in which pixels were scaled.
    support = machine.support_vectors.astype(np.float64)
    centre = kernel.centre(support)
    rows, vectors = graph.cast(rows, DOUBLE), graph.constant(machine.support_vectors)
    vectors = graph.cast(vectors, DOUBLE)
    if kernel.of_distances:
        rows, vectors = (
            graph.op("Sub", tensor, graph.constant(centre)) for tensor in (rows, vectors)
        )
    values = graph.op("MatMul", rows, graph.op("Transpose", vectors, perm=[1, 0]))
    if kernel.of_distances:
        norms = ((support - centre) ** 2).sum(axis=1)
        row_norms = graph.sum(graph.op("Mul", rows, rows), 1, keep=True)
        sums = graph.op("Add", row_norms, graph.constant(norms))
        twice = graph.op("Mul", values, graph.constant(2.0))
        distances = graph.op("Max", graph.op("Sub", sums, twice), graph.constant(0.0))
        values = graph.op("Exp", graph.op("Mul", distances, graph.constant(-kernel.gamma)))
    elif kernel.name != "linear":
        values = graph.op("Mul", values, graph.constant(float(kernel.gamma)))
        values = graph.op("Add", values, graph.constant(float(kernel.coef0)))
    if kernel.name == "sigmoid":
        values = graph.op("Tanh", values)
    if kernel.name == "poly":
        values = graph.op("Pow", values, graph.constant(float(kernel.degree)))
    values = graph.op("MatMul", values, graph.constant(machine.coefficients, np.float64))
    values = graph.op("Add", values, graph.constant(machine.intercepts, np.float64))
    if isinstance(machine, KernelRegressor):
        values = graph.op("Mul", values, graph.constant(float(machine.target_scale)))
        values = graph.op("Add", values, graph.constant(float(machine.target_mean)))
        flat = graph.op("Reshape", values, graph.constant([-1], np.int64))
        graph.output(flat, "prediction", DOUBLE)
        return
    n_classes = len(machine.classes_)
    is_ovr = machine.decision == "ovr" and n_classes > 2
    decision, codes = values, values
    if not is_ovr:
        first, second = pair_matrices(n_classes)
        codes, is_below = (
            graph.cast(graph.op(op_type, values, graph.constant(0.0)), DOUBLE)
            for op_type in ("Greater", "Less")
        )
        # A pair at exactly 0 votes for its second class in labels, for its first in decision
        # values, as in ``KernelMachine``.
        codes = _votes(graph, codes, first, second)
        votes = _votes(graph, is_below, second, first)
        sums = graph.op("MatMul", values, graph.constant(first - second))
        bound = graph.op("Add", graph.op("Abs", sums), graph.constant(1.0))
        bound = graph.op("Mul", bound, graph.constant(3.0))
        decision = graph.op("Add", votes, graph.op("Div", sums, bound))
    if n_classes == 2:
        decision = graph.op("Neg", values)
    graph.label(graph.argmax(codes), machine.classes_)
    if machine.calibration is None:
        if n_classes == 2:
            decision = graph.op("Concat", values, decision, axis=1)
        graph.output(decision, "decision", DOUBLE, n_classes)
        return
    slopes, offsets = machine.calibration.slopes, machine.calibration.offsets
    class_scores = graph.op("Mul", decision, graph.constant(-slopes))
    class_scores = graph.op("Sigmoid", graph.op("Sub", class_scores, graph.constant(offsets)))
    if n_classes == 2:
        complement = graph.op("Sub", graph.constant(1.0), class_scores)
        probabilities = graph.op("Concat", complement, class_scores, axis=1)
    else:
        total = graph.sum(class_scores, 1, keep=True)
        is_positive = graph.op("Greater", total, graph.constant(0.0))
        fractions = graph.op(
            "Div", class_scores, graph.op("Where", is_positive, total, graph.constant(1.0))
        )
        probabilities = graph.op("Where", is_positive, fractions, graph.constant(1.0 / n_classes))
    graph.output(probabilities, "probabilities", DOUBLE, n_classes)


def pair_matrices(n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """One-hot rows of the first and of the second class of each pair: (n_pairs, n_classes) each."""
    pairs = np.array([*combinations(range(n_classes), 2)])
    first, second = (np.eye(n_classes)[pairs[:, side]] for side in (0, 1))
    return first, second


def _votes(graph: OnnxGraph, wins: str, winner: np.ndarray, loser: np.ndarray) -> str:
    """Votes for each class: a pair votes for its ``winner`` if ``wins`` is 1, else its ``loser``.

    Parameters
    ----------
    graph : OnnxGraph
    wins : str
        The name of a tensor of 0 and 1, of shape (n_rows, n_pairs).
    winner, loser : arrays of shape (n_pairs, n_classes)
        One-hot.
    """
    votes = graph.op("MatMul", wins, graph.constant(winner - loser))
    return graph.op("Add", votes, graph.constant(loser.sum(axis=0)))


def plain_machine(machine: Machine, images: bool = False) -> Any:
    """A kernel machine as a fitted pipeline of scikit-learn's own classes.

    Their fitted attributes are set directly. ``Nystroem`` computes the kernel between rows and its
    components, times a matrix: here the support vectors and their coefficients. The steps behind it
    add the intercepts, count the votes and choose the class.

    Parameters
    ----------
    machine : KernelMachine or KernelRegressor
    images : bool, default False
        Whether rows are pixels.

    Returns
    -------
    sklearn.pipeline.Pipeline
    """
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import LinearRegression
    from sklearn.pipeline import Pipeline
    from sklearn.preprocessing import Binarizer, StandardScaler
    from sklearn.svm import LinearSVC

    kernel, (n_support, n_features) = machine.kernel, machine.support_vectors.shape
    n_problems = len(machine.intercepts)
    expansion = Nystroem(
        kernel=kernel.name,
        gamma=float(machine.gamma),
        coef0=None if kernel.name in ("rbf", "linear") else float(kernel.coef0),
        degree=kernel.degree if kernel.name == "poly" else None,
        n_components=n_support,
    )
    expansion.components_ = machine.support_vectors.astype(np.float64)
    expansion.component_indices_ = np.arange(n_support)
    expansion.normalization_ = np.ascontiguousarray(machine.coefficients.T, np.float64)
    expansion.n_features_in_ = n_features
    steps = [*plain_preparation(machine.scaling, n_features, images), ("kernel", expansion)]
    if isinstance(machine, KernelRegressor):
        line = LinearRegression()
        line.coef_ = np.array([machine.target_scale])
        line.intercept_ = float(machine.intercepts[0] * machine.target_scale + machine.target_mean)
        line.n_features_in_ = 1
        return Pipeline([*steps, ("target", line)])
    shift = StandardScaler(with_std=False)
    shift.mean_, shift.scale_, shift.var_ = -np.asarray(machine.intercepts, np.float64), None, None
    shift.n_features_in_, shift.n_samples_seen_ = n_problems, n_support
    steps.append(("intercepts", shift))
    n_classes, classifier = len(machine.classes_), LinearSVC()
    if machine.decision == "ovr" and n_classes > 2:
        classifier.coef_, classifier.intercept_ = np.eye(n_classes), np.zeros(n_classes)
    else:
        first, second = pair_matrices(n_classes)
        wins = Binarizer()
        wins.n_features_in_ = n_problems
        steps.append(("pairs", wins))
        classifier.coef_, classifier.intercept_ = (first - second).T, second.sum(axis=0)
        if n_classes == 2:  # LinearSVC has one value then; above 0 it means the second class
            classifier.coef_, classifier.intercept_ = np.array([[-1.0]]), np.array([0.5])
    classifier.classes_, classifier.n_features_in_ = machine.classes_, n_problems
    return Pipeline([*steps, ("votes", classifier)])
