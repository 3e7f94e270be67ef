"""A ``PathSVC`` that another backend than the path solver on a CPU fits."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from pipelines.data.placement import to_device
from pipelines.svm.backends import Settings, load_backend
from pipelines.svm.path_svc import PathSVC


class BackendSVC(PathSVC):
    """The parameters of ``PathSVC``, fitted by any backend; ``n_iter_`` and ``fit_status_`` are -1,
    not known.

    Attributes
    ----------
    backend : a name in ``BACKENDS``, and ``"cpu"`` or ``"gpu"``
    client : distributed.Client, on a worker of which fits are made, for a process that is to keep
        its hands off the GPUs of workers; None: fits are made here. It does not travel.
    """

    backend: tuple[str, str] = ("path", "cpu")
    client: Any = None

    def __sklearn_clone__(self) -> Self:
        made: Self = super().__sklearn_clone__()
        made.backend, made.client = self.backend, self.client
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: one for name, one in super().__getstate__().items() if name != "client"}

    def fit(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit on the rows of ``X``; see ``PathSVC.fit``."""
        assert sample_weight is None
        if self.probability:
            return self.fit_calibrated(X, y)
        rows, y = self.validated(X, y)
        rows = np.asarray(rows, np.float64 if self.backend[1] == "cpu" else np.float32)
        gamma = self.gamma_of(rows)
        settings = replace(Settings.of(self), n_threads=self.n_jobs or 1, device=self.backend[1])
        given: list[Any] = [self.backend, rows, y, self.C, gamma, settings]
        if self.client is None:
            support, coefficients, intercepts = fit_parts(*given)
        else:
            given = self.client.scatter(given, hash=False)
            future = self.client.submit(fit_parts, *given, pure=False)
            support, coefficients, intercepts = future.result()
        self.classes_, codes = np.unique(y, return_inverse=True)
        by_class = np.argsort(codes[support], kind="stable")
        self.n_support_ = np.bincount(codes[support], minlength=len(self.classes_))
        self.n_iter_ = np.full(len(intercepts), -1, np.int32)
        self._keep_fit(
            rows, support[by_class], -1, coefficients=coefficients[by_class],
            intercepts=intercepts, gamma=gamma, classes_=self.classes_, decision=self.decision,
        )  # fmt: skip
        return self


def fit_parts(
    name: tuple[str, str], X: np.ndarray, y: np.ndarray, C: float, gamma: float, settings: Settings
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Fit rows on the host by a backend, see ``Backend.fit_parts``; a task."""
    backend = load_backend(*name)
    return backend.fit_parts(to_device(X, backend.device), y, C, gamma, settings)
