"""``--solver cuml``: ``cuml.svm.SVC`` on a GPU, one fit for each binary problem of a cell.

The only file that knows cuml. A multi-class ``cuml.svm.SVC`` (26.10) copies the data to the host
and back for each of its binary problems. Here the problems are fitted one by one, from rows that
are already on the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from pipelines.data.device_memory import free_unused
from pipelines.data.fits import Fit, Progress
from pipelines.data.placement import to_device, to_host
from pipelines.svm.backends.base import OneByOne, Work, join_problems
from pipelines.svm.multiclass import class_values, codes_of
from pipelines.svm.search import class_factors, problems_of, sort_rows
from pipelines.svm.settings import Settings


@dataclass(frozen=True)
class FittedProblems:
    """The binary problems of one multi-class SVM.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
    binary : list of cuml.svm.SVC
        One for each problem; its decision values are positive for the problem's first class.
    rows : list of int arrays
        The training rows of each problem.
    decision : {"ovo", "ovr"}
    """

    classes_: np.ndarray
    binary: list[Any]
    rows: list[np.ndarray]
    decision: str

    def predict(self, X: Any) -> np.ndarray:
        """Predicted classes of the rows of a cupy array of shape (n_samples, n_features)."""
        return self.classes_[codes_of(self._values(X), len(self.classes_), self.decision)]

    def decision_function(self, X: Any) -> np.ndarray:
        """Decision values in the form of ``SVC.decision_function``, on the host."""
        return class_values(self._values(X), len(self.classes_), self.decision)

    def _values(self, X: Any) -> np.ndarray:
        columns = [to_host(svc.decision_function(X)).reshape(-1) for svc in self.binary]
        return np.stack(columns, axis=1)


class CumlBackend(OneByOne):
    """``cuml.svm.SVC``."""

    device = "gpu"

    def fit_cells(self, work: Work) -> Iterator[Fit | Progress]:
        try:
            yield from super().fit_cells(work)
        finally:
            free_unused()  # GPU memory grew with each SVC in long runs

    def fit(self, X: Any, y: np.ndarray, C: float, gamma: float, settings: Settings) -> Any:
        # Imported here: a process that only plans a run imports this file, and importing cuml takes
        # hold of a GPU.
        from cuml.svm import SVC

        classes, codes = np.unique(y, return_inverse=True)
        layout, binary, rows_of, factors = sort_rows(y), [], [], None
        for problem in problems_of(len(classes), settings.decision):
            positive, negative = problem.first, problem.second
            sides = (codes == positive) | (codes == negative)
            rows = np.arange(len(codes)) if negative is None else np.flatnonzero(sides)
            if settings.class_weight is not None:
                # Factors of the two sides, 0 being the negative one, balanced over all classes as
                # in SVC. The classes of the rest share one factor, as a side can have only one:
                # SVMGridSearch refuses a dictionary for one-vs-rest.
                factor_of_code = class_factors(
                    layout, problem, np.ones(len(y)), settings.class_weight
                )
                factors = {0: factor_of_code[positive - 1 if negative is None else negative]}
                factors[1] = factor_of_code[positive]
            parameters = settings.svc | {"class_weight": factors}
            svc = SVC(C=C, gamma=gamma, **parameters, output_type="cupy")
            target = (codes[rows] == positive).astype(np.float32)
            svc.fit(X[to_device(rows, "gpu")], to_device(target, "gpu"))
            binary.append(svc)
            rows_of.append(rows)
        return FittedProblems(classes, binary, rows_of, settings.decision)

    def summarize(self, fitted: Any) -> tuple[int, int, bool]:
        support = [
            rows[to_host(svc.support_)]
            for svc, rows in zip(fitted.binary, fitted.rows, strict=True)
        ]
        iterations = [int(np.sum(to_host(svc.n_iter_))) for svc in fitted.binary]
        # cuml's fit_status_ is always 0: only an iteration count at the limit shows that a fit did
        # not converge. Without a limit cuml stops silently after 100 n iterations, or after 1000
        # without progress.
        limit = fitted.binary[0].max_iter
        converged = limit == -1 or max(iterations) < limit
        return len(np.unique(np.concatenate(support))), sum(iterations), converged

    def parts(self, fitted: Any) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        return join_problems(
            [
                (
                    rows[to_host(svc.support_)],
                    to_host(svc.dual_coef_).reshape(-1).astype(np.float64),
                    float(to_host(svc.intercept_).reshape(-1)[0]),
                )
                for svc, rows in zip(fitted.binary, fitted.rows, strict=True)
            ]
        )


BACKEND = CumlBackend()
