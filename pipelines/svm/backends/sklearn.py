"""``--solver sklearn``: LIBSVM as ``sklearn.svm.SVC``, one fit for each cell."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from pipelines.svm.backends.base import OneByOne, join_problems
from pipelines.svm.multiclass import spread
from pipelines.svm.settings import Settings


class SklearnBackend(OneByOne):
    """``sklearn.svm.SVC``, or a class that behaves like it.

    scikit-learn is imported only to fit: a process whose workers fit starts faster without it.
    """

    @property
    def svc(self) -> type:
        """The class that fits."""
        from sklearn.svm import SVC

        return SVC

    def fit(self, X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        """See ``OneByOne.fit``; an ``SVC``, or a ``OneVsRestClassifier`` of several."""
        from sklearn.exceptions import ConvergenceWarning
        from sklearn.multiclass import OneVsRestClassifier

        svc = self.svc(C=C, gamma=gamma, **settings.svc)
        if settings.decision == "ovr" and len(np.unique(y)) > 2:
            svc = OneVsRestClassifier(svc)
        with warnings.catch_warnings():
            # The status of the row says so: "not converged".
            warnings.simplefilter("ignore", ConvergenceWarning)
            return svc.fit(X, y)

    def summarize(self, fitted: Any) -> tuple[int, int, bool]:
        svcs = getattr(fitted, "estimators_", [fitted])
        n_support = len(np.unique(np.concatenate([svc.support_ for svc in svcs])))
        n_iterations = int(sum(np.sum(svc.n_iter_) for svc in svcs))
        # oneDAL's fit_status_ is always 0; only an iteration count at the limit shows it.
        converged = all(
            svc.fit_status_ == 0 and (svc.max_iter == -1 or np.max(svc.n_iter_) < svc.max_iter)
            for svc in svcs
        )
        return n_support, n_iterations, converged

    def parts(self, fitted: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        if hasattr(fitted, "estimators_"):
            return join_problems(
                [(svc.support_, svc.dual_coef_[0], svc.intercept_[0]) for svc in fitted.estimators_]
            )
        if len(fitted.classes_) == 2:  # scikit-learn flips the sign of a single problem
            return fitted.support_, -fitted.dual_coef_.T, -fitted.intercept_
        return fitted.support_, spread(fitted.dual_coef_, fitted.n_support_), fitted.intercept_


BACKEND = SklearnBackend()
