"""A solver's fit, its scaling within, as a scikit-learn estimator."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin

from pipelines.data.placement import to_device
from pipelines.data.preparation import Preparation
from pipelines.data.scaling import Scaling
from pipelines.svm.refit import machine_of
from pipelines.svm.solvers import Settings, load_solver


class SolverClassifier(ClassifierMixin, BaseEstimator):
    """Fits unscaled rows: the scaling is learned from the rows of each fit alone.

    For scikit-learn's own tools, which clone it and fit it on class codes of parts of a
    data set; the model within is one of labels.

    Parameters
    ----------
    solver : str, a name in ``SOLVERS``
    C, gamma : float
    settings : Settings
        A dict of class weights in it is one of labels.
    scaling : Scaling or Preparation
    labels : array of shape (n_labels,), what class codes stand for

    Attributes
    ----------
    classes_ : array of shape (n_classes,), class codes
    fitted_ : what the solver gave; it takes scaled rows
    machine_ : KernelMachine of the same model; it takes unscaled rows
    """

    def __init__(
        self,
        solver: str,
        C: float,
        gamma: float,
        settings: Settings,
        scaling: Scaling | Preparation,
        labels: np.ndarray,
    ) -> None:
        self.solver = solver
        self.C = C
        self.gamma = gamma
        self.settings = settings
        self.scaling = scaling
        self.labels = labels

    def fit(self, X: Any, y: np.ndarray) -> Self:
        """Fit on rows of shape (n_samples, n_features) and their class codes."""
        solver = load_solver(self.solver, self.settings.device)
        scaling = self.scaling.fit(X)
        scaled = scaling.transform(X)
        if solver.device == "gpu":
            scaled = to_device(scaled.astype(np.float32), solver.device)
        self.classes_ = np.unique(y)
        self.fitted_ = solver.fit(scaled, self.labels[y], self.C, self.gamma, self.settings)
        self.machine_ = machine_of(
            solver.parts(self.fitted_, X), X, scaling, self.labels[self.classes_], self.gamma,
            self.settings,
        )  # fmt: skip
        return self

    def predict(self, X: Any) -> np.ndarray:
        """Class codes of unscaled rows, an array of shape (n_samples,)."""
        return self.classes_[self.machine_.predict_codes(X)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values of unscaled rows, in the form of ``SVC.decision_function``."""
        return self.machine_.decision_function(X)
